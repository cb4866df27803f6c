//! Which ledgers there are for nodes, namespaces and workloads, and under which name a binding reserves in them.
//!
//! | ledger | of | limits |
//! |---|---|---|
//! | `node/NODE` | what a node has for replicas | follow the Node |
//! | `ports/NODE` | its ports: `tcp-8080` | one of each, with the Node |
//! | `quota/NAMESPACE`, `quota/NAMESPACE/ZONE` | what the replicas of a namespace have, there and in one zone | follow its Quotas |
//! | `spread/NAMESPACE/WORKLOAD/TOPOLOGY` | how many replicas of a workload are in which place | none |
//!
//! What a namespace has is counted whether it has quotas or not: one that is made later finds what was there before it, and
//! a bind need not know which there are.

use std::collections::BTreeMap;

use setpoint_store::Amounts;
use setpoint_store::ledger::EVERY_OTHER;
use setpoint_types::kinds::{NodeSpec, Protocol, QuotaSpec};
use setpoint_types::quantity;

/// How many replicas, beside their resources. A quota can limit it like those.
pub const REPLICAS: &str = "replicas";

pub fn node(node: &str) -> String {
    format!("node/{node}")
}

pub fn ports(node: &str) -> String {
    format!("ports/{node}")
}

pub fn quota(namespace: &str) -> String {
    format!("quota/{namespace}")
}

pub fn zone_quota(namespace: &str, zone: &str) -> String {
    format!("quota/{namespace}/{zone}")
}

pub fn spread(namespace: &str, workload: &str, topology_key: &str) -> String {
    format!("spread/{namespace}/{workload}/{topology_key}")
}

/// Who reserves for a binding. The uid tells it from an earlier one of its name; the name leads back to it.
pub fn owner(namespace: &str, binding: &str, uid: &str) -> String {
    format!("{namespace}/{binding}/{uid}")
}

/// Whether the ledger is written with nodes, quotas and bindings only.
pub fn is_followed(ledger: &str) -> bool {
    ["node/", "ports/", "quota/", "spread/"].iter().any(|prefix| ledger.starts_with(prefix))
}

/// As a dimension of `ports/NODE`.
pub fn port(protocol: Protocol, port: u16) -> String {
    match protocol {
        Protocol::Tcp => format!("tcp-{port}"),
        Protocol::Udp => format!("udp-{port}"),
    }
}

pub fn amounts(amounts: &quantity::Amounts) -> Amounts {
    let counted = amounts.iter().map(|(name, amount)| (name.to_owned(), u64::try_from(amount).unwrap_or(0)));
    counted.filter(|(_, amount)| *amount > 0).collect()
}

/// What replicas can have of a node.
pub fn node_limits(spec: &NodeSpec) -> Amounts {
    let reserved = |name: &str| spec.reserved.get(name).unwrap_or(0);
    let left = spec.capacity.iter().map(|(name, amount)| (name, amount.saturating_sub(reserved(name))));
    left.map(|(name, amount)| (name.to_owned(), u64::try_from(amount).unwrap_or(0))).collect()
}

pub fn port_limits() -> Amounts {
    Amounts::from([(EVERY_OTHER.to_owned(), 1)])
}

/// What the quotas of a namespace allow together, by zone; of everything under the empty name.
pub fn quota_limits<'q>(quotas: impl IntoIterator<Item = &'q QuotaSpec>) -> BTreeMap<String, Amounts> {
    let mut limits: BTreeMap<String, Amounts> = BTreeMap::new();
    for quota in quotas {
        let zones = quota.zones.iter().map(|it| (it.zone.as_str(), &it.limits));
        for (zone, said) in [("", &quota.limits)].into_iter().chain(zones) {
            for (name, limit) in said.iter() {
                let limit = u64::try_from(limit).unwrap_or(0);
                let least =
                    limits.entry(zone.to_owned()).or_default().entry(name.to_owned()).or_insert(limit);
                *least = limit.min(*least);
            }
        }
    }
    // What no quota names is not limited.
    for limits in limits.values_mut() {
        limits.insert(EVERY_OTHER.to_owned(), u64::MAX);
    }
    limits
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::ZoneLimits;

    use super::*;

    fn said(of: &[(&str, i64)]) -> quantity::Amounts {
        of.iter().map(|(name, amount)| (name.to_string(), *amount)).collect()
    }

    #[test]
    fn of_several_quotas_the_least_counts_and_what_none_names_is_free() {
        let zone = |zone: &str, limits| ZoneLimits { zone: zone.into(), limits };
        let one = QuotaSpec { limits: said(&[("cpu", 9), ("gpu", 2)]), zones: Vec::new() };
        let two = QuotaSpec { limits: said(&[("cpu", 5)]), zones: vec![zone("a", said(&[("cpu", 1)]))] };
        let limits = quota_limits([&one, &two]);
        let free = ("*".to_owned(), u64::MAX);
        let (cpu, gpu) = (("cpu".to_owned(), 5), ("gpu".to_owned(), 2));
        assert_eq!(limits[""], Amounts::from([free.clone(), cpu, gpu]));
        assert_eq!(limits["a"], Amounts::from([free, ("cpu".to_owned(), 1)]));
        assert_eq!(quota_limits([]), BTreeMap::new());
    }

    #[test]
    fn a_node_has_its_capacity_without_what_is_kept_for_the_host() {
        let spec = NodeSpec {
            capacity: said(&[("cpu", 4000), ("gpu", 1)]),
            reserved: said(&[("cpu", 500)]),
            ..NodeSpec::default()
        };
        let limits = Amounts::from([("cpu".to_owned(), 3500), ("gpu".to_owned(), 1)]);
        assert_eq!(node_limits(&spec), limits);
    }
}
