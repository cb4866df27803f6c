//! What goes into the queue's state machine and what comes out of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::moment::Moment;
use super::priority::{LEVELS, Priority};

/// What is wanted of a key: a run, not before `delay` is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub priority: Priority,
    pub delay: Duration,
}

impl Ask {
    pub fn after(delay: Duration, priority: Priority) -> Self {
        Self { priority, delay }
    }
}

/// At once.
impl From<Priority> for Ask {
    fn from(priority: Priority) -> Self {
        Self { priority, delay: Duration::ZERO }
    }
}

/// What became of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The key was not known.
    Queued,
    /// It was known, and comes sooner now.
    Moved,
    /// It was known, and a run that is to come, or one more after the one there is, answers this add too.
    Joined,
}

/// An add that was not taken. The key is the caller's again.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused<K> {
    pub key: K,
    pub reason: Refusal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the queue knows as many keys as it may")]
    Full,
    #[error("the queue is shut down")]
    ShutDown,
}

impl<K> fmt::Debug for Refused<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    Added(Added),
    /// There was no room. The queue asks for a resync when there is.
    Overflowed,
    /// The queue is shut down.
    ShutDown,
}

/// What a run came to, as far as the queue is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until somebody adds the key again. Also for a failure that no retry can mend.
    Done,
    /// It went well, and the key is to run again after this time, unless another run decides otherwise before.
    After(Duration),
    /// It failed: the key runs again after its backoff.
    Failed,
    /// The same, and nothing makes it run before this time is over, not even a change: somebody asked not to be bothered.
    FailedFor(Duration),
}

/// The answer to the question for the next key.
#[derive(Debug)]
pub enum Next<K> {
    Run(Ticket<K>),
    /// Nothing may run before this time; without one, before something is added or finished.
    Wait(Option<Moment>),
    /// Nothing will run any more.
    Closed,
}

/// The right to run a key. There is one at a time for each key; it goes back to the queue that gave it.
#[derive(Debug)]
pub struct Ticket<K> {
    pub(super) id: u32,
    pub key: Arc<K>,
    pub priority: Priority,
    /// Failures since the last success, without those of runs that changes brought forward.
    pub failures: u32,
    /// How long the key was ready.
    pub waited: Duration,
}

/// What a queue still does once it is shut down. It takes no adds in either case, and nothing that waits for its time runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Hands out nothing more.
    Running,
    /// Hands out what is ready, also what becomes so by an add during its run.
    Ready,
}

/// How it stands. For metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Keys that may run, by priority.
    pub ready: [usize; LEVELS],
    /// Keys that wait for their time.
    pub waiting: usize,
    pub running: usize,
    /// Tenants of all these keys.
    pub tenants: usize,
    /// How long the key that is ready for longest has been so.
    pub oldest_age: Duration,
    pub longest_running: Duration,
    /// How long all runs that have not ended have taken together.
    pub unfinished: Duration,
    /// Keys were turned away since the last resync.
    pub overflowed: bool,
}

impl Snapshot {
    /// All keys.
    pub fn keys(&self) -> usize {
        self.ready.iter().sum::<usize>() + self.waiting + self.running
    }
}
