//! Where certain replicas are, or are not, for rules that need not be kept.

use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::topology::{Domain, TopologyIx};

/// The share of the wishes about this kind of place that is fulfilled here; those to be apart count against it.
pub fn value(cluster: &Cluster, class: &Class, topology: TopologyIx, domain: Option<Domain>) -> i64 {
    let wishes = || class.affinities.iter().filter(|it| !it.is_required);
    let whole: i64 = wishes().map(|it| i64::from(it.weight)).sum();
    let Some(domain) = domain.filter(|_| whole > 0) else { return 0 };
    let here = wishes().filter(|it| it.topology == topology && cluster.tallies().at(it.tally, domain) > 0);
    here.map(|it| if it.is_apart { -1000 } else { 1000 } * i64::from(it.weight)).sum::<i64>() / whole
}
