//! PlacementPolicy: one version of the rules by which the scheduler places replicas.
//!
//! Versions are objects of their own, so that a new one can be tried on a part of the replicas and taken back by changing
//! which one is active.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::placement::WhenUnsatisfiable;
use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::selector::LabelSelector;
use crate::{Generation, Revision, Timestamp, Uid};

/// The kind.
pub enum PlacementPolicy {}

/// One version of a policy: for which replicas, for how many of them, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicySpec {
    /// What it is a version of. Of one policy, at most one version is active for a replica.
    #[schemars(extend("format" = "dns-label", "x-setpoint-immutable" = true))]
    pub policy: String,
    /// Which version: "v5", "v5-canary". Decisions and bindings name it.
    #[schemars(extend("format" = "dns-label", "x-setpoint-immutable" = true))]
    pub version: String,
    /// For which replicas.
    #[serde(default)]
    pub scope: PolicyScope,
    /// For how many of those in scope, in percent; which ones is decided by their uid. Below 100 another version takes the
    /// rest.
    #[serde(default = "hundred")]
    #[schemars(range(max = 100))]
    pub weight: u32,
    /// Whether it is in force.
    #[serde(default)]
    pub activation: Activation,
    /// If several policies are for a replica, the one with the higher precedence wins where they contradict.
    #[serde(default)]
    pub precedence: i32,
    /// What it says.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub rules: PlacementRules,
    /// What has to be so before it is given more weight automatically.
    #[serde(default)]
    pub gate: PolicyGate,
}

fn hundred() -> u32 {
    100
}

impl PlacementPolicySpec {
    /// Whether a replica in scope is of the share that this weight gives the version, if it is the newest of its policy. A larger
    /// weight keeps all that a smaller one had, and different policies draw independently of each other.
    pub fn takes(&self, replica: &Uid) -> bool {
        self.draw(replica.as_str()) < self.weight
    }

    /// Where in the hundred a replica falls, by its uid, or whatever else decides for it: the newest version has the first numbers, as
    /// many as its weight, the one before it the next. The same in every process and every build, unlike `Hash`.
    pub fn draw(&self, share: &str) -> u32 {
        // FNV-1a, and the finish of MurmurHash3.
        let text = self.policy.bytes().chain([b'/']).chain(share.bytes());
        let mut hash = text.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
            hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
        }
        u32::try_from((hash ^ (hash >> 33)) % 100).unwrap_or(0)
    }
}

/// For which replicas a policy is. All that is said must hold; nothing said means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyScope {
    /// Only in these namespaces.
    #[schemars(extend("x-setpoint-list-type" = "set", "items" = {"type": "string", "format": "dns-label"}))]
    pub namespaces: Vec<String>,
    /// Only replicas with these labels.
    #[serde(skip_serializing_if = "LabelSelector::is_everything")]
    pub replicas: LabelSelector,
    /// Only placements into these zones.
    #[schemars(extend("x-setpoint-list-type" = "set", "items" = {"type": "string", "format": "dns-label"}))]
    pub zones: Vec<String>,
    /// Only replicas of these priority classes.
    #[schemars(extend("x-setpoint-list-type" = "set"))]
    pub priority_classes: Vec<String>,
}

/// Whether a version of a policy is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Activation {
    /// Nobody follows it.
    #[default]
    Inactive,
    /// The scheduler follows it for its share.
    Active,
    /// Replicas in its scope are not placed at all.
    Paused,
}

/// What a policy says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PlacementRules {
    /// Only nodes whose labels match, beside what the replicas say.
    #[serde(skip_serializing_if = "LabelSelector::is_everything")]
    pub node_selector: LabelSelector,
    /// How uneven zones may be, for workloads that say nothing about it.
    #[schemars(range(min = 1))]
    pub max_zone_skew: Option<u32>,
    /// What if that cannot be.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Whether nodes are filled one after the other or all alike.
    pub strategy: ScoreStrategy,
    /// How much each rule of the score counts, by its name. What is not named counts as it does without the policy.
    #[schemars(extend("propertyNames" = {"format": "label-key"}))]
    pub scores: BTreeMap<String, u32>,
    /// Replicas may not take the place of others.
    pub forbid_preemption: bool,
}

