//! How many replicas of a workload, or with certain labels, each place has. Kept by every change, never counted anew by looking at
//! all replicas.
//!
//! Replicas with the same namespace, workload and labels are a *group*. A *tally* counts the members of some groups by domain:
//! those of a workload, or those whose labels a selector matches. Those whose bind nobody has answered yet count, too, but are
//! known apart: the server may refuse them, and whoever must be near to somebody cannot rely on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_types::selector::LabelSelector;

use super::node::NodeIx;
use super::topology::{Domain, Topologies, TopologyIx};

/// Replicas that every rule sees alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    pub namespace: Arc<str>,
    pub workload: Arc<str>,
    pub labels: Arc<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupIx(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TallyIx(pub u32);

/// Whom a tally counts, of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Workload(Arc<str>),
    Selector(LabelSelector),
}

impl Subject {
    pub fn includes(&self, group: &GroupKey) -> bool {
        match self {
            Self::Workload(workload) => *workload == group.workload,
            Self::Selector(selector) => selector.matches(&group.labels),
        }
    }

    fn is_workload(&self, name: &Arc<str>) -> bool {
        matches!(self, Self::Workload(workload) if workload == name)
    }

    /// Whether replicas of a workload can be meant at all.
    fn may_include(&self, name: &Arc<str>) -> bool {
        matches!(self, Self::Selector(_)) || self.is_workload(name)
    }
}

#[derive(Clone, Debug)]
struct Group {
    key: GroupKey,
    /// Those who refer to it, bound or not.
    users: u32,
    nodes: BTreeMap<NodeIx, u32>,
    /// Of these, how many are only assumed.
    assumed: BTreeMap<NodeIx, u32>,
    tallies: Vec<TallyIx>,
}

type TallyKey = (Arc<str>, Subject, TopologyIx);

#[derive(Clone, Debug)]
struct Tally {
    key: TallyKey,
    users: u32,
    counts: BTreeMap<Domain, u32>,
    /// Of these, how many are only assumed.
    assumed: BTreeMap<Domain, u32>,
}

/// All groups and tallies.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    group_ids: BTreeMap<GroupKey, GroupIx>,
    groups: Vec<Option<Group>>,
    free_groups: Vec<GroupIx>,
    tally_ids: BTreeMap<TallyKey, TallyIx>,
    tallies: Vec<Option<Tally>>,
    free_tallies: Vec<TallyIx>,
}

impl Tallies {
    /// The group, for one more user, and its key as it is kept.
    pub fn use_group(&mut self, key: GroupKey) -> (GroupIx, GroupKey) {
        if let Some((key, group)) = self.group_ids.get_key_value(&key) {
            let (key, group) = (key.clone(), *group);
            self.group_mut(group).users += 1;
            return (group, key);
        }
        let tallies = self.tallies_of(&key);
        let group =
            Group { key: key.clone(), users: 1, nodes: BTreeMap::new(), assumed: BTreeMap::new(), tallies };
        let ix = self.free_groups.pop().unwrap_or(GroupIx(self.groups.len() as u32));
        if ix.0 as usize == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[ix.0 as usize] = Some(group);
        self.group_ids.insert(key.clone(), ix);
        (ix, key)
    }

    pub fn release_group(&mut self, ix: GroupIx) {
        let group = self.group_mut(ix);
        group.users -= 1;
        if group.users == 0 {
            assert!(group.nodes.is_empty(), "a group that nobody refers to has members");
            let key = group.key.clone();
            self.group_ids.remove(&key);
            self.groups[ix.0 as usize] = None;
            self.free_groups.push(ix);
        }
    }

