//! Whether a replica can have a node, as both are seen here: what the commit has to prove, and what it does. Pure.
//!
//! Looked at is everything that a guard can hold fast: the replica, the node, the policies. What changes with every bind, room in
//! ledgers and evenness, is not looked at: the commit itself finds out.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_rejection::Reason;
use setpoint_store::Amounts;
use setpoint_store::commit::{Evenness, Op};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{PolicyScope, Stage, Taint, TaintEffect, Toleration, WhenUnsatisfiable};

use super::books;
use super::rejection::Rejected;
use super::seen::{BindingSeen, NodeSeen, PolicyStands, ReplicaSeen};

/// Everything one bind is decided by.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    pub bind: &'a pb::Bind,
    /// Up to where the caller had seen each kind.
    pub observed: &'a std::collections::BTreeMap<String, u64>,
    pub replica: Option<&'a ReplicaSeen>,
    /// What has the name of the binding to be.
    pub binding: Option<&'a BindingSeen>,
    /// The binding whose loss the replica makes good.
    pub replaced: Option<&'a BindingSeen>,
    pub namespace_deleting: bool,
    pub node: Option<&'a NodeSeen>,
    /// Those that the bind names, in its order.
    pub policies: &'a [Option<PolicyStands>],
    pub now: Timestamp,
}

/// A bind that nothing seen stands against.
#[derive(Clone, Copy)]
pub struct Fitting<'a> {
    pub replica: &'a ReplicaSeen,
    pub node: &'a NodeSeen,
}

/// What a reservation is for: why it may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Room,
    Ports,
    Quota,
    Spread,
}

pub fn decide<'a>(situation: &Situation<'a>) -> Result<Fitting<'a>, Rejected> {
    let replica = placeable(situation)?;
    let node = taking(situation, replica)?;
    follow_policies(situation, replica, node)?;
    check_spread(situation, replica, node)?;
    Ok(Fitting { replica, node })
}

/// The replica, if it waits for a node.
fn placeable<'a>(situation: &Situation<'a>) -> Result<&'a ReplicaSeen, Rejected> {
    let bind = situation.bind;
    let name = &bind.replica;
    let replica =
        situation.replica.filter(|it| it.raw.metadata.uid == bind.replica_uid).ok_or_else(|| {
            let text = format!("there is no replica {name} with the uid {}; forget it", bind.replica_uid);
            Rejected::new(Reason::ReplicaGone, text)
                .at(situation.replica.map_or_else(Default::default, |it| it.raw.at))
        })?;
    let at = replica.raw.at;
    let reject = |reason, text: String| Err(Rejected::new(reason, text).at(at));
    if !replica.stands.binding.is_empty() {
        return reject(Reason::AlreadyBound, format!("the replica {name} has a node; forget it"));
    }
    if replica.raw.is_deleting() || situation.namespace_deleting {
        return reject(Reason::Deleting, format!("the replica {name} is being deleted; forget it"));
    }
    if replica.raw.metadata.generation != bind.replica_generation {
        let generation = replica.raw.metadata.generation;
        return reject(
            Reason::OldGeneration,
            format!("the replica {name} is at generation {generation}; decide again"),
        );
    }
    if matches!(replica.stands.stage, Stage::Stopping | Stage::Succeeded | Stage::Failed) {
        return reject(Reason::ReplicaEnded, format!("the replica {name} has ended; forget it"));
    }
    if replica.wants.deadline.is_some_and(|deadline| deadline <= situation.now) {
        return reject(
            Reason::ReplicaEnded,
            format!("the deadline of the replica {name} has passed; forget it"),
        );
    }
    if let Some(binding) = situation.binding {
        let text =
            format!("the binding of an earlier replica named {name} has yet to go; wait until it is gone");
        return Err(Rejected::new(Reason::AwaitingRelease, text).at(binding.raw.at));
    }
    if let Some(replaced) = situation.replaced.filter(|it| !it.is_released()) {
        let text = format!("the binding that {name} replaces is not released yet; wait for its release");
        return Err(Rejected::new(Reason::AwaitingRelease, text).at(replaced.raw.at));
    }
    Ok(replica)
}

