//! The task behind an election: does what the group says, and tells it what happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{AcquireOptions, Acquired, Client, Error};
use setpoint_types::kinds::Lease;
use setpoint_types::object::Fence;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::group::{Effect, Group, Input, Own};
use super::keeper::{Asked, Told};
use super::machine::CallId;
use super::name::{Layout, Names};
use super::settings::Options;
use super::stats::Stats;
use super::table::{News, Table};
use super::view::{Part, Seen, View};
use crate::cache::Cache;

/// How long a process that ends tries to give its leases back, beyond what its runs take to end.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Driver {
    client: Client,
    cache: Cache<Lease>,
    names: Names,
    me: String,
    options: Options,
    group: Group,
    table: Arc<Table>,
    stats: Arc<Stats>,
    calls: JoinSet<Done>,
    asking: BTreeMap<Own, AbortHandle>,
    keep: mpsc::Sender<Asked>,
    kept: mpsc::Receiver<Told>,
    moved: Arc<Notify>,
}

/// What a driver is made from.
pub(super) struct Parts {
    pub client: Client,
    pub cache: Cache<Lease>,
    pub names: Names,
    pub me: String,
    pub options: Options,
    pub table: Arc<Table>,
    pub stats: Arc<Stats>,
}

/// A call that has ended.
enum Done {
    Acquired { own: Own, call: CallId, sent: Instant, answer: Result<Acquired, Error> },
    Released { own: Own, call: CallId, answer: Result<bool, Error> },
}

impl Driver {
    /// `keep` has room for as many as there are leases: each asks for one keep-alive at a time.
    pub fn new(parts: Parts, keep: mpsc::Sender<Asked>, kept: mpsc::Receiver<Told>) -> Self {
        let Parts { client, cache, names, me, options, table, stats } = parts;
        let group = Group::new(names.clone(), me.clone(), options.clone(), Instant::now());
        Self {
            client,
            cache,
            names,
            me,
            options,
            group,
            table,
            stats,
            calls: JoinSet::new(),
            asking: BTreeMap::new(),
            keep,
            kept,
            moved: Arc::default(),
        }
    }