    /// The tally, for one more user. Made from the nodes that its groups are on, if it is new.
    pub fn use_tally(
        &mut self,
        namespace: &Arc<str>,
        subject: Subject,
        topology: TopologyIx,
        topologies: &Topologies,
    ) -> TallyIx {
        let key = (namespace.clone(), subject, topology);
        if let Some(tally) = self.tally_ids.get(&key) {
            let tally = *tally;
            self.tally_mut(tally).users += 1;
            return tally;
        }
        let ix = self.free_tallies.pop().unwrap_or(TallyIx(self.tallies.len() as u32));
        if ix.0 as usize == self.tallies.len() {
            self.tallies.push(None);
        }
        let (mut counts, mut assumed) = (BTreeMap::new(), BTreeMap::new());
        for member in self.groups_of(&key.0, &key.1) {
            let group = self.group_mut(member);
            group.tallies.push(ix);
            add_nodes(&mut counts, &group.nodes, topology, topologies);
            add_nodes(&mut assumed, &group.assumed, topology, topologies);
        }
        self.tallies[ix.0 as usize] = Some(Tally { key: key.clone(), users: 1, counts, assumed });
        self.tally_ids.insert(key, ix);
        ix
    }

    pub fn release_tally(&mut self, ix: TallyIx) {
        let tally = self.tally_mut(ix);
        tally.users -= 1;
        if tally.users == 0 {
            let key = tally.key.clone();
            self.tally_ids.remove(&key);
            self.tallies[ix.0 as usize] = None;
            self.free_tallies.push(ix);
            for member in self.groups_of(&key.0, &key.1) {
                self.group_mut(member).tallies.retain(|it| *it != ix);
            }
        }
    }

    /// The tallies that count a group: those of its workload, and those whose selector matches.
    fn tallies_of(&self, key: &GroupKey) -> Vec<TallyIx> {
        let from = |subject| self.tally_ids.range((key.namespace.clone(), subject, TopologyIx(0))..);
        let of_workload = from(Subject::Workload(key.workload.clone()));
        let of_workload =
            of_workload.take_while(|it| it.0.0 == key.namespace && it.0.1.is_workload(&key.workload));
        let by_labels = from(Subject::Selector(LabelSelector::everything()));
        let by_labels = by_labels.take_while(|it| it.0.0 == key.namespace).filter(|it| it.0.1.includes(key));
        of_workload.chain(by_labels).map(|it| *it.1).collect()
    }

    /// The groups that a subject counts.
    fn groups_of(&self, namespace: &Arc<str>, subject: &Subject) -> Vec<GroupIx> {
        let workload = match subject {
            Subject::Workload(workload) => workload.clone(),
            Subject::Selector(_) => "".into(),
        };
        let first = GroupKey { namespace: namespace.clone(), workload, labels: Arc::default() };
        let is_near = |key: &GroupKey| key.namespace == *namespace && subject.may_include(&key.workload);
        let groups = self.group_ids.range(first..).take_while(|it| is_near(it.0));
        groups.filter(|it| subject.includes(it.0)).map(|it| *it.1).collect()
    }

    /// One member more or less on a node, which may be only assumed there. Tells which tallies have changed.
    pub fn count(
        &mut self,
        group: GroupIx,
        node: NodeIx,
        is_more: bool,
        is_assumed: bool,
        topologies: &Topologies,
    ) -> Vec<TallyIx> {
        if is_assumed {
            self.count_assumed(group, node, is_more, topologies);
        }
        let group = self.groups[group.0 as usize].as_mut().expect("a group in use");
        step(&mut group.nodes, node, is_more);
        let mut changed = Vec::new();
        for ix in &group.tallies {
            let tally = self.tallies[ix.0 as usize].as_mut().expect("a tally of a group");
            if let Some(domain) = topologies.domain(tally.key.2, node) {
                step(&mut tally.counts, domain, is_more);
                changed.push(*ix);
            }
        }
        changed
    }

    /// A member that was assumed is there for sure. Tells which tallies have it.
    pub fn settle(&mut self, group: GroupIx, node: NodeIx, topologies: &Topologies) -> Vec<TallyIx> {
        self.count_assumed(group, node, false, topologies)
    }

