//! From changes to keys: what caches tell becomes keys in the queue, and nothing else.
//!
//! Keys of shards that are not open are dropped at the door: when a shard is opened, all its keys are added. The same is the
//! answer to a queue that had no room. Not here: when either happens (`shards.rs`, `engine.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_types::Revision;

use super::gate::Gate;
use super::metrics::ControllerCounters;
use super::ownership::Ownership;
use super::predicate::Predicate;
use super::run::Wake;
use super::source::{Primary, Source};
use super::wakes::{Wakes, Woken};
use super::writers::Writers;
use crate::cache::{Cause, Delta, Key};
use crate::election::ShardId;
use crate::queue::{Ask, Priority, Queue};

pub(super) struct Feed {
    pub primary: Primary,
    pub sources: Vec<Source>,
    pub urgent: Option<Predicate>,
    pub queue: Queue<Key>,
    pub ownership: Arc<dyn Ownership>,
    pub gate: Gate,
    pub counters: ControllerCounters,
    /// Whoever writes the conditions of this controller.
    pub own_manager: String,
    pub writers: Writers,
    wakes: Mutex<Wakes>,
}

/// What a feed is made of.
pub(super) struct Parts {
    pub primary: Primary,
    pub sources: Vec<Source>,
    pub urgent: Option<Predicate>,
    pub queue: Queue<Key>,
    pub ownership: Arc<dyn Ownership>,
    pub counters: ControllerCounters,
    pub own_manager: String,
    pub writers: Writers,
}

impl Feed {
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { primary, sources, urgent, queue, ownership, counters, own_manager, writers } = parts;
        let (gate, wakes) = (Gate::default(), Mutex::default());
        Arc::new(Self {
            primary,
            sources,
            urgent,
            queue,
            ownership,
            gate,
            counters,
            own_manager,
            writers,
            wakes,
        })
    }

    /// Listens to the caches from now on.
    pub fn listen(self: &Arc<Self>) {
        for (number, source) in self.sources.iter().enumerate() {
            // The cache must not keep the controller, which keeps the cache.
            let feed = Arc::downgrade(self);
            source.cache.observe(Box::new(move |delta| {
                if let Some(feed) = feed.upgrade() {
                    feed.told(number, delta);
                }
            }));
        }
    }

    /// A predicate or a mapping is somebody else's code, and this is the task that feeds the cache: a panic must not end it.
    fn told(&self, source: usize, delta: &Delta) {
        let dispatched = catch_unwind(AssertUnwindSafe(|| self.dispatch(&self.sources[source], delta)));
        if dispatched.is_err() {
            self.counters.mapping_panics.inc();
            let kind = &*self.sources[source].cache.kind;
            tracing::error!(kind, key = %delta.key, "a predicate or a mapping panicked");
        }
    }

    fn dispatch(&self, source: &Source, delta: &Delta) {
        if source.is_primary() {
            if self.is_own_condition(delta) {
                return;
            }
            self.watch_writers(delta);
        }
        if !source.passes(delta) {
            return;
        }
        let priority = match delta.cause {
            Cause::Initial | Cause::Relist => Priority::Bulk,
            Cause::Event if self.urgent.as_ref().is_some_and(|urgent| urgent.holds(delta)) => {
                Priority::Urgent
            }
            Cause::Event => Priority::Normal,
        };
        let wake = wake(source, delta);
        source.keys(delta, &self.primary, &mut |key| {
            if !self.works_on(&key) {
                return;
            }
            // Before the key can run.
            self.wakes.lock().note(key.clone(), delta.revision, wake.clone());
            // Where there is no room the queue asks for everything later.
            self.queue.offer(key, Ask::from(priority));
        });
    }

    /// A condition that this controller's loop has set is nothing to look at again.
    fn is_own_condition(&self, delta: &Delta) -> bool {
        delta.cause == Cause::Event
            && delta.after.is_some()
            && delta.author().is_some_and(|author| author.manager == self.own_manager)
    }

    /// An oscillation that begins is counted, and shown by the next run of its key.
    fn watch_writers(&self, delta: &Delta) {
        if let Some(oscillation) = self.writers.note(delta)
            && self.works_on(&delta.key)
        {
            self.counters.oscillations.inc();
            let (kind, key, [one, other]) = (&*self.primary.kind, &delta.key, &oscillation.managers);
            tracing::warn!(kind, %key, one, other, "two managers undo each other's changes");
            self.queue.offer(key.clone(), Priority::Normal);
        }
    }

    pub fn works_on(&self, key: &Key) -> bool {
        self.gate.is_open(self.ownership.shard_of(key.stable_hash()))
    }

    /// What made the key run, and from when it has to see things. It is told once: a run that failed may not have come to use it, so
    /// the next one has to see what all sources have now. Sources go back if the cluster was restored; what was later is gone then.
    pub fn take_woken(&self, key: &Key, is_retry: bool) -> Woken {
        let (woken, newest) = (self.wakes.lock().take(key), self.newest());
        let not_before = if is_retry { newest } else { woken.not_before.min(newest) };
        Woken { not_before, ..woken }
    }

    /// What the source that is furthest has come to.
    fn newest(&self) -> Revision {
        self.sources.iter().filter_map(|source| source.cache.position()).max().unwrap_or_default()
    }

    /// Adds every key of these shards that any source knows of, and waits for room. False if the queue is shut down.
    pub async fn replay(&self, within: impl Fn(ShardId) -> bool + Send + Sync) -> bool {
        for source in &self.sources {
            let view = source.view();
            self.wakes.lock().note_all(view.revision());
            let mut keys = Vec::new();
            for entry in view.iter() {
                let delta = Delta::initial((*entry).clone());
                // One that panics does so for every resync, and is told of once, by its change.
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    if source.passes(&delta) {
                        source.keys(&delta, &self.primary, &mut |key| keys.push(key));
                    }
                }));
                for key in keys.drain(..) {
                    let shard = self.ownership.shard_of(key.stable_hash());
                    if within(shard) && self.queue.add(key, Priority::Bulk).await.is_err() {
                        return false;
                    }
                }
                tokio::task::consume_budget().await;
            }
        }
        true
    }
}

fn wake(source: &Source, delta: &Delta) -> Option<Wake> {
    if delta.cause != Cause::Event {
        return None;
    }
    let author = delta.author().unwrap_or_default();
    Some(Wake {
        object: delta.key.of_kind(&source.cache.kind),
        revision: delta.revision,
        manager: author.manager,
        trace: author.trace,
    })
}
