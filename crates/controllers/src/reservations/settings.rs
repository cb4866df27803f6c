//! The knobs of the reservation sweeper.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a user may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReservationsSettings {
    /// How often all ledgers are compared with all bindings.
    pub every_seconds: u32,
}

impl Default for ReservationsSettings {
    /// A look reads every binding: a second for a hundred thousand of them. What it finds is there by mistake, and can wait.
    fn default() -> Self {
        Self { every_seconds: 600 }
    }
}

impl ReservationsSettings {
    pub fn problems(&self) -> Vec<String> {
        let is_good = (10..=86_400).contains(&self.every_seconds);
        let problem = format!("every_seconds is {}, and must be from 10 to 86400", self.every_seconds);
        if is_good { Vec::new() } else { vec![problem] }
    }

    pub fn every(&self) -> Duration {
        Duration::from_secs(self.every_seconds.into())
    }
}
