//! Maintenance and membership requests: those that change nothing, and those that must be refused.

use super::Maker;
use crate::step::{Step, Stray};

const STRAYS: [Stray; 5] = [
    Stray::MemberRemove,
    Stray::MemberUpdate,
    Stray::MemberPromote,
    Stray::MemberAddBadUrl,
    Stray::MoveLeader,
];

impl Maker {
    pub(super) fn maintenance(&mut self) -> Step {
        match self.rng.weighted(&[20, 20, 30, 8, 12, 8, 2]) {
            0 => Step::Status,
            1 => Step::AlarmGet,
            2 => Step::HashKv { revision: self.read_revision() },
            3 => Step::Hash,
            4 => Step::MemberList { linearizable: self.rng.percent(50) },
            5 => Step::Stray(*self.rng.pick(&STRAYS)),
            _ => Step::Defragment,
        }
    }
}
