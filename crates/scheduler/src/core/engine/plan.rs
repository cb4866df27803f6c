//! What the engine wants done.

use std::sync::Arc;

use setpoint_types::kinds::{DecisionSpec, SearchScope, WakeCondition};
use setpoint_types::{Epoch, Generation, Revision, Uid};

use crate::core::explain::Refusal;

/// What is to be done next, in any order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Those with the same group together or not at all.
    pub binds: Vec<BindItem>,
    pub evictions: Vec<Eviction>,
    /// What is to be written down about those who have no node.
    pub notices: Vec<Notice>,
}

/// A replica and the node it shall have.
#[derive(Clone, Debug)]
pub struct BindItem {
    pub group: u64,
    pub replica: Arc<str>,
    pub uid: Uid,
    pub generation: Generation,
    pub workload: Arc<str>,
    pub node: Arc<str>,
    pub node_uid: Uid,
    pub node_revision: Revision,
    pub node_epoch: Epoch,
    /// The policies followed: name, generation and revision of the object.
    pub policies: Vec<(String, Generation, Revision)>,
    pub policy_version: String,
    pub spread: Vec<SpreadClaim>,
    pub attempt: u32,
    pub waited_ms: u64,
    pub search: SearchScope,
    /// A version of a policy that is being tried is followed.
    pub is_canary: bool,
    /// What there is to say about the choice, if it was asked for.
    pub explanation: Option<Box<DecisionSpec>>,
}

/// A hard rule of spreading, as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadClaim {
    pub topology_key: String,
    pub domain: String,
    pub max_skew: u32,
    /// Empty: the emptiest counts as having none.
    pub domains: Arc<[String]>,
}

/// A replica that has to leave its node.
#[derive(Clone, Debug)]
pub struct Eviction {
    pub victim: Arc<str>,
    pub priority: i32,
    pub node: Arc<str>,
    /// The workload for whose replica, and its priority.
    pub namespace: Arc<str>,
    pub workload: Arc<str>,
    pub by_priority: i32,
}

/// A class that has no node: one record for all of it.
#[derive(Clone, Debug)]
pub struct Notice {
    pub namespace: Arc<str>,
    pub workload: Arc<str>,
    pub refusal: Arc<Refusal>,
    pub wakes: Vec<WakeCondition>,
    pub policy_version: String,
    /// How many wait.
    pub waiting: usize,
    pub attempt: u32,
    pub waited_ms: u64,
}
