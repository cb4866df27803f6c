//! The replicas of a workload should not be in one place, also where no rule demands it.

use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::topology::{Domain, TopologyIx};

/// What nobody asked for counts a tenth of what somebody did.
const IMPLIED: i64 = 10;

/// By how much a place is ahead of the emptiest: none is 0, far is -1000.
pub fn value(
    cluster: &Cluster,
    class: &Class,
    topology: TopologyIx,
    domain: Option<Domain>,
    floor: impl Fn(usize) -> u32,
) -> i64 {
    let mut sum = 0;
    for (index, rule) in class.spreads.iter().enumerate().filter(|(_, it)| it.topology == topology) {
        let value = match domain {
            None => -1000,
            Some(domain) => {
                let ahead = cluster.tallies().at(rule.tally, domain).saturating_sub(floor(index));
                -1000 * i64::from(ahead) / i64::from(ahead + rule.max_skew)
            }
        };
        sum += if rule.is_implied { value / IMPLIED } else { value };
    }
    sum
}
