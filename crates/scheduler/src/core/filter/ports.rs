//! A port with a number is for one replica of a node.

use super::Miss;
use crate::core::class::Class;
use crate::core::cluster::Cluster;
use crate::core::cluster::node::NodeIx;

pub fn check(cluster: &Cluster, class: &Class, node: NodeIx) -> Option<Miss> {
    let taken = class.ports.iter().find(|port| cluster.nodes().has_port(node, **port));
    taken.map(|port| Miss::Port(*port))
}
