//! The knobs of the quota controller.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a user may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaSettings {
    /// How often the use of a quota is shown anew. What is enforced is the ledger, at every bind, and needs none of this.
    pub show_seconds: u32,
    /// How often the ledgers of a quota are compared with the bindings there are.
    pub audit_seconds: u32,
}

impl Default for QuotaSettings {
    /// An audit reads every binding of a namespace: a second for a hundred thousand of them.
    fn default() -> Self {
        Self { show_seconds: 5, audit_seconds: 60 }
    }
}

impl QuotaSettings {
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(1..=3600).contains(&self.show_seconds) {
            problems.push(format!("show_seconds is {}, and must be from 1 to 3600", self.show_seconds));
        }
        if !(self.show_seconds..=86_400).contains(&self.audit_seconds) {
            problems.push(format!(
                "audit_seconds is {}, and must be from show_seconds to 86400",
                self.audit_seconds
            ));
        }
        problems
    }

    pub fn show_every(&self) -> Duration {
        Duration::from_secs(self.show_seconds.into())
    }

    pub fn audit_every(&self) -> Duration {
        Duration::from_secs(self.audit_seconds.into())
    }
}