/// The node, if it takes the replica.
fn taking<'a>(situation: &Situation<'a>, replica: &ReplicaSeen) -> Result<&'a NodeSeen, Rejected> {
    let bind = situation.bind;
    let name = &bind.node;
    let node = situation.node.filter(|it| it.uid == bind.node_uid).ok_or_else(|| {
        let text = format!("there is no node {name} with the uid {}; choose another", bind.node_uid);
        Rejected::new(Reason::NodeGone, text).at(situation.node.map_or_else(Default::default, |it| it.at))
    })?;
    let reject = |reason, text: String| Err(Rejected::new(reason, text).at(node.at));
    if node.deleting {
        return reject(Reason::Deleting, format!("the node {name} is being deleted; choose another"));
    }
    if node.unschedulable {
        return reject(
            Reason::NodeUnschedulable,
            format!("the node {name} takes no new replicas; choose another"),
        );
    }
    if !node.ready {
        return reject(Reason::NodeNotReady, format!("the node {name} is not ready; choose another"));
    }
    let fit = &replica.wants.template.placement;
    if let Some(taint) = node.taints.iter().find(|it| keeps_away(it, &fit.tolerations)) {
        let text =
            format!("the node {name} has the taint {}, which is not tolerated; choose another", taint.key);
        return reject(Reason::NodeTainted, text);
    }
    if !fit.zones.is_empty() && !fit.zones.contains(&node.zone) {
        let text = format!("the node {name} is in the zone {}, which the replica does not allow", node.zone);
        return reject(Reason::NodeUnsuitable, text);
    }
    if !fit.node_selector.matches(&node.labels) {
        let text =
            format!("the labels of the node {name} are not those that the replica asks for; choose another");
        return reject(Reason::NodeUnsuitable, text);
    }
    Ok(node)
}

fn keeps_away(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let tolerates = |it: &Toleration| {
        (it.key.is_empty() || it.key == taint.key)
            && it.value.as_ref().is_none_or(|value| *value == taint.value)
            && it.effect.is_none_or(|effect| effect == taint.effect)
    };
    taint.effect != TaintEffect::PreferNoSchedule && !tolerations.iter().any(tolerates)
}

/// Whether the policies are still what the caller followed.
fn follow_policies(
    situation: &Situation<'_>,
    replica: &ReplicaSeen,
    node: &NodeSeen,
) -> Result<(), Rejected> {
    for (named, policy) in situation.bind.policies.iter().zip(situation.policies) {
        let name = &named.name;
        let Some(policy) = policy.as_ref().filter(|it| it.is_active()) else {
            let at = policy.as_ref().map_or_else(Default::default, |it| it.at);
            let text = format!("the placement policy {name} is not active; decide again by those that are");
            return Err(Rejected::new(Reason::PolicyInactive, text).at(at));
        };
        let reject = |reason, text: String| Err(Rejected::new(reason, text).at(policy.at));
        if policy.generation != named.generation {
            let text =
                format!("the placement policy {name} is at generation {}; decide again", policy.generation);
            return reject(Reason::StaleCache, text);
        }
        if !in_scope(&policy.spec.scope, situation, replica, node) {
            return reject(
                Reason::PolicyInactive,
                format!("the placement policy {name} is not for this replica and node"),
            );
        }
        if !policy.spec.rules.node_selector.matches(&node.labels) {
            let text =
                format!("the labels of the node {} are not those that the policy {name} asks for", node.name);
            return reject(Reason::NodeUnsuitable, text);
        }
        check_fresh(situation, policy, name)?;
    }
    Ok(())
}

/// Whoever follows a policy has seen everything up to its activation: else it decides by new rules about an old world.
fn check_fresh(situation: &Situation<'_>, policy: &PolicyStands, name: &str) -> Result<(), Rejected> {
    let activation = policy.activation_revision;
    let behind = situation.observed.iter().find(|(_, seen)| **seen < activation.get());
    if let Some((kind, seen)) = behind {
        let text = format!(
            "{kind} was seen up to {seen} only, but {name} was activated at {activation}; catch up first"
        );
        return Err(Rejected::new(Reason::StaleCache, text).at(activation));
    }
    if !situation.observed.contains_key("Node") {
        let text = format!(
            "says nothing about how much of Node was seen, which {name} needs; name it in `observed`"
        );
        return Err(Rejected::new(Reason::Invalid, text));
    }
    Ok(())
}

fn in_scope(scope: &PolicyScope, situation: &Situation<'_>, replica: &ReplicaSeen, node: &NodeSeen) -> bool {
    let names = |list: &[String], name: &str| list.is_empty() || list.iter().any(|it| it == name);
    let class = replica.wants.template.priority_class.as_deref().unwrap_or_default();
    names(&scope.namespaces, &situation.bind.namespace)
        && scope.replicas.matches(&replica.raw.metadata.labels)
        && names(&scope.zones, &node.zone)
        && names(&scope.priority_classes, class)
}

/// A rule of spreading that the commit has to keep.
pub struct SpreadRule {
    pub topology_key: String,
    pub max_skew: u32,
    pub min_domains: u32,
}

