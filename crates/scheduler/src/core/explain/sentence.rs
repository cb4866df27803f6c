//! The sentences people read: what is lacking, and what they can do about it.

use std::collections::BTreeMap;

use crate::core::cluster::Cluster;
use crate::core::cluster::node::NodeIx;
use crate::core::cluster::quota::QuotaMiss;
use crate::core::cluster::resource::Dim;
use crate::core::filter::{Crowd, spread};
use crate::core::place::Grounds;

type Nearest = BTreeMap<Dim, (i64, i64, NodeIx)>;

pub fn paused(title: &str, name: &str) -> String {
    format!(
        "the placement policy {title} is paused: activate the PlacementPolicy {name}, or change its scope"
    )
}

pub fn quota(cluster: &Cluster, namespace: &str, miss: &QuotaMiss) -> String {
    let amount = |value| cluster.dimensions().format(miss.dim, value);
    let dim = cluster.dimensions().name(miss.dim);
    let place = miss
        .zone
        .map_or_else(String::new, |zone| format!(" in zone {}", cluster.topologies().zone_name(zone)));
    let (limit, used, wanted) = (amount(miss.limit), amount(miss.used), amount(miss.requested));
    if miss.is_hopeless() {
        return format!(
            "it asks for {wanted} {dim}, and the quota {} of namespace {namespace} allows {limit}{place} in all: raise the quota, \
             or ask for less",
            miss.quota
        );
    }
    format!(
        "the quota {} of namespace {namespace} allows {limit} {dim}{place}, {used} are in use and {wanted} more are asked for: raise \
         the quota, or stop something",
        miss.quota
    )
}

pub fn nobody_suits(counts: &BTreeMap<(&'static str, &str), u32>, nodes: usize) -> String {
    if nodes == 0 {
        return "there is no node: start an agent".to_owned();
    }
    let mut parts: Vec<(u32, String)> =
        counts.iter().map(|((filter, detail), count)| (*count, unsuited(filter, detail, *count))).collect();
    parts.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    let parts: Vec<String> = parts.into_iter().take(4).map(|it| it.1).collect();
    format!("none of {nodes} nodes suits: {}", parts.join(", "))
}

fn unsuited(filter: &str, detail: &str, count: u32) -> String {
    let is = if count == 1 { "is" } else { "are" };
    match filter {
        "Zone" => format!("{count} {is} in other zones"),
        "Selector" => format!("{count} without the labels {detail}"),
        "Policy" => format!("{count} not for it because {detail}"),
        "Taints" => format!("{count} with the taint {detail}, which it does not tolerate"),
        "Runtime" => format!("{count} cannot run {detail}"),
        "Cordon" => format!("{count} {is} cordoned"),
        _ => format!("{count} {is} {detail}"),
    }
}

/// No node is large enough, not even an empty one.
pub fn too_large(cluster: &Cluster, grounds: Grounds<'_>) -> String {
    let parts = grounds.class.demand.iter().filter_map(|(dim, wanted)| {
        let nodes = grounds.survey.suitable.iter().map(|it| cluster.nodes().capacity(*dim, it.node));
        let largest = nodes.max().unwrap_or(0);
        let (name, format) = (cluster.dimensions().name(*dim), |it| cluster.dimensions().format(*dim, it));
        (largest < *wanted).then(|| {
            format!("{} {name}, and the largest node that suits has {}", format(*wanted), format(largest))
        })
    });
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => {
            "no node that suits has all it asks for together, even if it were empty: ask for less".to_owned()
        }
        false => format!("it asks for {}: ask for less, or add a larger node", parts.join("; ")),
    }
}

pub fn capacity(cluster: &Cluster, grounds: Grounds<'_>, nearest: &Nearest, suitable: u32) -> String {
    let lacking = lacking(cluster, nearest);
    if lacking.is_empty() {
        let ports: Vec<String> = grounds.class.ports.iter().map(|(_, port)| port.to_string()).collect();
        return format!("the port {} is taken on all {suitable} nodes that suit", ports.join(" or "));
    }
    format!("the {suitable} nodes that suit are full: {lacking}")
}

/// "needs 500m cpu, the best node a7 has 420m"
fn lacking(cluster: &Cluster, nearest: &Nearest) -> String {
    let parts = nearest.iter().map(|(dim, (found, needed, node))| {
        let format = |it| cluster.dimensions().format(*dim, it);
        let (name, node) = (cluster.dimensions().name(*dim), cluster.nodes().name(*node));
        format!(
            "it needs {} {name}, and of those without enough the best, {node}, has {}",
            format(*needed),
            format(*found)
        )
    });
    parts.take(2).collect::<Vec<_>>().join("; ")
}

pub fn topology(cluster: &Cluster, grounds: Grounds<'_>, crowd: &Crowd<'_>, nearest: &Nearest) -> String {
    let mut parts = Vec::new();
    for (index, rule) in grounds.class.spreads.iter().enumerate().filter(|(_, it)| it.is_hard) {
        let key = cluster.topologies().key(rule.topology);
        let Some(places) = spread::places(rule, grounds.key, grounds.survey) else {
            parts.push(format!("a {key} may have {} of its replicas at most", rule.max_skew));
            continue;
        };
        let open =
            places.iter().filter(|it| !spread::is_broken(cluster, rule, crowd.floor(index), Some(**it)));
        let open: Vec<&str> =
            open.take(5).map(|it| cluster.topologies().domain_name(rule.topology, *it)).collect();
        let most = rule.max_skew;
        parts.push(match open.is_empty() {
            true => format!("spreading by {key} with a skew of {most} leaves no place"),
            false => format!("spreading by {key} with a skew of {most} leaves only {}", open.join(", ")),
        });
    }
    for rule in grounds.class.affinities.iter().filter(|it| it.is_required) {
        let key = cluster.topologies().key(rule.topology);
        let selector = &rule.selector;
        parts.push(match rule.is_apart {
            true => format!("it must not share a {key} with replicas {selector}"),
            false => format!("it must share a {key} with replicas {selector}"),
        });
    }
    let full = lacking(cluster, nearest);
    let rest = if full.is_empty() { String::new() } else { format!("; and nodes are full: {full}") };
    format!("{}{rest}", parts.join("; "))
}