/// Whether nodes are filled one after the other or all alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScoreStrategy {
    /// Rather empty nodes: room for bursts everywhere.
    #[default]
    Spread,
    /// Rather full nodes: whole nodes stay free for large replicas.
    Pack,
}

/// What has to be so before a version gets more weight. What cannot be told counts as not so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyGate {
    /// The weight is raised by so many percent at a time. 0: only by hand.
    #[schemars(range(max = 100))]
    pub step: u32,
    /// How long a step must have been good.
    pub interval_seconds: u32,
    /// Components that must have seen the activation.
    #[schemars(extend("x-setpoint-list-type" = "set"))]
    pub required_components: Vec<String>,
    /// Signals older than this count as missing.
    #[schemars(range(min = 1))]
    pub signal_max_age_seconds: u32,
    /// The most replicas in scope that may be pending, in percent.
    #[schemars(range(max = 100))]
    pub max_pending_percent: u32,
    /// Whether it is deactivated if a step is not good.
    pub auto_rollback: bool,
}

impl Default for PolicyGate {
    fn default() -> Self {
        Self {
            step: 0,
            interval_seconds: 300,
            required_components: Vec::new(),
            signal_max_age_seconds: 30,
            max_pending_percent: 5,
            auto_rollback: true,
        }
    }
}

/// How far a version has come, and who follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PlacementPolicyStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// The revision of its last activation, or of the last change of its weight.
    pub activation_revision: Revision,
    /// When that was, in milliseconds since 1970.
    #[serde(rename = "activatedMs")]
    pub activated: Option<Timestamp>,
    /// The version that was active before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub previous_version: String,
    /// Which component has seen how much.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["component"]))]
    pub observed_by: Vec<ObservedBy>,
    /// How many replicas were placed by it.
    pub placed: u64,
    /// How many in scope are pending.
    pub pending: u32,
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How much a component has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedBy {
    /// Who.
    pub component: String,
    /// Up to which revision.
    pub revision: Revision,
    /// When it said so, in milliseconds since 1970.
    #[serde(default, rename = "timeMs")]
    pub time: Timestamp,
}

impl KindType for PlacementPolicy {
    const INFO: KindInfo = KindInfo {
        name: "PlacementPolicy",
        plural: "placementpolicies",
        singular: "placementpolicy",
        short_names: &["pp"],
        namespaced: false,
        columns: &[
            Column::text("Policy", ".spec.policy"),
            Column::text("Version", ".spec.version"),
            Column::text("Activation", ".spec.activation"),
            Column::integer("Weight", ".spec.weight"),
            Column::AGE,
        ],
        selectable_fields: &["spec.policy", "spec.version", "spec.activation"],
    };
    type Spec = PlacementPolicySpec;
    type Status = PlacementPolicyStatus;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(policy: &str, weight: u32) -> Vec<u32> {
        let spec =
            PlacementPolicySpec { policy: policy.to_owned(), weight, ..PlacementPolicySpec::default() };
        (0..10_000).filter(|number| spec.takes(&Uid::new(format!("replica-{number}")))).collect()
    }

    #[test]
    fn a_weight_is_a_share_and_a_larger_one_keeps_what_a_smaller_one_had() {
        assert!(taken("p", 0).is_empty());
        assert_eq!(taken("p", 100).len(), 10_000);
        let (five, thirty) = (taken("p", 5), taken("p", 30));
        assert!((400..600).contains(&five.len()) && (2_800..3_200).contains(&thirty.len()));
        assert!(five.iter().all(|replica| thirty.contains(replica)));
        assert_ne!(five, taken("q", 5), "versions of different policies draw independently");
    }
}
