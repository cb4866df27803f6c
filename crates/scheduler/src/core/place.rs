//! Finding nodes for replicas of one class, one after the other, each on top of those before.
//!
//! For many, every node that suits is looked at once: a heap of nodes per place, best first. Placing a replica changes the score of
//! its node only, and what the nodes of a place have in common is added when places are compared, so the best of all is found each
//! time without looking at the others again. For few, a sample of the nodes is looked at, beginning somewhere else each time;
//! `tests/quality` compares what comes of it with a look at every node, `examples/place_speed.rs` measures both.
//!
//! Not here: several that need their nodes together (`gang`), and what to do if there is none (`explain`, `preempt`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::class::Class;
use super::cluster::Cluster;
use super::cluster::bound::Held;
use super::cluster::node::NodeIx;
use super::cluster::topology::TopologyIx;
use super::filter::{Crowd, quota};
use super::hash::mix;
use super::score::Scores;
use super::site::{SiteKey, Survey};

/// From so many on a look at every node pays: the heaps cost as much as some ten samples.
const MANY: usize = 8;

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// For few replicas it is enough to have found so many nodes that would do.
    pub sample: usize,
    /// Say how the best nodes compare.
    pub explains: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self { sample: 100, explains: false }
    }
}

impl Search {
    /// Looks at every node, for every replica.
    pub const EXHAUSTIVE: Self = Self { sample: usize::MAX, explains: false };
}

/// A replica has a node: it is assumed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub node: NodeIx,
    /// How many nodes were looked at, and how many of them would do.
    pub evaluated: u32,
    pub feasible: u32,
    /// If it was asked for: the best nodes, with what each term added.
    pub scores: Vec<(NodeIx, BTreeMap<String, i64>)>,
}

/// Where a class may be placed.
#[derive(Clone, Copy)]
pub struct Grounds<'a> {
    pub class: &'a Class,
    pub key: &'a SiteKey,
    pub survey: &'a Survey,
}

/// Places as many replicas as there are nodes for, in their order. Fewer than were asked for: there is none for the next.
pub fn place(
    cluster: &mut Cluster,
    grounds: Grounds<'_>,
    replicas: &[Arc<str>],
    seed: u64,
    search: Search,
) -> Vec<Placed> {
    // Being the first of its like somewhere changes what every node is worth, not only that one.
    let is_nodes_company =
        |it: &super::class::AffinityRule| it.is_required && !it.is_apart && it.topology == TopologyIx::NODE;
    let is_local = !grounds.class.affinities.iter().any(is_nodes_company);
    if replicas.len() >= MANY && is_local && search != Search::EXHAUSTIVE {
        return by_heaps(cluster, grounds, replicas, seed, search);
    }
    let mut placed = Vec::new();
    for (index, replica) in replicas.iter().enumerate() {
        if quota::check(cluster, grounds.class, None, 1).is_some() {
            break;
        }
        let Some(found) = by_sample(cluster, grounds, mix(seed ^ index as u64), search) else { break };
        assume(cluster, grounds.class, replica, found.node);
        placed.push(found);
    }
    placed
}

/// Takes the node for the replica.
pub fn assume(cluster: &mut Cluster, class: &Class, replica: &str, node: NodeIx) {
    let held = Held { node, demand: class.demand.clone(), ports: class.ports.clone(), is_going: false };
    cluster.assume(replica, held, class.traits.clone());
    if cluster.nodes().has_nominations() {
        cluster.withdraw(class.ix, Some(node));
    }
}

/// A node that would do. The better one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    score: i64,
    tie: u32,
    /// In the survey.
    index: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.score, self.tie, self.index).cmp(&(other.score, other.tie, other.index))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn candidate(
    cluster: &Cluster,
    grounds: Grounds<'_>,
    crowd: &Crowd<'_>,
    index: usize,
    seed: u64,
) -> Option<Candidate> {
    let suitable = &grounds.survey.suitable[index];
    if crowd.judge_node(suitable.node).is_some() {
        return None;
    }
    let score = Scores::new(cluster, grounds.class, grounds.key).of_node(suitable);
    Some(Candidate { score, tie: tie(seed, suitable.node), index: index as u32 })
}

fn tie(seed: u64, node: NodeIx) -> u32 {
    mix(seed ^ (u64::from(node.0) << 20)) as u32
}

