//! The queue as producers and workers use it: waits, wakes and measures around the state machine.
//!
//! One short lock around `core` and no task of its own. Who waits: workers for a key, producers for room, whoever stops the
//! controller for the end. Not here: any decision about a key (`core`).

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::{
    Added, Ask, Core, Drain, Next, Offered, Options, Outcome, Priority, Refusal, Refused, Snapshot, TenantOf,
    Ticket,
};
use super::metrics::{Counters, QueueMetrics};
use super::seams::{Clock, Seams};

/// The work queue of one controller. Clones are handles of the same queue.
///
/// # Guarantees
/// - **No key is lost.** An add that was taken is answered by a run that begins after it, and not before its delay is over. A
///   key that was taken is never dropped for room, and a key whose worker vanishes runs again.
/// - **No key runs twice at the same time**, and adds of a key that waits are answered by one run together. Adds during a run
///   are answered by exactly one more.
/// - **A key that fails waits**, longer each time, with a part left to chance. Adds during that time do not lengthen the wait,
///   and a run that they bring forward does not count as another failure if it fails too. They shorten it, to
///   `event_wait_percent` of it counted from the end of the last run, so that a repaired object is looked at soon, and one that
///   changes and fails without end keeps a pace.
/// - **Nothing starves.** A key before which `p` keys of its tenant and priority are ready, among at most `t` tenants, is handed
///   out within `(p + 1) * t * (ageing_gets + 3)` keys. `p` counts from its last change of priority.
/// - **Bounded.** No more than `keys_max` keys are known, those of running workers and of retries included.
///
/// # Assumptions
/// - Whoever uses [`offer`](Self::offer) also answers [`overflowed`](Self::overflowed) with an add of every key there is.
/// - A worker does not wait in [`add`](Self::add) for room that only workers can make; it uses `offer`.
/// - A run decides by itself when it wants to be woken: a new run voids the [`Outcome::After`] of the one before.
///
/// # What it does not promise
/// - An order between keys, other than by the bound above. Tenants at `tenant_running_max` are outside of it.
/// - Anything about what was added before the process began, or was left when it ended: a controller begins with all keys.
/// - Several delayed adds of one key each have their run on time: the first has, and the last; those in between are answered at
///   the latest with the last.
/// - To give up. `Running::failures` says how often a key has failed; whether that is too often is the controller's to say.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    clock: Arc<dyn Clock>,
    counters: Counters,
    /// Something became ready, or will be at another time than workers think, or the queue was shut down.
    work: Notify,
    /// A key was forgotten, or the queue was shut down.
    room: Notify,
    /// The queue has drained.
    quiet: Notify,
}

struct State<K> {
    core: Core<K>,
    random: Box<dyn FnMut() -> u64 + Send>,
    /// Who waits for `room`. Nobody is told of it as long as there is nobody.
    short_of_room: usize,
}

