//! Rules of nearness: where certain replicas are, or where none of them is.

use crate::core::class::AffinityRule;
use crate::core::cluster::Cluster;
use crate::core::cluster::topology::Domain;

/// A replica that wants to be near to its like may be the first of them anywhere.
pub fn is_broken(cluster: &Cluster, rule: &AffinityRule, has_company: bool, domain: Option<Domain>) -> bool {
    let Some(domain) = domain else { return !rule.is_apart };
    let is_there = cluster.tallies().at(rule.tally, domain) > 0;
    match rule.is_apart {
        true => is_there,
        false => !is_there && (has_company || !rule.includes_itself),
    }
}
