//! What clients asked, when, and what they were told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Keys and values of the load are text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub key: String,
    pub value: String,
    pub created: i64,
    pub modified: i64,
    pub version: i64,
}

/// Every write carries a value that no other write carries, so that its revision can be told from the log. A delete
/// leaves its value under a key of its own in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Put {
        key: String,
        value: String,
    },
    /// Put, if the key was last changed at `expected` (0: does not exist); else read it.
    Swap {
        key: String,
        expected: i64,
        value: String,
    },
    Delete {
        key: String,
        mark: String,
        value: String,
    },
    /// Linearizable unless `stale`.
    Read {
        keys: Keys,
        stale: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    One(String),
    /// All that start so.
    Prefix(String),
}

impl Keys {
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

impl Action {
    /// The value that tells this write from all others.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Put { value, .. } | Self::Swap { value, .. } | Self::Delete { value, .. } => Some(value),
            Self::Read { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done, at this revision.
    Written { revision: i64, deleted: i64 },
    /// It was read at this revision: a read, or a swap that found another version.
    Seen { revision: i64, found: Vec<Version> },
    /// The node says that it was certainly not done.
    NotApplied(String),
    /// Nobody knows.
    Unknown(String),
}

#[derive(Clone, Debug)]
pub struct Op {
    pub client: usize,
    pub node: usize,
    pub call: Duration,
    pub ret: Duration,
    pub action: Action,
    pub outcome: Outcome,
}

/// Everything that happened, on one clock.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub ops: Vec<Op>,
    /// Revisions that watchers were sent, and when.
    pub sightings: Vec<(Duration, i64)>,
}

impl History {
    pub fn acknowledged(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op.outcome, Outcome::Written { .. })).count()
    }

    pub fn reads(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op.outcome, Outcome::Seen { .. })).count()
    }

    pub fn unknown(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op.outcome, Outcome::Unknown(_))).count()
    }

    /// The newest revision anybody was told of.
    pub fn newest(&self) -> i64 {
        let told = self.ops.iter().filter_map(|op| match op.outcome {
            Outcome::Written { revision, .. } | Outcome::Seen { revision, .. } => Some(revision),
            Outcome::NotApplied(_) | Outcome::Unknown(_) => None,
        });
        told.chain(self.sightings.iter().map(|(_, revision)| *revision)).max().unwrap_or(1)
    }

    pub fn summary(&self) -> String {
        let not = self.ops.iter().filter(|op| matches!(op.outcome, Outcome::NotApplied(_))).count();
        format!(
            "{} requests: {} written, {} read, {not} not applied, {} unknown; newest revision {}",
            self.ops.len(),
            self.acknowledged(),
            self.reads(),
            self.unknown(),
            self.newest()
        )
    }
}

/// Where clients write down what they do.
#[derive(Clone)]
pub struct Recorder {
    start: Instant,
    history: Arc<Mutex<History>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { start: Instant::now(), history: Arc::default() }
    }
}

impl Recorder {
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn op(&self, op: Op) {
        self.history.lock().ops.push(op);
    }

    pub fn sighting(&self, revision: i64) {
        let now = self.now();
        self.history.lock().sightings.push((now, revision));
    }

    pub fn history(&self) -> History {
        self.history.lock().clone()
    }

    pub fn acknowledged(&self) -> usize {
        self.history.lock().acknowledged()
    }
}
