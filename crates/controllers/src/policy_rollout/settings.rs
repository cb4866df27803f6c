//! The knobs of the policy rollout. What concerns one policy is in its gate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a user may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRolloutSettings {
    /// How often the gate of a version that is being rolled out is looked at.
    pub period_seconds: u32,
}

impl Default for PolicyRolloutSettings {
    /// A look reads every replica in scope: a second for a hundred thousand of them.
    fn default() -> Self {
        Self { period_seconds: 10 }
    }
}

impl PolicyRolloutSettings {
    pub fn problems(&self) -> Vec<String> {
        let is_good = (1..=600).contains(&self.period_seconds);
        let problem = format!("period_seconds is {}, and must be from 1 to 600", self.period_seconds);
        if is_good { Vec::new() } else { vec![problem] }
    }

    pub fn period(&self) -> Duration {
        Duration::from_secs(self.period_seconds.into())
    }
}
