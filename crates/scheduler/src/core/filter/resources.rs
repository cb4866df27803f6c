//! A node must have enough of every resource left, without what is kept for those at least as important.

use super::Miss;
use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::node::{NodeIx, Nomination};
use crate::core::cluster::resource::Dim;

pub fn check(cluster: &Cluster, class: &Class, node: NodeIx) -> Option<Miss> {
    let nodes = cluster.nodes();
    let has_nominations = nodes.has_nominations();
    class.demand.iter().find_map(|(dim, needed)| {
        let kept = if has_nominations { kept(cluster, class, node, *dim, false) } else { 0 };
        let found = nodes.free(*dim, node) - kept;
        (found < *needed).then_some(Miss::Resources { dim: *dim, needed: *needed, found })
    })
}

/// What is kept of a node for those at least as important; what is kept for the class itself is no obstacle to it, unless
/// it looks for one more place.
pub fn kept(cluster: &Cluster, class: &Class, node: NodeIx, dim: Dim, with_own: bool) -> i64 {
    let counts = |it: &&Nomination| it.priority >= class.priority() && (with_own || it.class != class.ix);
    let kept = cluster.nodes().nominated(node).filter(counts);
    kept.flat_map(|it| it.demand.iter()).filter(|(it, _)| *it == dim).map(|(_, amount)| amount).sum()
}

/// What will be free once those are gone whose release was asked for.
pub fn fits_eventually(cluster: &Cluster, class: &Class, node: NodeIx) -> bool {
    let residents = cluster.nodes().residents(node);
    class.demand.iter().all(|(dim, needed)| {
        let going = residents.iter().filter(|it| it.is_going).flat_map(|it| it.demand.iter());
        let going: i64 = going.filter(|(it, _)| it == dim).map(|(_, amount)| amount).sum();
        cluster.nodes().free(*dim, node) + going - kept(cluster, class, node, *dim, true) >= *needed
    })
}
