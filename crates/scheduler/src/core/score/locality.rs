//! A node that has a replica of the same image has the image: the replica starts sooner there.

use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::node::NodeIx;

pub fn value(cluster: &Cluster, class: &Class, node: NodeIx) -> i64 {
    let artifact = class.traits.artifact.as_ref();
    artifact.map_or(0, |artifact| if cluster.has_artifact(artifact, node) { 1000 } else { 0 })
}
