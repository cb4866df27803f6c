//! A rule of spreading: with the replica its place may have so many more than the emptiest.

use crate::core::class::SpreadRule;
use crate::core::cluster::Cluster;
use crate::core::cluster::topology::{Domain, TopologyIx};
use crate::core::site::{DOMAINS_MAX, SiteKey, Survey};

/// How many the emptiest of the places has that count.
///
/// Where each node is a place, or there are very many, it counts as having none: there is nearly always an empty one, and nobody
/// wants ten thousand names in a request. With fewer places than the rule demands it does, too.
pub fn floor(cluster: &Cluster, rule: &SpreadRule, key: &SiteKey, survey: &Survey) -> u32 {
    let Some(places) = places(rule, key, survey) else { return 0 };
    if places.len() < rule.min_domains as usize {
        return 0;
    }
    places.iter().map(|domain| cluster.tallies().at(rule.tally, *domain)).min().unwrap_or(0)
}

/// The places that count, if they are counted one by one.
pub fn places<'a>(
    rule: &SpreadRule,
    key: &SiteKey,
    survey: &'a Survey,
) -> Option<&'a std::collections::BTreeSet<Domain>> {
    let at = key.topologies.iter().position(|it| *it == rule.topology)?;
    survey.places.get(at).filter(|it| it.len() <= DOMAINS_MAX && rule.topology != TopologyIx::NODE)
}

/// A node that is nowhere by the rule's key cannot keep it.
pub fn is_broken(cluster: &Cluster, rule: &SpreadRule, floor: u32, domain: Option<Domain>) -> bool {
    let Some(domain) = domain else { return true };
    cluster.tallies().at(rule.tally, domain) + 1 > floor.saturating_add(rule.max_skew)
}
