//! Who counts the time of leases: the leader's own clockwork, over tokio's clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use setpoint_apiserver::coordination::{Keeper, expiry};
use setpoint_apiserver::lease::{Deadlines, LeaseTime, Lifetime, Observed};
use setpoint_apiserver::objects::Refusal;
use setpoint_consensus::Clock;
use setpoint_store::command::Command;
use setpoint_types::LeaseId;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::log::{Log, TERM};

/// How often it is looked whether a lease's time is up, as the leader does.
const TICK: Duration = Duration::from_millis(250);
const EXPIRED_MAX: usize = 100;
/// As a cluster with the default elections grants.
const TTL_MIN: i64 = 2;

pub struct TimeKeeper {
    log: Arc<Log>,
    deadlines: Mutex<Deadlines>,
    observed: Mutex<BTreeMap<LeaseId, Observed>>,
}

impl TimeKeeper {
    pub fn new(log: Arc<Log>) -> Self {
        Self { log, deadlines: Mutex::default(), observed: Mutex::default() }
    }

    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(sleep(TICK)).await.is_some() {
            self.expire();
        }
    }

    fn expire(&self) {
        let expired = self.followed(|deadlines| deadlines.take_expired(Instant::now(), EXPIRED_MAX));
        for lease in expired.into_iter().map(|it| it.id) {
            let observed = self.observed.lock().remove(&lease).unwrap_or_default();
            let commit = expiry::commit(&self.log.store, lease, TERM, self.log.clock.now(), observed);
            let command = match commit {
                Some(commit) => Command::Commit(Arc::new(commit)),
                None => Command::LeaseExpire { lease, term: TERM },
            };
            self.log.apply(command).expect("nobody writes between the look and the commit");
        }
    }

    fn followed<T>(&self, act: impl FnOnce(&mut Deadlines) -> T) -> T {
        let mut deadlines = self.deadlines.lock();
        let leases = self.log.store.granted_leases().leases;
        deadlines.follow(&leases, Instant::now(), TERM, Duration::ZERO);
        act(&mut deadlines)
    }
}

impl Keeper for TimeKeeper {
    fn granted(&self, ttl: i64) -> i64 {
        ttl.max(TTL_MIN)
    }

    fn renew(&self, id: LeaseId, observed: Observed) -> BoxFuture<'_, Result<i64, Refusal>> {
        let ttl = self.followed(|deadlines| deadlines.renew(id, Instant::now()));
        if ttl.is_some() && !observed.is_empty() {
            self.observed.lock().insert(id, observed);
        }
        let seconds = ttl.map_or(0, |ttl| i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        Box::pin(std::future::ready(Ok(seconds)))
    }

    fn times(&self, ids: Vec<LeaseId>) -> BoxFuture<'_, Result<Vec<LeaseTime>, Refusal>> {
        let observed = self.observed.lock();
        let times = self.followed(|deadlines| {
            let remaining = |id| {
                deadlines.lifetime(id, Instant::now()).map(|lifetime| match lifetime {
                    Lifetime::Remaining(left) => left,
                    Lifetime::Expiring => Duration::ZERO,
                })
            };
            let time = |id: LeaseId| LeaseTime {
                remaining: remaining(id),
                observed: observed.get(&id).cloned().unwrap_or_default(),
            };
            ids.into_iter().map(time).collect()
        });
        Box::pin(std::future::ready(Ok(times)))
    }
}
