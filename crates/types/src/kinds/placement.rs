//! Where replicas may run, and how they are spread.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node::TaintEffect;
use crate::Problems;
use crate::names::check_label_key;
use crate::selector::LabelSelector;

/// Which nodes suit a replica, and which suit it better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Placement {
    /// Only in these zones. Empty: in any.
    #[schemars(extend("x-setpoint-list-type" = "set", "items" = {"type": "string", "format": "dns-label"}))]
    pub zones: Vec<String>,
    /// Only on nodes whose labels match: `disk=ssd,gpu in (a100,h100)`.
    #[serde(skip_serializing_if = "LabelSelector::is_everything")]
    pub node_selector: LabelSelector,
    /// Rather on nodes whose labels match.
    #[schemars(length(max = 32))]
    pub preferences: Vec<NodePreference>,
    /// Taints of nodes that do not keep it away.
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
    /// How evenly the replicas of one workload are spread.
    #[schemars(
        length(max = 8),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["topologyKey"])
    )]
    pub spread: Vec<Spread>,
    /// Where other replicas of the namespace are, the closer the better.
    #[schemars(length(max = 16))]
    pub near: Vec<Affinity>,
    /// Not where other replicas of the namespace are.
    #[schemars(length(max = 16))]
    pub apart: Vec<Affinity>,
    /// So many replicas of the workload get their nodes together, or none of them does. Left out: each for itself.
    #[schemars(range(min = 2, max = 256))]
    pub gang: Option<u32>,
}

/// Nodes that suit better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePreference {
    /// The labels of such nodes.
    pub selector: LabelSelector,
    /// How much better, compared with other preferences.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,
}

/// A taint that does not keep a replica away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// Of the taint. Empty: of any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Of the taint. Left out: any.
    pub value: Option<String>,
    /// Of the taint. Left out: any.
    pub effect: Option<TaintEffect>,
    /// How long a taint that evicts is borne. Left out: for ever.
    pub seconds: Option<u32>,
}

/// How evenly replicas are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// Over what: `zone`, `node`, or a label of nodes.
    #[schemars(extend("format" = "label-key"))]
    pub topology_key: String,
    /// The most replicas that one place may have more than the emptiest.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub max_skew: u32,
    /// What if that cannot be.
    #[serde(default)]
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Places that must exist before the emptiest is counted as it is; with fewer it counts as empty.
    #[schemars(range(min = 1))]
    pub min_domains: Option<u32>,
}

fn one() -> u32 {
    1
}

/// What if a rule of spreading cannot be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// The replica waits.
    #[default]
    Wait,
    /// It is placed where it breaks the rule least.
    Relax,
}

/// A relation to other replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// The labels of the other replicas.
    pub selector: LabelSelector,
    /// What counts as the same place: `zone`, `node`, or a label of nodes.
    #[schemars(extend("format" = "label-key"))]
    pub topology_key: String,
    /// The replica waits rather than break the rule.
    #[serde(default)]
    pub required: bool,
    /// If it is not required: how much it counts, compared with other preferences.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,
}

impl Placement {
    pub(super) fn check(&self, problems: &mut Problems) {
        problems.each("tolerations", &self.tolerations, |problems, toleration| {
            if toleration.key.is_empty() && toleration.value.is_some() {
                problems.report_at("value", "needs a key");
            }
            if !toleration.key.is_empty()
                && let Err(message) = check_label_key(&toleration.key)
            {
                problems.report_at("key", message);
            }
            if toleration.seconds.is_some() && toleration.effect != Some(TaintEffect::NoExecute) {
                problems.report_at("seconds", "is for the effect NoExecute only");
            }
        });
        for (name, affinities) in [("near", &self.near), ("apart", &self.apart)] {
            problems.each(name, affinities, |problems, affinity| {
                if affinity.selector.is_everything() {
                    problems.report_at("selector", "must not be empty");
                }
            });
        }
        let near: BTreeSet<_> =
            self.near.iter().filter(|it| it.required).map(|it| (&it.selector, &it.topology_key)).collect();
        problems.each("apart", &self.apart, |problems, affinity| {
            if affinity.required && near.contains(&(&affinity.selector, &affinity.topology_key)) {
                problems.report("contradicts a rule of near");
            }
        });
    }
}
