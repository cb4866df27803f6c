//! Processor and memory should run out together: what is left of one without the other is of no use to anybody.

use crate::core::class::Class;
use crate::core::cluster::node::NodeIx;
use crate::core::cluster::resource::Dim;
use crate::core::cluster::{Cluster, permille};

/// How much of processor and memory is in use with the replica, of a thousand. A node that has only one of them is judged by that
/// one: there is nothing that it could be out of balance with.
pub fn used_after(cluster: &Cluster, class: &Class, node: NodeIx) -> (i64, i64) {
    let nodes = cluster.nodes();
    let used = |dim: Dim| {
        let capacity = nodes.capacity(dim, node);
        let wanted = class.demand.iter().find(|(it, _)| *it == dim).map_or(0, |(_, amount)| *amount);
        (capacity > 0).then(|| permille(capacity - nodes.free(dim, node) + wanted, capacity))
    };
    let (cpu, memory) = (used(Dim::CPU), used(Dim::MEMORY));
    (cpu.or(memory).unwrap_or(0), memory.or(cpu).unwrap_or(0))
}

pub fn value((cpu, memory): (i64, i64)) -> i64 {
    -(cpu - memory).abs().min(1000)
}
