//! The levels, and how much each may take.

use std::time::Duration;

use crate::principal::{ADMINS, Class, Principal};

/// How much of the server a request takes while it runs: one for an ordinary one, more for one that reads much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seats(pub u32);

/// What kind of request it is, from the most urgent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Leases and heartbeats: what others take for a sign of life.
    System,
    /// Controllers, schedulers, agents and administrators.
    Controllers,
    /// Everybody else.
    Users,
    /// Lists and initial states of many objects, whoever asks.
    Bulk,
}

pub const LEVELS: [Level; 4] = [Level::System, Level::Controllers, Level::Users, Level::Bulk];

impl Level {
    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Controllers => "controllers",
            Self::Users => "users",
            Self::Bulk => "bulk",
        }
    }

    /// The level of an ordinary request: neither about leases nor for many objects.
    pub fn of(principal: &Principal) -> Self {
        match principal.class() {
            Class::Node | Class::Controller => Self::Controllers,
            // Whoever has to put an overload right must be able to get in.
            Class::User if principal.is_in(ADMINS) => Self::Controllers,
            Class::User | Class::Anonymous => Self::Users,
        }
    }
}

/// What one level may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelOptions {
    /// Always there for it, at least one. No request costs more than this: one that could only run on borrowed seats might
    /// never run.
    pub guaranteed: u32,
    /// Seats of the common ones that it may use besides.
    pub borrowed_max: u32,
    /// Seats that one principal may have. Less than all, so that one whose requests never end leaves some to the others.
    pub flow_seats_max: u32,
    /// Requests that may wait.
    pub waiting_max: usize,
    /// Of one principal.
    pub flow_waiting_max: usize,
    /// How long a request may wait.
    pub patience: Duration,
}

/// The levels' seats, and those that are nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// For whoever needs them first.
    pub common: u32,
    /// In the order of [`LEVELS`].
    pub levels: [LevelOptions; 4],
    /// After this, and before twice as long, a seat counts as free although its request has not ended. Such a request waits
    /// for its client, which neither sends nor reads: that is no work to be protected from.
    pub hold_max: Duration,
}

impl FlowOptions {
    /// `requests` at a time for each of the ordinary levels, as many again for whichever needs them, `bulk` for lists, and
    /// `waiting` of each level. One principal may have and keep waiting half of all.
    pub fn sized(requests: u32, bulk: u32, waiting: usize) -> Self {
        let level = |guaranteed: u32| LevelOptions {
            guaranteed,
            borrowed_max: guaranteed,
            flow_seats_max: guaranteed,
            waiting_max: waiting,
            flow_waiting_max: waiting.div_ceil(2),
            patience: Duration::from_secs(5),
        };
        let lists = LevelOptions { patience: Duration::from_secs(30), ..level(bulk) };
        let ordinary = level(requests);
        let levels = [ordinary, ordinary, ordinary, lists];
        Self { common: requests, levels, hold_max: Duration::from_secs(30) }
    }
}

impl Default for FlowOptions {
    /// Ordinary requests wait for the log, not for the processor: a thousand at a time make larger batches, not a slower
    /// server. One for many objects costs processor time and memory, so that few run at a time.
    fn default() -> Self {
        Self::sized(1024, 16, 8192)
    }
}

/// What a level does now, and has done since the start. For metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    pub seats_used: u32,
    pub waiting: usize,
    pub admitted: u64,
    /// Found no place to wait.
    pub refused: u64,
    /// Waited too long, or lost their place to a principal with fewer requests waiting.
    pub given_up: u64,
}