impl<K: Eq + Hash + Send + Sync + 'static> Queue<K> {
    pub fn new(options: Options, tenant_of: TenantOf<K>, seams: Seams) -> Self {
        let core = Core::new(options, tenant_of);
        let state = Mutex::new(State { core, random: seams.random, short_of_room: 0 });
        let (work, room, quiet) = (Notify::new(), Notify::new(), Notify::new());
        let counters = Counters::default();
        Self { shared: Arc::new(Shared { state, clock: seams.clock, counters, work, room, quiet }) }
    }

    /// Shows the queue's metrics under the name of its controller. They do not keep the queue alive.
    pub fn show(&self, controller: &str, metrics: &QueueMetrics) {
        let shared = Arc::downgrade(&self.shared);
        let snapshot = move || shared.upgrade().map(|shared| shared.snapshot());
        metrics.show(controller, self.shared.counters.clone(), snapshot);
    }

    /// Asks for a run, or gives the key back: the queue is full or shut down.
    pub fn try_add(&self, key: K, ask: impl Into<Ask>) -> Result<Added, Refused<K>> {
        let added = self.shared.admit(key, ask.into());
        if added.is_err() {
            self.shared.counters.refused.inc();
        }
        added
    }

    /// Asks for a run, and waits for room if there is none: whoever reads a watch reads no further meanwhile. Refused only if
    /// the queue is shut down. The delay counts from when there is room.
    ///
    /// Dropped while it waits, it has not added the key.
    pub async fn add(&self, key: K, ask: impl Into<Ask>) -> Result<Added, Refused<K>> {
        let ask = ask.into();
        let mut key = match self.shared.admit(key, ask) {
            Err(Refused { key, reason: Refusal::Full }) => key,
            taken_or_closed => return taken_or_closed,
        };
        let _waiting = ShortOfRoom::new(&self.shared);
        loop {
            let room = self.shared.room.notified();
            match self.shared.admit(key, ask) {
                Err(Refused { key: back, reason: Refusal::Full }) => key = back,
                taken_or_closed => return taken_or_closed,
            }
            room.await;
        }
    }

    /// Asks for a run, and never waits or fails: where there is no room the key is dropped, and
    /// [`overflowed`](Self::overflowed) asks for every key once there is.
    pub fn offer(&self, key: K, ask: impl Into<Ask>) -> Offered {
        let shared = &*self.shared;
        let offered = shared.state.lock().core.offer(shared.clock.now(), key, ask.into());
        match offered {
            Offered::Added(added) => shared.note_added(added),
            Offered::Overflowed => {
                shared.counters.overflowed.inc();
                // There may be room enough for a resync at once: bulk is refused before the queue is full.
                shared.room.notify_waiters();
            }
            Offered::ShutDown => drop(shared.counters.refused.inc()),
        }
        offered
    }

    /// Waits until offers were dropped and there is room again. Whoever is told so adds every key there is, as
    /// [`Priority::Bulk`] and by [`add`](Self::add), and asks again. False once the queue is shut down.
    pub async fn overflowed(&self) -> bool {
        let _waiting = ShortOfRoom::new(&self.shared);
        loop {
            let room = self.shared.room.notified();
            {
                let mut state = self.shared.state.lock();
                if state.core.is_shut_down() {
                    return false;
                }
                if state.core.take_overflow() {
                    return true;
                }
            }
            room.await;
        }
    }
}

impl<K> Queue<K> {
    /// The next key to run; `None` once the queue is shut down and drained of what was to run. Any number of workers may ask.
    ///
    /// Dropped while it waits, it has taken nothing.
    pub async fn next(&self) -> Option<Running<K>> {
        let shared = &self.shared;
        let mut watch = Watch { work: &shared.work, more: false };
        loop {
            // Made before the look, so that nothing which happens after it is missed.
            let work = shared.work.notified();
            let (next, more) = shared.take();
            watch.more = more;
            match next {
                Next::Run(ticket) => return Some(Running { ticket: Some(ticket), shared: shared.clone() }),
                Next::Closed => return None,
                Next::Wait(None) => work.await,
                Next::Wait(Some(at)) => tokio::select! {
                    biased;
                    () = work => {}
                    () = shared.clock.sleep_until(at) => {}
                },
            }
        }
    }

    /// Takes no more adds; those who wait for room or for keys are told. What waits for its time is left behind.
    pub fn shut_down(&self, drain: Drain) {
        let drained = {
            let mut state = self.shared.state.lock();
            state.core.shut_down(drain);
            state.core.is_drained()
        };
        self.shared.work.notify_waiters();
        self.shared.room.notify_waiters();
        if drained {
            self.shared.quiet.notify_waiters();
        }
    }

    /// Waits until the queue is shut down, every run has ended and what was to run has run. Returns how many keys are left that
    /// somebody wants a run of.
    pub async fn drained(&self) -> usize {
        loop {
            let quiet = self.shared.quiet.notified();
            if self.shared.state.lock().core.is_drained() {
                return self.snapshot().keys();
            }
            quiet.await;
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("snapshot", &self.snapshot()).finish()
    }
}

impl<K: Eq + Hash> Shared<K> {
    fn admit(&self, key: K, ask: Ask) -> Result<Added, Refused<K>> {
        let added = self.state.lock().core.add(self.clock.now(), key, ask)?;
        self.note_added(added);
        Ok(added)
    }
}

impl<K> Shared<K> {
    fn note_added(&self, added: Added) {
        self.counters.adds.inc();
        match added {
            Added::Queued | Added::Moved => self.work.notify_one(),
            Added::Joined => drop(self.counters.joined.inc()),
        }
    }

