//! Why something waits: one closed list of reasons, used by scheduler, quota, autoscaler, rollout and agent alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Revision, Timestamp};

/// Why a replica is not serving yet. What the autoscaler does depends on it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum PendingReason {
    /// Nobody has looked at it yet.
    #[default]
    NotEvaluated,
    /// It waits for its turn.
    Queued,
    /// It was tried and is tried again after a while.
    Backoff,
    /// The quota of its namespace is used up.
    Quota,
    /// Nodes that suit it are full.
    Capacity,
    /// The rules of spreading, or of nearness to others, leave no place.
    Topology,
    /// No node suits it, full or not.
    NoEligibleNode,
    /// A placement policy is paused or inactive.
    PolicyPaused,
    /// It waits until those it takes the place of are gone.
    Preempting,
    /// It waits until the node of its predecessor is released.
    AwaitingRelease,
    /// What the scheduler knew was older than what it has to know.
    StaleCache,
    /// Its binding was refused because something had changed in the meantime.
    Conflict,
    /// Its image is being fetched, or cannot be.
    Image,
    /// It is starting.
    Starting,
    /// It runs, but is not ready.
    NotReady,
    /// It ends again and again.
    Crashing,
    /// Its node is out of reach.
    NodeUnreachable,
    /// Its deadline has passed.
    DeadlineExceeded,
}

/// How many replicas wait for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingCount {
    /// Why.
    pub reason: PendingReason,
    /// How many.
    pub count: u32,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when the first of them waits for this, in milliseconds since 1970.
    #[serde(default, rename = "sinceMs")]
    pub since: Timestamp,
    /// The revision the reason was found at. What was changed later is not in it.
    #[serde(default)]
    pub revision: Revision,
}
