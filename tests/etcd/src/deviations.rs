//! Where our server deliberately answers differently from etcd. Each entry names its reason.
//!
//! An entry must be as narrow as the deviation: it sees the step and one differing field, and whatever it does not
//! cover is still a difference.

use crate::compare::Difference;
use crate::step::Step;

pub struct Deviation {
    /// Why our server differs, in one sentence.
    pub reason: &'static str,
    pub covers: fn(&Step, &Difference) -> bool,
}

/// None so far.
pub const DEVIATIONS: &[Deviation] = &[];