fn by_heaps(
    cluster: &mut Cluster,
    grounds: Grounds<'_>,
    replicas: &[Arc<str>],
    seed: u64,
    search: Search,
) -> Vec<Placed> {
    let survey = grounds.survey;
    let mut lists: Vec<Vec<Candidate>> = vec![Vec::new(); survey.buckets.len()];
    {
        let crowd = Crowd::new(cluster, grounds.class, grounds.key, survey);
        for (index, suitable) in survey.suitable.iter().enumerate() {
            lists[suitable.bucket as usize].extend(candidate(cluster, grounds, &crowd, index, seed));
        }
    }
    let mut heaps: Vec<BinaryHeap<Candidate>> = lists.into_iter().map(BinaryHeap::from).collect();
    let mut placed = Vec::with_capacity(replicas.len());
    for replica in replicas {
        if quota::check(cluster, grounds.class, None, 1).is_some() {
            break;
        }
        let feasible = heaps.iter().map(BinaryHeap::len).sum::<usize>() as u32;
        let Some((bucket, scores)) = best_bucket(cluster, grounds, &heaps, search.explains) else { break };
        let best = heaps[bucket].pop().expect("a bucket that was compared has a best");
        let node = survey.suitable[best.index as usize].node;
        assume(cluster, grounds.class, replica, node);
        placed.push(Placed { node, evaluated: survey.suitable.len() as u32, feasible, scores });
        let crowd = Crowd::new(cluster, grounds.class, grounds.key, survey);
        heaps[bucket].extend(candidate(cluster, grounds, &crowd, best.index as usize, seed));
    }
    placed
}

type Compared = (usize, Vec<(NodeIx, BTreeMap<String, i64>)>);

/// The place whose best node is the best of all; and how the best compare, if that is asked for.
fn best_bucket(
    cluster: &Cluster,
    grounds: Grounds<'_>,
    heaps: &[BinaryHeap<Candidate>],
    explains: bool,
) -> Option<Compared> {
    let crowd = Crowd::new(cluster, grounds.class, grounds.key, grounds.survey);
    let scores = Scores::new(cluster, grounds.class, grounds.key);
    let mut tops: Vec<(i64, u32, usize, u32)> = Vec::with_capacity(heaps.len());
    for (index, heap) in heaps.iter().enumerate() {
        let Some(top) = heap.peek() else { continue };
        let bucket = &grounds.survey.buckets[index];
        if crowd.judge_bucket(bucket).is_none() {
            tops.push((top.score + scores.of_bucket(bucket, &crowd), top.tie, index, top.index));
        }
    }
    let best = tops.iter().max()?.2;
    let mut compared = Vec::new();
    if explains {
        tops.sort_unstable_by(|one, other| other.cmp(one));
        compared = tops.iter().take(3).map(|it| explained(&scores, &crowd, grounds, it.3)).collect();
    }
    Some((best, compared))
}

fn explained(
    scores: &Scores<'_>,
    crowd: &Crowd<'_>,
    grounds: Grounds<'_>,
    index: u32,
) -> (NodeIx, BTreeMap<String, i64>) {
    let suitable = &grounds.survey.suitable[index as usize];
    let bucket = &grounds.survey.buckets[suitable.bucket as usize];
    (suitable.node, scores.terms(suitable, bucket, crowd))
}

/// The best of the first nodes that would do, in an order of its own.
fn by_sample(cluster: &Cluster, grounds: Grounds<'_>, seed: u64, search: Search) -> Option<Placed> {
    let survey = grounds.survey;
    let count = survey.suitable.len();
    let crowd = Crowd::new(cluster, grounds.class, grounds.key, survey);
    let scores = Scores::new(cluster, grounds.class, grounds.key);
    let of_bucket = |bucket| crowd.judge_bucket(bucket).is_none().then(|| scores.of_bucket(bucket, &crowd));
    let buckets: Vec<Option<i64>> = survey.buckets.iter().map(of_bucket).collect();
    let mut found: Vec<Candidate> = Vec::new();
    let (mut evaluated, mut feasible) = (0, 0);
    for index in order(count, seed) {
        let suitable = &survey.suitable[index];
        evaluated += 1;
        let Some(bucket) = buckets[suitable.bucket as usize] else { continue };
        if crowd.judge_node(suitable.node).is_some() {
            continue;
        }
        feasible += 1;
        let score = scores.of_node(suitable) + bucket;
        found.push(Candidate { score, tie: tie(seed, suitable.node), index: index as u32 });
        if feasible as usize >= search.sample {
            break;
        }
    }
    let best = found.iter().max()?;
    let node = survey.suitable[best.index as usize].node;
    let mut compared = Vec::new();
    if search.explains {
        found.sort_unstable_by(|one, other| other.cmp(one));
        compared = found.iter().take(3).map(|it| explained(&scores, &crowd, grounds, it.index)).collect();
    }
    Some(Placed { node, evaluated, feasible, scores: compared })
}

/// All numbers below `count`, each once, in an order that depends on the seed and mixes what is side by side.
fn order(count: usize, seed: u64) -> impl Iterator<Item = usize> {
    let size = count.max(1) as u64;
    let mut stride = (mix(seed.wrapping_add(1)) % size).max(1);
    while gcd(stride, size) != 1 {
        stride = stride % size + 1;
    }
    let start = mix(seed) % size;
    (0..count as u64).map(move |step| ((start + step * stride) % size) as usize)
}

fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_visits_everybody_once_whatever_the_seed() {
        for count in [0, 1, 2, 7, 12, 100, 1009] {
            for seed in 0..50 {
                let mut visited: Vec<usize> = order(count, seed).collect();
                visited.sort_unstable();
                assert_eq!(visited, (0..count).collect::<Vec<_>>(), "{count} with {seed}");
            }
        }
    }
}
