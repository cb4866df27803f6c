//! Seats: places that are kept for the members of a gang, one for each, until all of them are free.
//!
//! Either there is one for everybody, once those are gone who leave anyway or are made to, or nobody is made to go. That is tried out on
//! the model itself, member by member, each on top of those before: victims are thought away ([`Aside`]), members thought in; then all of
//! it is taken back. Each victim is needed: in the end they are called back one by one, the most important first, as long as all
//! members still fit. Rules and quotas count victims as if they stayed, for whoever replaces them may be counted where they were.
//!
//! Not here: one place for one replica (`preempt`), and when a gang has its turn (`gang`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::class::Class;
use super::cluster::Cluster;
use super::cluster::aside::Aside;
use super::cluster::bound::Held;
use super::cluster::event::Event;
use super::cluster::node::{NodeIx, Nomination, Resident};
use super::filter::{Crowd, quota, resources};
use super::hash::mix;
use super::place::{Grounds, Placed, Search, assume, place};
use super::preempt;
use super::score::Scores;

/// The server binds no more than so many together: for a larger gang nobody is made to go.
const MEMBERS_MAX: usize = 256;

/// Somebody who has to go so that a gang has its seats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub key: Arc<str>,
    pub priority: i32,
    pub node: NodeIx,
}

/// Finds a seat for everybody and keeps them, or changes nothing. The class must keep nothing yet.
pub fn keep(
    cluster: &mut Cluster,
    grounds: Grounds<'_>,
    members: &[Arc<str>],
    may_evict: bool,
    seed: u64,
    until: u64,
) -> Option<Vec<Victim>> {
    if members.len() > MEMBERS_MAX || !has_room_for_all(cluster, grounds, members.len(), may_evict) {
        return None;
    }
    let mut trial = Trial::new(cluster, grounds);
    let is_seated = members.iter().enumerate().all(|(index, member)| {
        let seed = mix(seed ^ index as u64);
        trial.seat_now(member, seed) || trial.seat_later(member, may_evict, seed)
    });
    if is_seated {
        trial.spare();
    }
    let (seats, victims) = trial.undo();
    if !is_seated {
        return None;
    }
    for (seat, node) in (0..).zip(seats) {
        let nomination = Nomination { seat, ..preempt::nomination(grounds.class, until) };
        cluster.nominate(node, nomination);
    }
    for victim in &victims {
        cluster.set_going(&victim.key);
    }
    Some(victims)
}

/// Whether the seats that are kept would still do for everybody, once those are gone who leave.
pub fn hold(cluster: &mut Cluster, grounds: Grounds<'_>, members: &[Arc<str>]) -> bool {
    let seats = cluster.nodes().seats(grounds.class.ix);
    if seats.len() != members.len() {
        return false;
    }
    let mut trial = Trial::new(cluster, grounds);
    let do_hold = members.iter().zip(seats).all(|(member, node)| {
        trial.clear(node, &[]);
        let is_free = judge(trial.cluster, grounds, node, Search::default()).is_some();
        is_free && trial.seat(member, node)
    });
    trial.undo();
    do_hold
}

/// Gives everybody the seat that was kept for it, if all of them are free.
pub fn sit(
    cluster: &mut Cluster,
    grounds: Grounds<'_>,
    members: &[Arc<str>],
    search: Search,
) -> Option<Vec<Placed>> {
    let seats = cluster.nodes().seats(grounds.class.ix);
    if seats.len() != members.len() {
        return None;
    }
    let mut trial = Trial::new(cluster, grounds);
    let mut placed = Vec::with_capacity(members.len());
    for (member, node) in members.iter().zip(&seats) {
        match judge(trial.cluster, grounds, *node, search) {
            Some(it) => placed.push(it),
            None => break,
        }
        trial.seat(member, *node);
    }
    trial.undo();
    if placed.len() < members.len() {
        return None;
    }
    for (member, node) in members.iter().zip(seats) {
        assume(cluster, grounds.class, member, node);
    }
    Some(placed)
}

/// A node as the place of the next member, if every rule is kept.
fn judge(cluster: &Cluster, grounds: Grounds<'_>, node: NodeIx, search: Search) -> Option<Placed> {
    let survey = grounds.survey;
    let at = survey.suitable.binary_search_by_key(&node, |it| it.node).ok()?;
    let suitable = &survey.suitable[at];
    let bucket = &survey.buckets[suitable.bucket as usize];
    let crowd = Crowd::new(cluster, grounds.class, grounds.key, survey);
    let miss = quota::check(cluster, grounds.class, None, 1)
        .or_else(|| crowd.judge_bucket(bucket))
        .or_else(|| crowd.judge_node(node));
    if miss.is_some() {
        return None;
    }
    let terms = || Scores::new(cluster, grounds.class, grounds.key).terms(suitable, bucket, &crowd);
    let scores = if search.explains { vec![(node, terms())] } else { Vec::new() };
    Some(Placed { node, evaluated: 1, feasible: 1, scores })
}