    /// The next key, and whether there is more to watch for.
    fn take(&self) -> (Next<K>, bool) {
        let (next, more) = {
            let mut state = self.state.lock();
            let next = state.core.next(self.clock.now());
            (next, state.core.has_more())
        };
        if let Next::Run(ticket) = &next {
            self.counters.queue_duration.observe(ticket.waited.as_secs_f64());
            if ticket.failures > 0 {
                self.counters.retries.inc();
            }
        }
        (next, more)
    }

    fn finish(&self, ticket: Ticket<K>, outcome: Outcome) {
        let (worked, more, crowded, drained) = {
            let mut state = self.state.lock();
            let random = (state.random)();
            let worked = state.core.finish(self.clock.now(), ticket, outcome, random);
            (worked, state.core.has_more(), state.short_of_room > 0, state.core.is_drained())
        };
        self.counters.work_duration.observe(worked.as_secs_f64());
        if matches!(outcome, Outcome::Failed | Outcome::FailedFor(_)) {
            self.counters.failures.inc();
        }
        if more {
            self.work.notify_one();
        }
        if crowded {
            self.room.notify_waiters();
        }
        if drained {
            self.quiet.notify_waiters();
            self.work.notify_waiters();
        }
    }

    fn snapshot(&self) -> Snapshot {
        let (snapshot, more) = {
            let mut state = self.state.lock();
            (state.core.snapshot(self.clock.now()), state.core.has_more())
        };
        if more {
            self.work.notify_one();
        }
        snapshot
    }
}

/// A worker that waits for a key. When it has one, or is dropped, it keeps watch no longer over what comes next, and another has
/// to: the others may have looked before there was anything to watch for.
struct Watch<'q> {
    work: &'q Notify,
    more: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.more {
            self.work.notify_one();
        }
    }
}

/// Somebody who waits for room.
struct ShortOfRoom<'q, K>(&'q Shared<K>);

impl<'q, K> ShortOfRoom<'q, K> {
    fn new(shared: &'q Shared<K>) -> Self {
        shared.state.lock().short_of_room += 1;
        Self(shared)
    }
}

impl<K> Drop for ShortOfRoom<'_, K> {
    fn drop(&mut self) {
        self.0.state.lock().short_of_room -= 1;
    }
}

/// A key that runs. **Guarantees**: there is one of these at a time for each key, and adds of the key meanwhile are answered by another run.
/// **Assumes** that whoever has it ends it: until then the key does not run again.
///
/// It ends with [`finish`](Self::finish). Dropped instead, by a panic or a cancelled task, it counts as failed: the key runs
/// again after its backoff.
#[must_use = "dropped, the run counts as failed"]
pub struct Running<K> {
    /// Until it has ended.
    ticket: Option<Ticket<K>>,
    shared: Arc<Shared<K>>,
}

impl<K> Running<K> {
    fn ticket(&self) -> &Ticket<K> {
        self.ticket.as_ref().expect("only `finish` and `drop` take it, and both end the run")
    }

    pub fn key(&self) -> &Arc<K> {
        &self.ticket().key
    }

    pub fn priority(&self) -> Priority {
        self.ticket().priority
    }

    /// Failures since the last success, without those of runs that changes brought forward.
    pub fn failures(&self) -> u32 {
        self.ticket().failures
    }

    /// How long the key was ready before it ran.
    pub fn waited(&self) -> Duration {
        self.ticket().waited
    }

    pub fn finish(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.finish(ticket, outcome);
        }
    }
}

impl<K> Drop for Running<K> {
    fn drop(&mut self) {
        self.end(Outcome::Failed);
    }
}

impl<K: fmt::Debug> fmt::Debug for Running<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("key", self.key()).finish_non_exhaustive()
    }
}
