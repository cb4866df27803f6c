//! Placement policies: which versions are for a replica, and what they say together.
//!
//! Of one policy a replica follows one version at most. Where versions share the replicas in scope by weight, the newest takes the
//! lowest part of a hash over the uid: raising its weight moves replicas to it and none away. If the weights of all versions make
//! less than a hundred, the rest follows none of them.

use std::collections::BTreeMap;

use setpoint_types::kinds::{Activation, PlacementPolicySpec, PolicyScope, ScoreStrategy, WhenUnsatisfiable};
use setpoint_types::selector::LabelSelector;
use setpoint_types::{Generation, Revision, Timestamp};

use super::class::Wants;
use super::score::Weights;

/// A PlacementPolicy object.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    pub generation: Generation,
    pub created: Timestamp,
    pub spec: PlacementPolicySpec,
}

/// A version that a replica follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Of the PlacementPolicy object.
    pub name: String,
    pub generation: Generation,
    /// As decisions name it: "base@v5".
    pub title: String,
    /// Only for placements into these zones; empty for all.
    pub zones: Vec<String>,
    pub node_selector: LabelSelector,
    /// Nothing is placed.
    pub is_paused: bool,
    /// Another version has the rest of the scope: what is decided by it is written down in full.
    pub is_canary: bool,
}

impl Followed {
    pub fn is_for_zone(&self, zone: &str) -> bool {
        self.zones.is_empty() || self.zones.iter().any(|it| it == zone)
    }
}

/// All that policies say about a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The highest precedence first.
    pub followed: Vec<Followed>,
    /// For workloads that say nothing about zones; and what if it cannot be.
    pub max_zone_skew: Option<(u32, WhenUnsatisfiable)>,
    pub strategy: ScoreStrategy,
    pub weights: Weights,
    pub forbids_preemption: bool,
}

impl Rules {
    /// As bindings and decisions name it: those in force for a zone, the most important first.
    pub fn version(&self, zone: &str) -> String {
        let titles: Vec<&str> =
            self.followed.iter().filter(|it| it.is_for_zone(zone)).map(|it| &*it.title).collect();
        titles.join(",")
    }

    pub fn is_canary(&self) -> bool {
        self.followed.iter().any(|it| it.is_canary)
    }
}

/// All policies.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    versions: BTreeMap<String, Version>,
    /// Of the objects: changes also with their status, which decides nothing.
    revisions: BTreeMap<String, Revision>,
}

impl Policies {
    /// True if it says something else than before.
    pub fn set(&mut self, name: &str, version: Version, revision: Revision) -> bool {
        self.revisions.insert(name.to_owned(), revision);
        self.versions.insert(name.to_owned(), version.clone()).as_ref() != Some(&version)
    }

    pub fn remove(&mut self, name: &str) -> bool {
        self.revisions.remove(name);
        self.versions.remove(name).is_some()
    }

    pub fn revision(&self, name: &str) -> Revision {
        self.revisions.get(name).copied().unwrap_or_default()
    }

    /// What they say about a replica. Members of a gang are told apart by nothing: `share` is then the same for all of them.
    pub fn rules(&self, wants: &Wants, share: &str) -> Rules {
        let mut by_policy: BTreeMap<&str, Vec<(&String, &Version)>> = BTreeMap::new();
        for (name, version) in &self.versions {
            if version.spec.activation != Activation::Inactive && in_scope(&version.spec.scope, wants) {
                by_policy.entry(&version.spec.policy).or_default().push((name, version));
            }
        }
        let mut chosen: Vec<(&String, &Version, bool)> =
            by_policy.into_values().filter_map(|versions| choose(versions, share)).collect();
        chosen.sort_by_key(|(name, version, _)| (-i64::from(version.spec.precedence), (*name).clone()));
        merge(&chosen, wants)
    }
}

/// The version of one policy that a replica's share of it falls to.
fn choose<'a>(
    mut versions: Vec<(&'a String, &'a Version)>,
    share: &str,
) -> Option<(&'a String, &'a Version, bool)> {
    versions.sort_by_key(|(name, version)| (std::cmp::Reverse(version.created), (*name).clone()));
    let is_shared = versions.len() > 1;
    let mut below = 0;
    for (name, version) in versions {
        below += version.spec.weight;
        if version.spec.draw(share) < below {
            return Some((name, version, version.spec.weight < 100 && is_shared));
        }
    }
    None
}

fn in_scope(scope: &PolicyScope, wants: &Wants) -> bool {
    let zones = &wants.placement.zones;
    (scope.namespaces.is_empty() || scope.namespaces.iter().any(|it| **it == *wants.namespace))
        && scope.replicas.matches(&wants.labels)
        && (scope.zones.is_empty() || zones.is_empty() || zones.iter().any(|it| scope.zones.contains(it)))
        && (scope.priority_classes.is_empty()
            || wants.priority_class.as_ref().is_some_and(|it| scope.priority_classes.contains(it)))
}

/// What is said more than once is taken from the highest precedence. What a policy for some zones says about scores and spreading
/// counts only for replicas that can be nowhere else.
fn merge(chosen: &[(&String, &Version, bool)], wants: &Wants) -> Rules {
    let mut rules = Rules::default();
    let mut strategy = None;
    for (name, version, is_canary) in chosen {
        let spec = &version.spec;
        rules.followed.push(Followed {
            name: (*name).clone(),
            generation: version.generation,
            title: format!("{}@{}", spec.policy, spec.version),
            zones: spec.scope.zones.clone(),
            node_selector: spec.rules.node_selector.clone(),
            is_paused: spec.activation == Activation::Paused,
            is_canary: *is_canary,
        });
        let zones = &wants.placement.zones;
        let is_everywhere = spec.scope.zones.is_empty()
            || (!zones.is_empty() && zones.iter().all(|it| spec.scope.zones.contains(it)));
        if !is_everywhere {
            continue;
        }
        let said = &spec.rules;
        let skew = said.max_zone_skew.map(|skew| (skew, said.when_unsatisfiable));
        rules.max_zone_skew = rules.max_zone_skew.or(skew);
        strategy = strategy.or(Some(said.strategy));
        rules.forbids_preemption |= said.forbid_preemption;
    }
    rules.strategy = strategy.unwrap_or_default();
    // From the lowest precedence on, so that the highest has the last word.
    for (_, version, _) in chosen.iter().rev() {
        rules.weights.set(&version.spec.rules.scores);
    }
    rules
}
