//! Rather where much of the zone is free, or the first zone fills up and those who must be spread find no place.

use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::resource::Dim;
use crate::core::cluster::topology::Domain;

/// The share of the resource that is scarcest there among those the replica needs.
pub fn value(cluster: &Cluster, class: &Class, zone: Domain) -> i64 {
    let needed = class.demand.iter().map(|(dim, _)| *dim);
    let free = needed.map(|dim| cluster.zone_free(zone, dim)).min();
    free.unwrap_or_else(|| cluster.zone_free(zone, Dim::CPU)).clamp(0, 1000)
}
