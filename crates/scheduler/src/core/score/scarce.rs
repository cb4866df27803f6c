//! What has a name of its own, such as gpus, is kept for those who ask for it.

use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::node::NodeIx;
use crate::core::cluster::resource::Dim;

/// The share of the named resources the node has that the replica does not want.
pub fn value(cluster: &Cluster, class: &Class, node: NodeIx) -> i64 {
    let named = (Dim::FIRST_NAMED..cluster.dimensions().len() as u32).map(Dim);
    let (mut offered, mut unwanted) = (0, 0);
    for dim in named {
        if cluster.nodes().capacity(dim, node) > 0 {
            offered += 1;
            unwanted += i64::from(!class.demand.iter().any(|(it, _)| *it == dim));
        }
    }
    if offered == 0 { 0 } else { -1000 * unwanted / offered }
}