/// The rules that make the replica wait rather than be placed unevenly.
fn spread_rules(situation: &Situation<'_>, replica: &ReplicaSeen) -> Vec<SpreadRule> {
    let said = &replica.wants.template.placement.spread;
    let hard = said.iter().filter(|it| it.when_unsatisfiable == WhenUnsatisfiable::Wait);
    let mut rules: Vec<_> = hard
        .map(|it| SpreadRule {
            topology_key: it.topology_key.clone(),
            max_skew: it.max_skew,
            min_domains: it.min_domains.unwrap_or(0),
        })
        .collect();
    if said.iter().all(|it| it.topology_key != "zone") {
        let policies = situation.policies.iter().flatten().map(|it| &it.spec.rules);
        let hard = policies.filter(|it| it.when_unsatisfiable == WhenUnsatisfiable::Wait);
        let least = hard.filter_map(|it| it.max_zone_skew).min();
        rules.extend(least.map(|max_skew| SpreadRule {
            topology_key: "zone".into(),
            max_skew,
            min_domains: 0,
        }));
    }
    rules
}

/// Whether the caller understood the rules.
fn check_spread(situation: &Situation<'_>, replica: &ReplicaSeen, node: &NodeSeen) -> Result<(), Rejected> {
    for rule in spread_rules(situation, replica) {
        let key = &rule.topology_key;
        let Some(domain) = node.domain(key) else {
            let text = format!("the node {} has no {key}, by which the replica has to be spread", node.name);
            return Err(Rejected::new(Reason::NodeUnsuitable, text).at(node.at));
        };
        let seen = situation.bind.spread.iter().find(|it| it.topology_key == *key);
        let problem = match seen {
            None => Some(format!("says nothing about spreading by {key}, which the replica asks for")),
            Some(it) if it.domain != domain => {
                Some(format!("places the node {} in {}, but its {key} is {domain}", node.name, it.domain))
            }
            Some(it) if it.max_skew == 0 || it.max_skew > rule.max_skew => {
                Some(format!("allows a skew of {} by {key}, the rule allows {}", it.max_skew, rule.max_skew))
            }
            Some(it) if !it.domains.is_empty() && !it.domains.contains(&it.domain) => {
                Some(format!("does not count {domain} among the places by {key}"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            return Err(Rejected::new(Reason::Invalid, format!("the bind {problem}; decide again")));
        }
    }
    Ok(())
}

/// What the binding takes in which ledger, in the order of the commit.
pub fn reservations(situation: &Situation<'_>, fitting: &Fitting<'_>, owner: &str) -> Vec<(For, Op)> {
    let Fitting { replica, node } = fitting;
    let (namespace, template) = (&situation.bind.namespace, &replica.wants.template);
    let owner = || owner.to_owned();
    let needs = books::amounts(&template.resources);
    let mut counted = needs.clone();
    counted.insert(books::REPLICAS.to_owned(), 1);
    let fixed = template.ports.iter().filter(|it| it.port != 0);
    let ports: Amounts = fixed.map(|it| (books::port(it.protocol, it.port), 1)).collect();

    let mut taken = Vec::with_capacity(5);
    if !needs.is_empty() {
        taken.push((
            For::Room,
            Op::Reserve { ledger: books::node(&node.name), owner: owner(), amounts: needs },
        ));
    }
    if !ports.is_empty() {
        taken.push((
            For::Ports,
            Op::Reserve { ledger: books::ports(&node.name), owner: owner(), amounts: ports },
        ));
    }
    let (ledger, zone) = (books::quota(namespace), books::zone_quota(namespace, &node.zone));
    taken.push((For::Quota, Op::Count { ledger, owner: owner(), amounts: counted.clone() }));
    taken.push((For::Quota, Op::Count { ledger: zone, owner: owner(), amounts: counted }));
    for rule in spread_rules(situation, replica) {
        let seen = situation.bind.spread.iter().find(|it| it.topology_key == rule.topology_key);
        let Some(seen) = seen else { continue };
        // Fewer places than there must be: the emptiest counts as having none.
        let few = seen.domains.len() < rule.min_domains as usize;
        let among = if few { Vec::new() } else { seen.domains.clone() };
        let ledger = books::spread(namespace, &replica.wants.workload, &rule.topology_key);
        let evenness = Evenness { max_skew: seen.max_skew.into(), among };
        let op = Op::Spread { ledger, owner: owner(), domain: seen.domain.clone(), evenness };
        taken.push((For::Spread, op));
    }
    taken
}
