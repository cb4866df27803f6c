//! Taking the place of others: which node, and whose place. Nobody is bound before they are really gone; until then the place is
//! kept for whom it was taken for.
//!
//! If waiting is enough, because others leave anyway, nobody is made to go. Victims have a lower priority, and each of them is needed:
//! all of lower priority are thought away, then called back one by one, the most important first, as long as the replica still fits.
//! Among nodes the one wins whose most important victim is least important, then with the lowest sum of priorities, then with the
//! fewest victims. Whom the replica wants to be near to is nobody's victim for it.
//!
//! Not here: places for several that need them together (`seats`).

use std::sync::Arc;

use super::class::Class;
use super::cluster::Cluster;
use super::cluster::node::{NodeIx, Nomination, Port, Resident};
use super::cluster::resource::Dim;
use super::filter::{Crowd, resources};
use super::hash::mix;
use super::place::Grounds;

/// More nodes than this are not compared: the best of a hundred is good enough to make others go.
const CANDIDATES_MAX: usize = 100;

/// A place that will be free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nominee {
    pub node: NodeIx,
    /// Who has to go: replicas, with their priorities. Empty: others leave anyway.
    pub victims: Vec<(Arc<str>, i32)>,
}

/// Finds a place that others can be made to leave, and keeps it for the next replica of the class.
pub fn nominate(
    cluster: &mut Cluster,
    grounds: Grounds<'_>,
    may_evict: bool,
    seed: u64,
    until: u64,
) -> Option<Nominee> {
    let nominee = find(cluster, grounds, may_evict, seed)?;
    cluster.nominate(nominee.node, nomination(grounds.class, until));
    for (victim, _) in &nominee.victims {
        cluster.set_going(victim);
    }
    Some(nominee)
}

/// What is kept for a replica of a class.
pub fn nomination(class: &Class, until: u64) -> Nomination {
    let (priority, demand) = (class.priority(), class.demand.clone());
    Nomination { class: class.ix, priority, demand, seat: 0, until }
}

/// Finds a place that others leave, or can be made to leave.
pub fn find(cluster: &Cluster, grounds: Grounds<'_>, may_evict: bool, seed: u64) -> Option<Nominee> {
    let crowd = Crowd::new(cluster, grounds.class, grounds.key, grounds.survey);
    let buckets: Vec<bool> =
        grounds.survey.buckets.iter().map(|it| crowd.judge_bucket(it).is_none()).collect();
    let allowed = || {
        let suitable = grounds.survey.suitable.iter().filter(|it| buckets[it.bucket as usize]);
        suitable.map(|it| it.node).filter(|node| crowd.judge_node_rules(*node).is_none())
    };
    let leaves = |node: NodeIx| cluster.nodes().residents(node).iter().any(|it| it.is_going);
    let patient = allowed().filter(|node| leaves(*node)).find(|node| {
        resources::fits_eventually(cluster, grounds.class, *node)
            && ports_free(cluster, grounds.class, *node, &[])
    });
    if let Some(node) = patient {
        return Some(Nominee { node, victims: Vec::new() });
    }
    if !may_evict {
        return None;
    }
    let priority = grounds.class.priority();
    let has_lesser = |node: NodeIx| {
        cluster.nodes().residents(node).iter().any(|it| it.priority.is_some_and(|it| it < priority))
    };
    let mut candidates: Vec<NodeIx> = allowed().filter(|node| has_lesser(*node)).collect();
    candidates.sort_by_key(|node| mix(seed ^ u64::from(node.0)));
    let mut plans = candidates.into_iter().filter_map(|node| victims(cluster, grounds.class, node));
    let plans: Vec<Nominee> = plans.by_ref().take(CANDIDATES_MAX).collect();
    plans.into_iter().min_by_key(|it| {
        let priorities = it.victims.iter().map(|it| i64::from(it.1));
        (priorities.clone().max(), priorities.sum::<i64>(), it.victims.len())
    })
}

/// Whether others could be made to leave enough of a node, rules aside.
pub fn could_take(cluster: &Cluster, class: &Class, node: NodeIx) -> bool {
    let lesser = lesser(cluster, class, node);
    !lesser.is_empty() && fits_without(cluster, class, node, &lesser)
}

/// Those on a node who could be made to go.
fn lesser<'a>(cluster: &'a Cluster, class: &Class, node: NodeIx) -> Vec<&'a Resident> {
    let is_lesser = |it: &Resident| it.priority.is_some_and(|it| it < class.priority());
    let all = cluster.nodes().residents(node).iter();
    all.filter(|it| is_lesser(it) && !it.is_going && !is_company(cluster, class, it)).collect()
}

/// Who has to leave a node, if that is enough.
fn victims(cluster: &Cluster, class: &Class, node: NodeIx) -> Option<Nominee> {
    let mut chosen = lesser(cluster, class, node);
    if !fits_without(cluster, class, node, &chosen) {
        return None;
    }
    chosen.sort_by(|one, other| other.priority.cmp(&one.priority).then(one.key.cmp(&other.key)));
    let mut index = 0;
    while index < chosen.len() {
        let spared = chosen.remove(index);
        if !fits_without(cluster, class, node, &chosen) {
            chosen.insert(index, spared);
            index += 1;
        }
    }
    let victims: Vec<(Arc<str>, i32)> =
        chosen.into_iter().map(|it| (it.key.clone(), it.priority.unwrap_or_default())).collect();
    // It fits without anybody leaving: then something else is in the way.
    (!victims.is_empty()).then_some(Nominee { node, victims })
}

/// Whether the replica has to be near to somebody like this one.
fn is_company(cluster: &Cluster, class: &Class, resident: &Resident) -> bool {
    let mut near = class.affinities.iter().filter(|it| it.is_required && !it.is_apart).peekable();
    if near.peek().is_none() {
        return false;
    }
    let Some(traits) = cluster.bounds().traits(&resident.key) else { return false };
    traits.group.namespace == *class.namespace() && near.any(|it| it.selector.matches(&traits.group.labels))
}

/// Whether the replica fits once these, and those who leave anyway, are gone.
fn fits_without(cluster: &Cluster, class: &Class, node: NodeIx, gone: &[&Resident]) -> bool {
    let given = |dim: Dim| -> i64 {
        let leaving = cluster.nodes().residents(node).iter().filter(|it| it.is_going);
        let all = leaving.chain(gone.iter().copied());
        all.flat_map(|it| it.demand.iter()).filter(|(it, _)| *it == dim).map(|(_, amount)| amount).sum()
    };
    let has_room = class.demand.iter().all(|(dim, needed)| {
        let kept = resources::kept(cluster, class, node, *dim, true);
        cluster.nodes().free(*dim, node) + given(*dim) - kept >= *needed
    });
    has_room && ports_free(cluster, class, node, gone)
}

fn ports_free(cluster: &Cluster, class: &Class, node: NodeIx, gone: &[&Resident]) -> bool {
    let stays = |it: &&Resident| !it.is_going && !gone.iter().any(|gone| gone.key == it.key);
    let taken =
        |port: &Port| cluster.nodes().residents(node).iter().filter(stays).any(|it| it.ports.contains(port));
    !class.ports.iter().any(taken)
}
