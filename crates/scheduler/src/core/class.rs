//! Classes: replicas that every rule sees alike. They are placed, explained and made to wait together, so that ten thousand
//! equal ones cost as much thinking as one.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use setpoint_types::kinds::{Placement, WhenUnsatisfiable};
use setpoint_types::quantity::Amounts;
use setpoint_types::selector::LabelSelector;

use super::cluster::Cluster;
use super::cluster::bound::Traits;
use super::cluster::node::Port;
use super::cluster::resource::Demand;
use super::cluster::tally::{GroupKey, Subject, TallyIx};
use super::cluster::topology::TopologyIx;
use super::hash::StableHasher;
use super::policy::Rules;
use super::site::{SiteIx, SiteKey, Sites};

/// All that a replica asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wants {
    pub namespace: Arc<str>,
    pub workload: Arc<str>,
    pub labels: Arc<BTreeMap<String, String>>,
    pub resources: Amounts,
    /// Those with a number.
    pub ports: Vec<Port>,
    pub placement: Placement,
    pub priority: i32,
    pub priority_class: Option<String>,
    /// Left out: it runs as a process of the node.
    pub image: Option<Arc<str>>,
}

/// A rule of spreading, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadRule {
    pub topology: TopologyIx,
    pub tally: TallyIx,
    pub max_skew: u32,
    pub min_domains: u32,
    pub is_hard: bool,
    /// Nobody asked for it: it is what is done without being asked.
    pub is_implied: bool,
}

/// A rule of nearness, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityRule {
    pub selector: LabelSelector,
    pub topology: TopologyIx,
    pub tally: TallyIx,
    pub is_apart: bool,
    pub is_required: bool,
    pub weight: u32,
    /// The replica is one of those it wants to be near to: the first of them may be anywhere.
    pub includes_itself: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIx(pub u32);

/// Replicas that every rule sees alike.
#[derive(Clone, Debug)]
pub struct Class {
    pub ix: ClassIx,
    pub wants: Arc<Wants>,
    pub rules: Arc<Rules>,
    pub demand: Demand,
    pub ports: Arc<[Port]>,
    pub spreads: Vec<SpreadRule>,
    pub affinities: Vec<AffinityRule>,
    pub traits: Traits,
    pub site: SiteIx,
    users: u32,
}

impl Class {
    pub fn priority(&self) -> i32 {
        self.wants.priority
    }

    pub fn namespace(&self) -> &Arc<str> {
        &self.wants.namespace
    }
}

/// All classes somebody is in.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    by_hash: BTreeMap<u64, Vec<ClassIx>>,
    classes: Vec<Option<Class>>,
    free: Vec<ClassIx>,
}

impl Classes {
    /// The class of those who want this under these rules, for one more user.
    pub fn enter(&mut self, wants: Wants, rules: Rules, sites: &mut Sites, cluster: &mut Cluster) -> ClassIx {
        let hash = hash_of(&wants);
        let alike = self.by_hash.get(&hash).into_iter().flatten().copied();
        let found = alike.into_iter().find(|ix| {
            let class = self.get(*ix);
            *class.wants == wants && *class.rules == rules
        });
        if let Some(ix) = found {
            self.get_mut(ix).users += 1;
            return ix;
        }
        let ix = self.free.pop().unwrap_or(ClassIx(self.classes.len() as u32));
        let class = resolve(ix, wants, rules, sites, cluster);
        if ix.0 as usize == self.classes.len() {
            self.classes.push(None);
        }
        self.classes[ix.0 as usize] = Some(class);
        self.by_hash.entry(hash).or_default().push(ix);
        ix
    }

