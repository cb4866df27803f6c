//! The leader's lease keeper: follows the store's leases and the leadership, and proposes expiries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use setpoint_consensus::{Clock, Role};
use setpoint_store::command::Command;
use setpoint_store::{Found, Rejection};
use setpoint_types::LeaseId;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Observed;
use super::deadlines::{Deadlines, Expired, Lifetime};
use crate::coordination::expiry;
use crate::replica::{ProposeError, Replica};

/// How often an expiry is made anew because the object it rewrites was changed meanwhile.
const REWRITES_MAX: usize = 4;

#[derive(Clone, Debug)]
pub struct LessorOptions {
    /// No lease is shorter than this, so that a client can renew in spite of an election.
    pub ttl_min: Duration,
    /// What a new leader adds to every lease.
    pub grace: Duration,
    /// How often expired leases are looked for.
    pub tick: Duration,
    /// Expiries proposed per tick.
    pub expiries_per_tick: usize,
}

impl LessorOptions {
    /// For a cluster with this election timeout.
    pub fn for_election(timeout: Duration) -> Self {
        Self {
            ttl_min: timeout.mul_f32(1.5),
            grace: timeout,
            tick: Duration::from_millis(250),
            expiries_per_tick: 512,
        }
    }
}

pub struct Lessor {
    replica: Replica,
    clock: Arc<dyn Clock>,
    options: LessorOptions,
    counting: Mutex<Counting>,
}

#[derive(Default)]
struct Counting {
    /// The term we lead in, while we do.
    term: Option<u64>,
    deadlines: Deadlines,
    /// The store's last change of a lease when we last looked.
    seen: u64,
    /// What holders said they have seen, of leases that exist.
    observed: HashMap<LeaseId, Observed>,
}

/// What the leader alone knows of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseTime {
    /// None: it does not exist.
    pub remaining: Option<Duration>,
    pub observed: Observed,
}

impl Lessor {
    pub fn new(replica: Replica, clock: Arc<dyn Clock>, options: LessorOptions) -> Arc<Self> {
        Arc::new(Self { replica, clock, options, counting: Mutex::default() })
    }

    /// The lifetime a lease gets if it asks for `ttl` seconds.
    pub fn granted(&self, ttl: i64) -> i64 {
        ttl.max(self.options.ttl_min.as_secs_f32().ceil() as i64)
    }

    /// What a new leader adds to every lease.
    pub fn grace(&self) -> Duration {
        self.options.grace
    }

    /// Renews leases: the seconds each got anew, 0 for one that does not exist. None if we do not lead: only the leader
    /// knows that a lease does not exist. The caller has proven that we led when it asked.
    /// `observed` is by the place among the ids.
    pub fn renew(&self, ids: &[LeaseId], observed: Vec<(usize, Observed)>) -> Option<Vec<i64>> {
        let now = Instant::now();
        let mut counting = self.counting.lock();
        self.follow(&mut counting, now);
        counting.term?;
        let seconds = |ttl: Option<Duration>| ttl.map_or(0, |ttl| ttl.as_secs() as i64);
        let ttls: Vec<i64> = ids.iter().map(|id| seconds(counting.deadlines.renew(*id, now))).collect();
        for (place, observed) in observed {
            if let Some(id) = ids.get(place).filter(|_| ttls[place] > 0) {
                counting.observed.insert(*id, observed);
            }
        }
        Some(ttls)
    }

    /// What is known of leases, in the order asked. None if we do not lead.
    pub fn times(&self, ids: &[LeaseId]) -> Option<Vec<LeaseTime>> {
        let now = Instant::now();
        let mut counting = self.counting.lock();
        self.follow(&mut counting, now);
        counting.term?;
        let time = |id: &LeaseId| LeaseTime {
            remaining: counting.deadlines.lifetime(*id, now).map(|lifetime| match lifetime {
                Lifetime::Remaining(left) => left,
                Lifetime::Expiring => Duration::ZERO,
            }),
            observed: counting.observed.get(id).cloned().unwrap_or_default(),
        };
        Some(ids.iter().map(time).collect())
    }

