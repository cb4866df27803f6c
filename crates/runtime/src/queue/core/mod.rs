//! The queue as a state machine: the time and all randomness come in as arguments.
//!
//! A key is in one place at a time:
//!
//! ```text
//!            add, due later ┌─────────┐ its time has come
//!        ┌─────────────────▶│ waiting ├────────┐
//!        │                  └────▲────┘        ▼
//!    not known      retry, later │         ┌───────┐ next  ┌─────────┐ finish: nothing wanted
//!        │                       │         │ ready ├──────▶│ running ├──────────────────────▶ not known
//!        │ add                   │         └─▲───▲─┘       └──┬───┬──┘
//!        └───────────────────────┼───────────┘   └────────────┘   │
//!                                │                added meanwhile │
//!                                └────────────────────────────────┘
//! ```
//!
//! `slot` has what is known of a key and when it wants to run, `ready` which key goes first, `backoff` and `bucket` the two
//! limits. Not here: waiting, clocks and metrics, which are the shell's (`super::shell`).

mod backoff;
mod bucket;
mod list;
mod moment;
mod outcome;
mod priority;
mod ready;
mod settings;
mod slot;
mod slots;
mod tenant;

pub use backoff::Backoff;
pub(crate) use bucket::Bucket;
pub use moment::Moment;
pub use outcome::{Added, Ask, Drain, Next, Offered, Outcome, Refusal, Refused, Snapshot, Ticket};
pub use priority::{LEVELS, PRIORITIES, Priority};
pub use settings::{Options, Settings, SettingsError, SettingsProblem};
pub use tenant::{Tenant, TenantOf};

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

use list::{LinkTable, List};
use ready::Ready;
use slot::{Ended, Place, Slot};
use slots::Slots;

/// Waiting keys whose time has come that one call makes ready. Whatever is left is made ready by the next calls, each of
/// which hands out one key at most, so that a herd of timers neither holds the lock for long nor is kept out.
const DUE_PER_CALL: usize = 64;

/// The state machine. [`Queue`](super::Queue) promises to users what this one keeps.
///
/// Guarantees: those of `Q1` to `Q8` in `docs/INVARIANTS.md`. It decides by its arguments only.
///
/// Assumes that `tenant_of` is pure, that `K`'s `Eq` and `Hash` agree, and that every ticket comes back. A time before one
/// that it was given earlier counts as that one.
#[derive(Debug)]
pub struct Core<K> {
    options: Options,
    tenant_of: TenantOf<K>,
    backoff: Backoff,
    bucket: Bucket,
    slots: Slots<K>,
    /// Of keys that wait, by their time. Ties go by number.
    timers: BTreeSet<(Moment, u32)>,
    ready: Ready,
    /// Ready keys and running keys, each by how long they are.
    ages: LinkTable,
    ready_ages: List,
    running_ages: List,
    running: usize,
    /// The sum of the starts of all runs that have not ended.
    started_nanos: u128,
    now: Moment,
    closed: Option<Drain>,
    overflowed: bool,
}

impl<K: Eq + Hash> Core<K> {
    pub fn new(options: Options, tenant_of: TenantOf<K>) -> Self {
        Self {
            backoff: Backoff::new(&options),
            bucket: Bucket::new(&options),
            ready: Ready::new(&options),
            options,
            tenant_of,
            slots: Slots::default(),
            timers: BTreeSet::new(),
            ages: LinkTable::default(),
            ready_ages: List::default(),
            running_ages: List::default(),
            running: 0,
            started_nanos: 0,
            now: Moment::default(),
            closed: None,
            overflowed: false,
        }
    }

