//! How a workload goes from one revision of its template to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problems;
use crate::quantity::CountOrPercent;

/// How a new template is rolled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Rollout {
    /// In which order old replicas go and new ones come.
    pub strategy: RolloutStrategy,
    /// How many replicas there may be beyond those wanted: a number, or a share such as "25%", rounded up. For Rolling.
    pub max_surge: CountOrPercent,
    /// How many of those wanted may be missing: a number, or a share such as "25%", rounded down. For Rolling.
    pub max_unavailable: CountOrPercent,
    /// How long a new replica must have been ready before it counts as available.
    pub min_ready_seconds: u32,
    /// How long there may be no progress before the rollout counts as failed.
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: u32,
    /// Whether a failed rollout goes back to the last revision that was complete.
    pub auto_rollback: bool,
    /// Whether it stands still. Replicas are still replaced, and their number is still followed.
    pub paused: bool,
    /// How many old revisions are kept to go back to.
    #[schemars(range(max = 100))]
    pub revision_history_limit: u32,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            strategy: RolloutStrategy::default(),
            max_surge: CountOrPercent::Percent(25),
            max_unavailable: CountOrPercent::Percent(25),
            min_ready_seconds: 0,
            progress_deadline_seconds: 600,
            auto_rollback: true,
            paused: false,
            revision_history_limit: 10,
        }
    }
}

/// In which order old replicas go and new ones come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStrategy {
    /// A few at a time, within maxSurge and maxUnavailable.
    #[default]
    Rolling,
    /// All old ones go before the first new one comes.
    Recreate,
}

/// How far a rollout has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// Every replica is of the newest revision and available.
    #[default]
    Complete,
    /// Replicas are being exchanged.
    Progressing,
    /// It stands still because the spec says so.
    Paused,
    /// It stands still because what has to be known before the next step is not known, or too old.
    Held,
    /// There was no progress for too long.
    Stuck,
    /// It goes back to an earlier revision.
    RollingBack,
    /// It went back to an earlier revision: the newest one failed, and is not tried again until the template changes.
    RolledBack,
}

impl Rollout {
    pub(super) fn check(&self, problems: &mut Problems) {
        if self.strategy == RolloutStrategy::Rolling
            && self.max_surge.is_zero()
            && self.max_unavailable.is_zero()
        {
            problems
                .report_at("maxUnavailable", "must not be 0 while maxSurge is 0: nothing could ever change");
        }
        if matches!(self.max_unavailable, CountOrPercent::Percent(percent) if percent > 100) {
            problems.report_at("maxUnavailable", "must be at most 100%");
        }
        if self.min_ready_seconds >= self.progress_deadline_seconds {
            problems.report_at("progressDeadlineSeconds", "must be more than minReadySeconds");
        }
    }
}