/// Whether so many would fit if all who may have to go were gone, rules aside. Most gangs that cannot have their seats are told so here,
/// by one look at all nodes.
fn has_room_for_all(cluster: &Cluster, grounds: Grounds<'_>, needed: usize, may_evict: bool) -> bool {
    let class = grounds.class;
    let priority = class.priority();
    let goes = |it: &&Resident| it.is_going || (may_evict && it.priority.is_some_and(|it| it < priority));
    let fits_on = |node: NodeIx| {
        let counts = class.demand.iter().filter(|it| it.1 > 0).map(|(dim, wanted)| {
            let gone = cluster.nodes().residents(node).iter().filter(goes).flat_map(|it| it.demand.iter());
            let gone: i64 = gone.filter(|it| it.0 == *dim).map(|it| it.1).sum();
            let kept = resources::kept(cluster, class, node, *dim, true);
            (cluster.nodes().free(*dim, node) + gone - kept).max(0) / wanted
        });
        counts.min().map_or(needed, |it| usize::try_from(it).unwrap_or(usize::MAX))
    };
    let mut found = 0_usize;
    grounds.survey.suitable.iter().any(|it| {
        found = found.saturating_add(fits_on(it.node));
        found >= needed
    })
}

/// The model while something is tried out on it.
struct Trial<'a, 'b> {
    cluster: &'a mut Cluster,
    grounds: Grounds<'b>,
    /// What had happened before: whatever the trial does helps nobody.
    before: BTreeSet<Event>,
    seated: Vec<(Arc<str>, NodeIx)>,
    leaving: Vec<Aside>,
    victims: Vec<Aside>,
}

impl<'a, 'b> Trial<'a, 'b> {
    fn new(cluster: &'a mut Cluster, grounds: Grounds<'b>) -> Self {
        let before = cluster.take_events();
        Self { cluster, grounds, before, seated: Vec::new(), leaving: Vec::new(), victims: Vec::new() }
    }

    /// On a node that has room as things are.
    fn seat_now(&mut self, member: &Arc<str>, seed: u64) -> bool {
        let placed = place(self.cluster, self.grounds, std::slice::from_ref(member), seed, Search::default());
        self.seated.extend(placed.first().map(|it| (member.clone(), it.node)));
        !placed.is_empty()
    }

    /// On a node that others leave anyway, or can be made to leave.
    fn seat_later(&mut self, member: &Arc<str>, may_evict: bool, seed: u64) -> bool {
        if quota::check(self.cluster, self.grounds.class, None, 1).is_some() {
            return false;
        }
        let Some(nominee) = preempt::find(self.cluster, self.grounds, may_evict, seed) else { return false };
        self.clear(nominee.node, &nominee.victims);
        self.seat(member, nominee.node)
    }

    fn seat(&mut self, member: &Arc<str>, node: NodeIx) -> bool {
        let class = self.grounds.class;
        let held = Held { node, demand: class.demand.clone(), ports: class.ports.clone(), is_going: false };
        self.cluster.assume(member, held, class.traits.clone());
        self.seated.push((member.clone(), node));
        true
    }

    /// Thinks away those who leave a node, and victims.
    fn clear(&mut self, node: NodeIx, victims: &[(Arc<str>, i32)]) {
        let leaving = self.cluster.nodes().residents(node).iter().filter(|it| it.is_going);
        let leaving: Vec<Arc<str>> = leaving.map(|it| it.key.clone()).collect();
        self.leaving.extend(leaving.iter().filter_map(|it| self.cluster.set_aside(node, it)));
        self.victims.extend(victims.iter().filter_map(|(key, _)| self.cluster.set_aside(node, key)));
    }

    /// Calls back whoever need not go.
    fn spare(&mut self) {
        let mut victims = std::mem::take(&mut self.victims);
        victims.sort_by(|one, other| {
            let (one, other) = (&one.resident, &other.resident);
            other.priority.cmp(&one.priority).then_with(|| one.key.cmp(&other.key))
        });
        for victim in victims {
            let (node, key) = (victim.node, victim.resident.key.clone());
            let is_in_the_way = self.has_port_of(&victim);
            self.cluster.put_back(victim);
            if is_in_the_way || !is_within(self.cluster, self.grounds.class, node) {
                self.victims.extend(self.cluster.set_aside(node, &key));
            }
        }
    }

    fn has_port_of(&self, victim: &Aside) -> bool {
        let is_here = self.seated.iter().any(|it| it.1 == victim.node);
        is_here && self.grounds.class.ports.iter().any(|port| victim.resident.ports.contains(port))
    }

    /// Leaves everything as it was. Says where members sat, and who had to go.
    fn undo(self) -> (Vec<NodeIx>, Vec<Victim>) {
        let Self { cluster, before, seated, leaving, victims, .. } = self;
        for (member, _) in &seated {
            cluster.forget(member);
        }
        let gone = victims.iter().map(|it| Victim {
            key: it.resident.key.clone(),
            priority: it.resident.priority.unwrap_or_default(),
            node: it.node,
        });
        let gone: Vec<Victim> = gone.collect();
        for aside in victims.into_iter().chain(leaving) {
            cluster.put_back(aside);
        }
        drop(cluster.take_events());
        before.into_iter().for_each(|event| cluster.tell(event));
        (seated.into_iter().map(|it| it.1).collect(), gone)
    }
}

/// Whether a node has as much as is taken and kept of it, as far as the class is concerned.
fn is_within(cluster: &Cluster, class: &Class, node: NodeIx) -> bool {
    let is_enough = |dim| cluster.nodes().free(dim, node) >= resources::kept(cluster, class, node, dim, true);
    class.demand.iter().all(|(dim, _)| is_enough(*dim))
}
