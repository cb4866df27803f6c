//! What consensus has done since it started, for metrics and tests. Plain counts that never go back.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    commands_proposed: AtomicU64,
    entries_proposed: AtomicU64,
    commands_forwarded: AtomicU64,
    barriers: AtomicU64,
    read_rounds: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that became part of a proposed entry here, and the entries.
    pub commands_proposed: u64,
    pub entries_proposed: u64,
    /// Commands sent to another node that led.
    pub commands_forwarded: u64,
    /// Barriers asked for here, also by followers, and the rounds that answered them.
    pub barriers: u64,
    pub read_rounds: u64,
}

impl Counters {
    pub fn add_entry(&self, commands: usize) {
        self.commands_proposed.fetch_add(commands as u64, Relaxed);
        self.entries_proposed.fetch_add(1, Relaxed);
    }

    pub fn add_forwarded(&self, commands: usize) {
        self.commands_forwarded.fetch_add(commands as u64, Relaxed);
    }

    pub fn add_round(&self, barriers: usize) {
        self.barriers.fetch_add(barriers as u64, Relaxed);
        self.read_rounds.fetch_add(1, Relaxed);
    }

    pub fn counts(&self) -> Counts {
        Counts {
            commands_proposed: self.commands_proposed.load(Relaxed),
            entries_proposed: self.entries_proposed.load(Relaxed),
            commands_forwarded: self.commands_forwarded.load(Relaxed),
            barriers: self.barriers.load(Relaxed),
            read_rounds: self.read_rounds.load(Relaxed),
        }
    }
}
