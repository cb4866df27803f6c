//! Processor and memory should run out together: what is left of one without the other is of no use to anybody.

use crate::core::class::Class;
use crate::core::cluster::node::NodeIx;
use crate::core::cluster::resource::Dim;
use crate::core::cluster::{Cluster, permille};

/// How much of processor and memory is in use with the replica, of a thousand.
pub fn used_after(cluster: &Cluster, class: &Class, node: NodeIx) -> (i64, i64) {
    let nodes = cluster.nodes();
    let used = |dim: Dim| {
        let capacity = nodes.capacity(dim, node);
        let wanted = class.demand.iter().find(|(it, _)| *it == dim).map_or(0, |(_, amount)| *amount);
        if capacity <= 0 { 0 } else { permille(capacity - nodes.free(dim, node) + wanted, capacity) }
    };
    (used(Dim::CPU), used(Dim::MEMORY))
}

pub fn value((cpu, memory): (i64, i64)) -> i64 {
    -(cpu - memory).abs().min(1000)
}
