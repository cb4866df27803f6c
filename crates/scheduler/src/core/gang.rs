//! Gangs: so many replicas of a workload get their nodes together, or none of them does.
//!
//! If seats were kept for it (`seats`), those are what it gets. Once the gang has its nodes, further replicas of the workload are placed one by one; a member that was lost is replaced by itself.

use std::sync::Arc;

use super::class::Class;
use super::cluster::Cluster;
use super::explain::{Refusal, refuse};
use super::place::{Grounds, Placed, Search, place};
use super::seats;

/// How many have to be placed together now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Muster {
    /// The gang has its nodes, or there is none: each for itself.
    Each,
    /// All of these, or none.
    Together(usize),
    /// Some do not exist yet.
    Incomplete { waiting: usize, needed: usize },
}

/// `waiting` are those who could be placed now.
pub fn muster(cluster: &Cluster, class: &Class, waiting: usize) -> Muster {
    let Some(size) = class.wants.placement.gang else { return Muster::Each };
    let wants = &class.wants;
    let has_begun = cluster.tallies().bound_of(&wants.namespace, &wants.workload) > 0;
    let needed = size as usize;
    match waiting {
        _ if has_begun => Muster::Each,
        _ if waiting < needed => Muster::Incomplete { waiting, needed },
        _ => Muster::Together(needed),
    }
}

/// Places all, or leaves everything as it was and says why the next of them had no node.
pub fn place_all(
    cluster: &mut Cluster,
    grounds: Grounds<'_>,
    replicas: &[Arc<str>],
    seed: u64,
    search: Search,
) -> Result<Vec<Placed>, Box<Refusal>> {
    if let Some(placed) = seats::sit(cluster, grounds, replicas, search) {
        return Ok(placed);
    }
    // What is taken and given back at once helps nobody who waits.
    let before = cluster.take_events();
    let kept = cluster.nodes().kept_for(grounds.class.ix);
    let placed = place(cluster, grounds, replicas, seed, search);
    if placed.len() == replicas.len() {
        before.into_iter().for_each(|event| cluster.tell(event));
        return Ok(placed);
    }
    let mut refusal = refuse(cluster, grounds);
    let (found, needed) = (placed.len(), replicas.len());
    refusal.message =
        format!("{found} of {needed} that need their nodes together could have one: {}", refusal.message);
    for replica in &replicas[..found] {
        cluster.forget(replica);
    }
    cluster.withdraw_all(grounds.class.ix);
    kept.into_iter().for_each(|(node, kept)| cluster.nominate(node, kept));
    drop(cluster.take_events());
    before.into_iter().for_each(|event| cluster.tell(event));
    Err(Box::new(refusal))
}