    /// Asks for a run of this key. Refused only if the key is not known and there is no room, or after shutdown.
    pub fn add(&mut self, now: Moment, key: K, ask: Ask) -> Result<Added, Refused<K>> {
        let now = self.advance(now);
        if self.closed.is_some() {
            return Err(Refused { key, reason: Refusal::ShutDown });
        }
        let due = now.after(ask.delay);
        let hash = self.slots.hash(&key);
        if let Some(id) = self.slots.find(hash, &key) {
            return Ok(self.join(id, due, ask.priority));
        }
        if self.slots.len() >= self.room(ask.priority) {
            return Err(Refused { key, reason: Refusal::Full });
        }
        let lane = self.ready.enter(self.tenant_of.ask(&key));
        let mut slot = Slot::new(key, hash, lane, ask.priority);
        slot.ask(due);
        let id = self.slots.insert(slot);
        self.ages.reserve(id);
        self.settle(id);
        Ok(Added::Queued)
    }

    /// As `add`, for callers who cannot wait: where there is no room, the key is dropped and a resync is owed.
    pub fn offer(&mut self, now: Moment, key: K, ask: Ask) -> Offered {
        match self.add(now, key, ask) {
            Ok(added) => Offered::Added(added),
            Err(Refused { reason: Refusal::Full, .. }) => {
                self.overflowed = true;
                Offered::Overflowed
            }
            Err(Refused { reason: Refusal::ShutDown, .. }) => Offered::ShutDown,
        }
    }
}

impl<K> Core<K> {
    /// Keys were dropped and there is room again: whoever is told so adds every key there is. Offers that are dropped from
    /// now on make for another resync.
    pub fn take_overflow(&mut self) -> bool {
        let due = self.overflowed && self.slots.len() <= self.options.resync_keys_max();
        self.overflowed &= !due;
        due
    }

    /// The next key to run, or how long there is none.
    pub fn next(&mut self, now: Moment) -> Next<K> {
        let now = self.advance(now);
        if self.closed == Some(Drain::Running) {
            return Next::Closed;
        }
        self.promote();
        if !self.ready.has_next() {
            let at_rest = self.closed.is_some() && self.ready.is_empty();
            return if at_rest { Next::Closed } else { Next::Wait(self.next_timer()) };
        }
        if let Err(token_at) = self.bucket.take(now) {
            return Next::Wait(Some(token_at));
        }
        match self.ready.pop() {
            Some(id) => Next::Run(self.start(id)),
            None => Next::Wait(self.next_timer()),
        }
    }

    /// Takes a ticket back. Returns how long the run took. `random` is uniform over all numbers.
    pub fn finish(&mut self, now: Moment, ticket: Ticket<K>, outcome: Outcome, random: u64) -> Duration {
        let now = self.advance(now);
        let slot = &mut self.slots[ticket.id];
        let Place::Running { since, early, again } = slot.place else {
            panic!("Q2: a ticket came back of a key that does not run: was it another queue's?");
        };
        slot.finish(now, Ended { outcome, early, again, random }, &self.backoff);
        let lane = slot.lane;
        self.running_ages.remove(&mut self.ages, ticket.id);
        self.running -= 1;
        self.started_nanos -= since.elapsed().as_nanos();
        self.ready.finished(lane);
        self.settle(ticket.id);
        now.since(since)
    }

    /// Takes no more adds. A second call can only do less than the first.
    pub fn shut_down(&mut self, drain: Drain) {
        self.closed = match self.closed {
            Some(Drain::Running) => Some(Drain::Running),
            _ => Some(drain),
        };
    }

    /// Shut down, and done with what was to be done after that.
    pub fn is_drained(&self) -> bool {
        let handed_out = self.closed == Some(Drain::Running) || self.ready.is_empty();
        self.closed.is_some() && self.running == 0 && handed_out
    }

    pub fn is_shut_down(&self) -> bool {
        self.closed.is_some()
    }

    /// There is something that somebody who waits for keys should know of.
    pub fn has_more(&self) -> bool {
        self.ready.has_next() || !self.timers.is_empty()
    }