    /// One user less. True if the class is no more.
    pub fn leave(&mut self, ix: ClassIx, sites: &mut Sites, cluster: &mut Cluster) -> bool {
        let class = self.get_mut(ix);
        class.users -= 1;
        if class.users > 0 {
            return false;
        }
        let class = self.classes[ix.0 as usize].take().expect("a class in use");
        let hash = hash_of(&class.wants);
        if let Some(alike) = self.by_hash.get_mut(&hash) {
            alike.retain(|it| *it != ix);
            if alike.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
        let tallies =
            class.spreads.iter().map(|it| it.tally).chain(class.affinities.iter().map(|it| it.tally));
        tallies.for_each(|tally| cluster.tallies_mut().release_tally(tally));
        sites.leave(class.site);
        self.free.push(ix);
        true
    }

    pub fn get(&self, ix: ClassIx) -> &Class {
        self.classes[ix.0 as usize].as_ref().expect("a class in use")
    }

    fn get_mut(&mut self, ix: ClassIx) -> &mut Class {
        self.classes[ix.0 as usize].as_mut().expect("a class in use")
    }

    pub fn len(&self) -> usize {
        self.classes.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn hash_of(wants: &Wants) -> u64 {
    let mut hasher = StableHasher::default();
    wants.hash(&mut hasher);
    hasher.finish()
}

fn resolve(ix: ClassIx, wants: Wants, rules: Rules, sites: &mut Sites, cluster: &mut Cluster) -> Class {
    let demand = cluster.dimensions_mut().demand(&wants.resources);
    let group = GroupKey {
        namespace: wants.namespace.clone(),
        workload: wants.workload.clone(),
        labels: wants.labels.clone(),
    };
    let spreads = spreads(&wants, &rules, cluster);
    let affinities = affinities(&wants, &group, cluster);
    let key = SiteKey::of(&wants, &rules, &spreads, &affinities);
    Class {
        ix,
        demand,
        ports: wants.ports.clone().into(),
        spreads,
        affinities,
        traits: Traits { group, priority: wants.priority, artifact: wants.image.clone() },
        site: sites.enter(key),
        rules: Arc::new(rules),
        wants: Arc::new(wants),
        users: 1,
    }
}

/// The rules of spreading: what the replica says, what policies say about zones, and what is done without being asked.
fn spreads(wants: &Wants, rules: &Rules, cluster: &mut Cluster) -> Vec<SpreadRule> {
    let mut add = |key: &str, max_skew: u32, min_domains: u32, is_hard: bool, is_implied: bool| {
        let topology = cluster.topology(key);
        let tally = cluster.use_tally(&wants.namespace, Subject::Workload(wants.workload.clone()), topology);
        SpreadRule { topology, tally, max_skew, min_domains, is_hard, is_implied }
    };
    let mut resolved = Vec::new();
    for spread in &wants.placement.spread {
        let is_hard = spread.when_unsatisfiable == WhenUnsatisfiable::Wait;
        let min_domains = spread.min_domains.unwrap_or(0);
        resolved.push(add(&spread.topology_key, spread.max_skew.max(1), min_domains, is_hard, false));
    }
    let says = |key: &str| wants.placement.spread.iter().any(|it| it.topology_key == key);
    if !says("zone") {
        resolved.push(match rules.max_zone_skew {
            Some((skew, what_if)) => add("zone", skew.max(1), 0, what_if == WhenUnsatisfiable::Wait, false),
            None => add("zone", 1, 0, false, true),
        });
    }
    if !says("node") {
        resolved.push(add("node", 1, 0, false, true));
    }
    resolved
}

fn affinities(wants: &Wants, group: &GroupKey, cluster: &mut Cluster) -> Vec<AffinityRule> {
    let near = wants.placement.near.iter().map(|it| (it, false));
    let apart = wants.placement.apart.iter().map(|it| (it, true));
    let rules = near.chain(apart).map(|(affinity, is_apart)| {
        let topology = cluster.topology(&affinity.topology_key);
        let subject = Subject::Selector(affinity.selector.clone());
        AffinityRule {
            topology,
            includes_itself: subject.includes(group),
            tally: cluster.use_tally(&wants.namespace, subject, topology),
            selector: affinity.selector.clone(),
            is_apart,
            is_required: affinity.required,
            weight: affinity.weight,
        }
    });
    rules.collect()
}
