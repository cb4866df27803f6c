//! A namespace must have enough of its quotas left: over all zones, and in the zone of the node.

use super::Miss;
use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::topology::Domain;

/// Whether `count` replicas of the class fit: over all zones, or in one.
pub fn check(cluster: &Cluster, class: &Class, zone: Option<Domain>, count: i64) -> Option<Miss> {
    let miss = cluster.quotas().miss(class.namespace(), zone, &class.demand, count)?;
    Some(Miss::Quota(Box::new(miss)))
}