    fn count_assumed(
        &mut self,
        group: GroupIx,
        node: NodeIx,
        is_more: bool,
        topologies: &Topologies,
    ) -> Vec<TallyIx> {
        let group = self.groups[group.0 as usize].as_mut().expect("a group in use");
        step(&mut group.assumed, node, is_more);
        let mut changed = Vec::new();
        for ix in &group.tallies {
            let tally = self.tallies[ix.0 as usize].as_mut().expect("a tally of a group");
            if let Some(domain) = topologies.domain(tally.key.2, node) {
                step(&mut tally.assumed, domain, is_more);
                changed.push(*ix);
            }
        }
        changed
    }

    /// After nodes have moved within a topology: counts it anew, by the nodes of the groups.
    pub fn recount(&mut self, topology: TopologyIx, topologies: &Topologies) {
        for ix in 0..self.tallies.len() {
            let Some(tally) = self.tallies[ix].as_mut().filter(|it| it.key.2 == topology) else { continue };
            tally.counts.clear();
            tally.assumed.clear();
            for group in self.groups.iter().flatten().filter(|it| it.tallies.contains(&TallyIx(ix as u32))) {
                add_nodes(&mut tally.counts, &group.nodes, topology, topologies);
                add_nodes(&mut tally.assumed, &group.assumed, topology, topologies);
            }
        }
    }

    pub fn at(&self, tally: TallyIx, domain: Domain) -> u32 {
        self.counts(tally).get(&domain).copied().unwrap_or(0)
    }

    /// Without those who are only assumed.
    pub fn sure_at(&self, tally: TallyIx, domain: Domain) -> u32 {
        let assumed = self.tally(tally).assumed.get(&domain).copied().unwrap_or(0);
        self.at(tally, domain).saturating_sub(assumed)
    }

    /// Whether anybody is counted who is not only assumed.
    pub fn has_sure(&self, tally: TallyIx) -> bool {
        let Tally { counts, assumed, .. } = self.tally(tally);
        counts.len() > assumed.len()
            || counts.iter().any(|(domain, count)| assumed.get(domain) != Some(count))
    }

    /// Domains that have none are left out.
    pub fn counts(&self, tally: TallyIx) -> &BTreeMap<Domain, u32> {
        &self.tally(tally).counts
    }

    /// How many replicas of a workload are bound, whatever their labels.
    pub fn bound_of(&self, namespace: &str, workload: &str) -> u32 {
        let first =
            GroupKey { namespace: namespace.into(), workload: workload.into(), labels: Arc::default() };
        let of_workload = self.group_ids.range(first..);
        let of_workload =
            of_workload.take_while(|(key, _)| &*key.namespace == namespace && &*key.workload == workload);
        of_workload
            .filter_map(|(_, ix)| self.groups[ix.0 as usize].as_ref())
            .flat_map(|it| it.nodes.values())
            .sum()
    }

    fn tally(&self, ix: TallyIx) -> &Tally {
        self.tallies[ix.0 as usize].as_ref().expect("a tally in use")
    }

    fn group_mut(&mut self, ix: GroupIx) -> &mut Group {
        self.groups[ix.0 as usize].as_mut().expect("a group in use")
    }

    fn tally_mut(&mut self, ix: TallyIx) -> &mut Tally {
        self.tallies[ix.0 as usize].as_mut().expect("a tally in use")
    }
}

fn add_nodes(
    counts: &mut BTreeMap<Domain, u32>,
    nodes: &BTreeMap<NodeIx, u32>,
    topology: TopologyIx,
    topologies: &Topologies,
) {
    for (node, members) in nodes {
        if let Some(domain) = topologies.domain(topology, *node) {
            *counts.entry(domain).or_default() += members;
        }
    }
}

fn step<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, is_more: bool) {
    if is_more {
        *counts.entry(key).or_default() += 1;
        return;
    }
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}
