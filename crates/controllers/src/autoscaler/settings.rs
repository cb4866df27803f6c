//! The knobs of the autoscaler. What concerns one Autoscaler is in its spec.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a user may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutoscalerSettings {
    /// How often each autoscaler looks, beside whenever a value is reported.
    pub period_seconds: u32,
}

impl Default for AutoscalerSettings {
    fn default() -> Self {
        Self { period_seconds: 15 }
    }
}

impl AutoscalerSettings {
    pub fn problems(&self) -> Vec<String> {
        let is_good = (1..=3600).contains(&self.period_seconds);
        let problem = format!("period_seconds is {}, and must be from 1 to 3600", self.period_seconds);
        if is_good { Vec::new() } else { vec![problem] }
    }

    pub fn period(&self) -> Duration {
        Duration::from_secs(self.period_seconds.into())
    }
}
