//! What all evaluations for one write may cost together.

use crate::limits::{EVALUATION_COST_MAX, REQUEST_COST_MAX};

/// Made once per write, and handed to whatever evaluates for it.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// For one write.
    pub fn for_request() -> Self {
        Self { left: REQUEST_COST_MAX }
    }

    /// With less than usual, for tests of what happens at the end of it.
    pub fn of(cost: u64) -> Self {
        Self { left: cost }
    }

    /// What one evaluation may cost now.
    pub(super) fn allowance(&self) -> u64 {
        self.left.min(EVALUATION_COST_MAX)
    }

    pub(super) fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
    }

    /// What is left of it.
    pub fn left(&self) -> u64 {
        self.left
    }
}