    /// Until it is told to stop and has given everything back, or could not within its time.
    pub async fn run(mut self, stop: CancellationToken) {
        let moved = Arc::downgrade(&self.moved);
        let names = self.names.clone();
        self.cache.observe(Box::new(move |delta| {
            if let (Some(moved), Some(_)) = (moved.upgrade(), names.read(delta.key.name())) {
                moved.notify_one();
            }
        }));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            synced = self.cache.synced() => if synced.is_err() {
                return;
            },
        }
        self.look();
        let mut over = None;
        while !self.group.is_over() && over.is_none_or(|over| Instant::now() < over) {
            let wake_at = self.group.wake_at().into_iter().chain(over).min();
            tokio::select! {
                biased;
                () = stop.cancelled(), if over.is_none() => {
                    over = Some(Instant::now() + self.options.drain() + RELEASE_PATIENCE);
                    self.step(Input::Stop);
                }
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {
                    self.step(Input::Tick);
                }
                Some(told) = self.kept.recv() => self.told(told),
                Some(done) = self.calls.join_next() => if let Ok(done) = done {
                    self.done(done);
                },
                () = self.table.woken() => self.news(),
                () = self.moved.notified() => self.look(),
            }
        }
    }

    fn step(&mut self, input: Input) {
        let entropy = self.client.entropy().clone();
        let effects = self.group.step(input, Instant::now(), &mut || entropy.fraction());
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Acquire { own, call, lease, wait } => self.acquire(own, call, lease, wait),
            Effect::Abandon(own) => {
                if let Some(asking) = self.asking.remove(&own) {
                    asking.abort();
                }
            }
            Effect::Keep(own, fence) => {
                let sent = Instant::now();
                // It has room by construction; an answer that never comes would be the end of this lease.
                if let Err(error) = self.keep.try_send(Asked { own, fence }) {
                    let (mpsc::error::TrySendError::Full(asked) | mpsc::error::TrySendError::Closed(asked)) =
                        error;
                    self.told(Told { asked, sent, answer: None });
                }
            }
            Effect::Release { own, call, fence } => self.release(own, call, fence),
            Effect::Grant(shard, fence, until) => {
                tracing::info!(
                    controller = self.names.controller(),
                    shard = shard.0,
                    epoch = fence.epoch.0,
                    "shard gained"
                );
                self.stats.gained(shard, fence.epoch, Instant::now());
                self.table.grant(shard, fence, until);
            }
            Effect::Extend(shard, until) => self.table.extend(shard, until),
            Effect::Drain(shard) => {
                self.stats.moved();
                self.table.close(shard, true);
            }
            Effect::Resume(shard) => self.table.close(shard, false),
            Effect::Revoke(shard) => {
                tracing::info!(controller = self.names.controller(), shard = shard.0, "shard lost");
                self.stats.lost(shard);
                self.table.revoke(shard);
            }
            Effect::Part(part) => self.part(&part),
        }
    }

    fn part(&self, part: &Part) {
        self.stats.standing_by(matches!(part, Part::StandBy(_)));
        if let Part::StandBy(Layout(others)) = part {
            tracing::warn!(
                controller = self.names.controller(),
                shards = self.options.settings().shards,
                others,
                "other processes of this controller split its keys into another number of shards: standing by until they are gone"
            );
        }
    }

    fn acquire(&mut self, own: Own, call: CallId, lease: String, wait: Duration) {
        let options = AcquireOptions {
            namespace: self.options.settings().namespace.clone(),
            lease,
            holder: self.me.clone(),
            ttl: Some(self.options.ttl()),
            wait,
            ..AcquireOptions::default()
        };
        let leases = self.client.with_timeout(self.options.ttl()).leases();
        let sent = Instant::now();
        let asked = async move {
            let answer = leases.acquire(&options).await;
            Done::Acquired { own, call, sent, answer }
        };
        self.asking.insert(own, self.calls.spawn(asked));
    }

    fn release(&mut self, own: Own, call: CallId, fence: Fence) {
        let leases = self.client.with_timeout(self.options.ttl()).leases();
        let holder = self.me.clone();
        self.calls.spawn(async move {
            let answer = leases.release(&fence, &holder).await;
            Done::Released { own, call, answer }
        });
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Acquired { own, call, sent, answer } => {
                let answer = answer.inspect_err(|error| self.failed("acquire", own, error)).ok();
                self.step(Input::Acquired { own, call, sent, answer });
            }
            Done::Released { own, call, answer } => {
                let answered = answer.inspect_err(|error| self.failed("release", own, error)).is_ok();
                self.step(Input::Released { own, call, answered });
            }
        }
    }

    fn failed(&self, what: &'static str, own: Own, error: &Error) {
        self.stats.failed();
        tracing::warn!(controller = self.names.controller(), lease = ?own, %error, "{what} failed");
    }

    fn told(&mut self, told: Told) {
        let Told { asked: Asked { own, fence }, sent, answer } = told;
        match (own, answer) {
            (_, None) => self.stats.keep_failed(),
            (Own::Shard(shard), Some(kept)) if kept.held => self.stats.renewed(shard, sent),
            _ => {}
        }
        self.step(Input::Kept { own, fence, sent, answer });
    }

    fn news(&mut self) {
        for news in self.table.news() {
            match news {
                News::Drained(shard, fence) => self.step(Input::Drained(shard, fence)),
                News::Fenced(shard, fence) => self.step(Input::Fenced(shard, fence)),
            }
        }
    }

    /// Reads the leases anew.
    fn look(&mut self) {
        let leases = self.cache.snapshot();
        let seen = leases.namespace(&self.options.settings().namespace).filter_map(|lease| {
            // Of others, only the name is read.
            self.names.read(lease.key().name())?;
            let object = lease.read().ok()?;
            let status = object.status.unwrap_or_default();
            Seen::read(&self.names, lease.key().name(), &status, lease.revision())
        });
        let view = View::new(leases.revision(), seen);
        self.stats.members(view.members(Layout(self.options.settings().shards)).len());
        self.step(Input::View(view));
    }
}

impl Drop for Driver {
    /// However the task ends, nobody goes on.
    fn drop(&mut self) {
        self.table.revoke_all();
    }
}