    pub fn snapshot(&mut self, now: Moment) -> Snapshot {
        let now = self.advance(now);
        self.promote();
        let since = |id: Option<u32>| match id.map(|id| self.slots[id].place) {
            Some(Place::Ready { since } | Place::Running { since, .. }) => now.since(since),
            _ => Duration::ZERO,
        };
        let elapsed = now.elapsed().as_nanos() * self.running as u128;
        let unfinished = u64::try_from(elapsed - self.started_nanos).unwrap_or(u64::MAX);
        Snapshot {
            ready: PRIORITIES.map(|priority| self.ready.keys(priority)),
            waiting: self.timers.len(),
            running: self.running,
            tenants: self.ready.tenants(),
            oldest_age: since(self.ready_ages.first()),
            longest_running: since(self.running_ages.first()),
            unfinished: Duration::from_nanos(unfinished),
            overflowed: self.overflowed,
        }
    }

    /// A clock that goes back stands still instead.
    fn advance(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    /// Keys there may be before one of this priority is refused.
    fn room(&self, priority: Priority) -> usize {
        match priority {
            Priority::Bulk => self.options.bulk_keys_max(),
            Priority::Normal | Priority::Urgent => self.options.settings().keys_max,
        }
    }

    /// Adds to what is wanted of a key that is known.
    fn join(&mut self, id: u32, due: Moment, priority: Priority) -> Added {
        let slot = &mut self.slots[id];
        slot.ask(due);
        let urgent = slot.priority.urgent_of(priority);
        match &mut slot.place {
            Place::Running { again, .. } => {
                *again = Some(again.map_or(priority, |before| before.urgent_of(priority)));
                Added::Joined
            }
            Place::Ready { .. } if urgent == slot.priority => Added::Joined,
            Place::Ready { .. } => {
                let (lane, before) = (slot.lane, slot.priority);
                slot.priority = urgent;
                self.ready.remove(id, lane, before);
                self.ready.push(id, lane, urgent);
                Added::Moved
            }
            Place::Waiting { .. } | Place::Nowhere => {
                slot.priority = urgent;
                if self.settle(id) { Added::Moved } else { Added::Joined }
            }
        }
    }

    /// Puts a key that is neither ready nor running where it belongs, and says whether that is another place.
    fn settle(&mut self, id: u32) -> bool {
        let slot = &mut self.slots[id];
        let wake = slot.wake();
        if let Place::Waiting { until } = slot.place {
            if wake == Some(until) {
                return false;
            }
            self.timers.remove(&(until, id));
        }
        match wake {
            None => self.forget(id),
            Some(at) if at <= self.now => self.make_ready(id),
            Some(at) => {
                slot.place = Place::Waiting { until: at };
                self.timers.insert((at, id));
            }
        }
        true
    }

    fn forget(&mut self, id: u32) {
        if let Some(slot) = self.slots.remove(id) {
            self.ready.leave(slot.lane);
        }
    }

    fn make_ready(&mut self, id: u32) {
        let slot = &mut self.slots[id];
        slot.place = Place::Ready { since: self.now };
        self.ready.push(id, slot.lane, slot.priority);
        self.ready_ages.push(&mut self.ages, id);
    }

    /// Makes keys ready whose time has come.
    fn promote(&mut self) {
        if self.closed.is_some() {
            return;
        }
        for _ in 0..DUE_PER_CALL {
            match self.timers.first() {
                Some(&(at, id)) if at <= self.now => {
                    self.timers.pop_first();
                    self.make_ready(id);
                }
                _ => return,
            }
        }
    }

    fn next_timer(&self) -> Option<Moment> {
        let first = self.timers.first().map(|(at, _)| *at);
        first.filter(|_| self.closed.is_none())
    }

    fn start(&mut self, id: u32) -> Ticket<K> {
        let now = self.now;
        let slot = &mut self.slots[id];
        let waited = match slot.place {
            Place::Ready { since } => now.since(since),
            _ => Duration::ZERO,
        };
        slot.start(now);
        let key = slot.key.clone();
        let ticket = Ticket { id, key, priority: slot.priority, failures: slot.failures(), waited };
        self.ready_ages.remove(&mut self.ages, id);
        self.running_ages.push(&mut self.ages, id);
        self.running += 1;
        self.started_nanos += now.elapsed().as_nanos();
        ticket
    }
}