    /// Seconds left, or -1 for a lease that does not exist. None if we do not lead.
    pub fn remaining(&self, id: LeaseId) -> Option<i64> {
        let now = Instant::now();
        let mut counting = self.counting.lock();
        self.follow(&mut counting, now);
        counting.term?;
        Some(match counting.deadlines.lifetime(id, now) {
            Some(Lifetime::Remaining(left)) => left.as_secs() as i64,
            Some(Lifetime::Expiring) => 0,
            None => -1,
        })
    }

    /// Brings the clockwork in step with the store and the leadership.
    fn follow(&self, counting: &mut Counting, now: Instant) {
        let status = self.replica.status();
        if status.role != Role::Leader {
            *counting = Counting::default();
            return;
        }
        let (term, grace, store) = (status.term, self.options.grace, &self.replica.store);
        let Counting { term: counted, deadlines, seen, observed } = counting;
        if *counted != Some(term) {
            deadlines.clear();
        }
        // Within one leadership the state is never replaced as a whole, so its changes add up.
        let update = if *counted == Some(term) { store.lease_changes(*seen) } else { None };
        match update {
            Some(update) => {
                for (id, lease) in &update.leases {
                    match lease {
                        Some(lease) => deadlines.take(lease, now, term, grace),
                        None => deadlines.forget(*id),
                    }
                }
                *seen = update.at;
            }
            None => {
                let all = store.granted_leases();
                deadlines.follow(&all.leases, now, term, grace);
                *seen = all.at;
            }
        }
        observed.retain(|id, _| deadlines.lifetime(*id, now).is_some());
        *counted = Some(term);
    }

    /// Proposes the expiry of leases whose time is up, for as long as the node runs.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = interval(self.options.tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let (term, expired) = {
                let now = Instant::now();
                let mut counting = self.counting.lock();
                self.follow(&mut counting, now);
                let Some(term) = counting.term else { continue };
                (term, counting.deadlines.take_expired(now, self.options.expiries_per_tick))
            };
            let mut proposals: FuturesUnordered<_> =
                expired.into_iter().map(|expired| self.expire(expired, term)).collect();
            while proposals.next().await.is_some() {}
        }
    }

    async fn expire(&self, expired: Expired, term: u64) {
        if let Err(error) = self.propose_expiry(expired.id, term).await {
            tracing::debug!(lease = %expired.id, %error, "an expiry was not applied");
            let again = Instant::now() + self.options.tick;
            self.counting.lock().deadlines.retry(expired, again);
        }
    }

    /// The hold of a lease object ends together with what the object tells of it. Where that cannot be, the hold ends all
    /// the same: nobody must be kept waiting by an object.
    async fn propose_expiry(&self, lease: LeaseId, term: u64) -> Result<(), ProposeError> {
        let observed = self.counting.lock().observed.get(&lease).cloned().unwrap_or_default();
        for _ in 0..REWRITES_MAX {
            let (store, now, observed) = (self.replica.store.clone(), self.clock.now(), observed.clone());
            let made = spawn_blocking(move || expiry::commit(&store, lease, term, now, observed)).await;
            let Ok(Some(commit)) = made else { break };
            match self.replica.propose(Command::Commit(Arc::new(commit))).await {
                Ok(_) => return Ok(()),
                Err(ProposeError::Rejected(Rejection::Guard { found: Found::Term(_), .. })) => {
                    return Err(Rejection::Deposed.into());
                }
                // The object was changed meanwhile.
                Err(ProposeError::Rejected(Rejection::Guard { .. })) => {}
                Err(ProposeError::Rejected(_) | ProposeError::TooLarge) => break,
                Err(error) => return Err(error),
            }
        }
        self.replica.propose(Command::LeaseExpire { lease, term }).await.map(drop)
    }
}
