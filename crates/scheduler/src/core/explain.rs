//! Why a class has no node: every node is asked again, this time for its reason. Costs one look at all nodes, once for a whole class.
//!
//! - [`Refusal`]: what is found, for people ([`Refusal::message`]), for records and for the queue
//! - `sentence.rs`: how it is said
//!
//! Not here: writing it down (the shell).

mod sentence;

use std::collections::{BTreeMap, BTreeSet};

use setpoint_types::kinds::{
    FilterCount, NearestMiss, Outcome, PendingReason, QuotaVerdict, SearchScope, TopologyVerdict,
    WakeCondition,
};

use super::blocker::Blocker;
use super::cluster::Cluster;
use super::cluster::node::NodeIx;
use super::cluster::quota::QuotaMiss;
use super::cluster::topology::TopologyIx;
use super::filter::{Crowd, Miss, quota, runtime, spread};
use super::place::Grounds;

/// As many as a decision may have.
const FILTERS_MAX: usize = 64;
const MISSES_MAX: usize = 8;
const WAKES_MAX: usize = 15;

/// Why a class has no node, and what would have to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: PendingReason,
    pub outcome: Outcome,
    pub message: String,
    pub search: SearchScope,
    pub filters: Vec<FilterCount>,
    pub nearest_misses: Vec<NearestMiss>,
    pub quota: Vec<QuotaVerdict>,
    pub topology: Vec<TopologyVerdict>,
    pub blockers: BTreeSet<Blocker>,
}

impl Refusal {
    /// One that needs no look at the nodes.
    pub fn plain(reason: PendingReason, outcome: Outcome, message: String, blocker: Blocker) -> Self {
        Self {
            reason,
            outcome,
            message,
            search: SearchScope::default(),
            filters: Vec::new(),
            nearest_misses: Vec::new(),
            quota: Vec::new(),
            topology: Vec::new(),
            blockers: [blocker].into(),
        }
    }

    /// What it waits for, for people.
    pub fn wakes(&self, cluster: &Cluster) -> Vec<WakeCondition> {
        let wake = |event: &str, detail: String| WakeCondition { event: event.to_owned(), detail, at: None };
        let of = |blocker: &Blocker| match blocker {
            Blocker::Quota { namespace, dim } => {
                wake("QuotaFreed", format!("{} in namespace {namespace}", cluster.dimensions().name(*dim)))
            }
            Blocker::Room { zone, dim } => {
                let (dim, zone) = (cluster.dimensions().name(*dim), cluster.topologies().zone_name(*zone));
                wake("CapacityFreed", format!("{dim} in zone {zone}"))
            }
            Blocker::Port { zone } => {
                wake("CapacityFreed", format!("a port in zone {}", cluster.topologies().zone_name(*zone)))
            }
            Blocker::Nodes => wake("NodeJoined", String::new()),
            Blocker::Tally(_) | Blocker::Company(_) => wake("ReplicasMoved", String::new()),
            Blocker::Places => wake("PlacesChanged", String::new()),
            Blocker::Policies => wake("PolicyActivated", String::new()),
            Blocker::PriorityClass(name) => wake("PriorityClassChanged", name.to_string()),
            Blocker::Gang => wake("MembersJoined", String::new()),
        };
        let mut wakes: Vec<WakeCondition> = self.blockers.iter().map(of).collect();
        wakes.dedup();
        wakes.truncate(WAKES_MAX);
        wakes
    }
}

/// Why there is no node for the next replica of a class.
pub fn refuse(cluster: &Cluster, grounds: Grounds<'_>) -> Refusal {
    let class = grounds.class;
    if let Some(paused) = class.rules.followed.iter().find(|it| it.is_paused && it.zones.is_empty()) {
        let message = sentence::paused(&paused.title, &paused.name);
        return Refusal::plain(PendingReason::PolicyPaused, Outcome::Limited, message, Blocker::Policies);
    }
    if let Some(Miss::Quota(miss)) = quota::check(cluster, class, None, 1) {
        return over_quota(cluster, grounds, *miss);
    }
    let mut tally = Findings::default();
    let crowd = Crowd::new(cluster, class, grounds.key, grounds.survey);
    let buckets: Vec<Option<Miss>> = grounds.survey.buckets.iter().map(|it| crowd.judge_bucket(it)).collect();
    for (node, _) in cluster.nodes().present() {
        if let Some(miss) = super::filter::judge_site(grounds.key, cluster, node) {
            tally.note(cluster, grounds, node, miss);
        }
    }
    for suitable in &grounds.survey.suitable {
        let node = suitable.node;
        tally.suitable += 1;
        tally.is_too_large &=
            class.demand.iter().any(|(dim, wanted)| cluster.nodes().capacity(*dim, node) < *wanted);
        let miss = crowd.judge_node(node).or_else(|| buckets[suitable.bucket as usize].clone());
        match miss {
            Some(miss) => tally.note(cluster, grounds, node, miss),
            None => tally.feasible += 1,
        }
    }
    tally.refusal(cluster, grounds, &crowd)
}

fn over_quota(cluster: &Cluster, grounds: Grounds<'_>, miss: QuotaMiss) -> Refusal {
    let namespace = grounds.class.namespace().clone();
    let message = sentence::quota(cluster, &namespace, &miss);
    let blocker = Blocker::Quota { namespace: namespace.clone(), dim: miss.dim };
    let mut refusal = Refusal::plain(PendingReason::Quota, Outcome::Limited, message, blocker);
    refusal.quota.push(verdict(cluster, &namespace, &miss));
    refusal.search.nodes = cluster.nodes().present().count() as u32;
    refusal
}

fn verdict(cluster: &Cluster, namespace: &str, miss: &QuotaMiss) -> QuotaVerdict {
    let zone =
        miss.zone.map_or_else(String::new, |zone| format!("/{}", cluster.topologies().zone_name(zone)));
    QuotaVerdict {
        ledger: format!("quota/{namespace}{zone}"),
        dimension: cluster.dimensions().name(miss.dim).to_owned(),
        used: miss.used,
        limit: miss.limit,
        requested: miss.requested,
        fits: false,
        revision: miss.revision,
    }
}

/// What was found while all nodes were asked.
struct Findings {
    /// By filter, detail and zone.
    counts: BTreeMap<(&'static str, String, String), u32>,
    blockers: BTreeSet<Blocker>,
    /// By resource: the node that lacks least, and how much it has.
    nearest: BTreeMap<super::cluster::resource::Dim, (i64, i64, NodeIx)>,
    quota: BTreeMap<String, QuotaMiss>,
    is_too_large: bool,
    suitable: u32,
    feasible: u32,
    /// Nodes with room that a rule of spreading or nearness keeps out; and those that a zone's quota does.
    by_rules: u32,
    by_quota: u32,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            blockers: BTreeSet::new(),
            nearest: BTreeMap::new(),
            quota: BTreeMap::new(),
            is_too_large: true,
            suitable: 0,
            feasible: 0,
            by_rules: 0,
            by_quota: 0,
        }
    }
}

impl Findings {
    fn note(&mut self, cluster: &Cluster, grounds: Grounds<'_>, node: NodeIx, miss: Miss) {
        let Some(zone) = cluster.zone_of(node) else { return };
        match &miss {
            Miss::Resources { dim, needed, found } => {
                let nearest = self.nearest.entry(*dim).or_insert((*found, *needed, node));
                if *found > nearest.0 {
                    *nearest = (*found, *needed, node);
                }
                self.blockers.insert(Blocker::Room { zone, dim: *dim });
            }
            Miss::Port(_) => drop(self.blockers.insert(Blocker::Port { zone })),
            Miss::Spread { rule } => {
                self.by_rules += 1;
                self.blockers.insert(Blocker::Tally(grounds.class.spreads[*rule].tally));
                self.blockers.insert(Blocker::Places);
            }
            Miss::Near { rule } | Miss::Apart { rule } => {
                self.by_rules += 1;
                let affinity = &grounds.class.affinities[*rule];
                self.blockers.insert(Blocker::Tally(affinity.tally));
                if !affinity.is_apart {
                    self.blockers.insert(Blocker::Company(affinity.tally));
                }
            }
            Miss::Quota(miss) => {
                self.by_quota += 1;
                let namespace = grounds.class.namespace().clone();
                self.blockers.insert(Blocker::Quota { namespace, dim: miss.dim });
                self.quota.insert(cluster.topologies().zone_name(zone).to_owned(), (**miss).clone());
            }
            Miss::Policy { .. } => drop(self.blockers.insert(Blocker::Policies)),
            _ => {}
        }
        let detail = detail(cluster, grounds, node, &miss);
        let zone = cluster.topologies().zone_name(zone).to_owned();
        *self.counts.entry((miss.filter(), detail, zone)).or_default() += 1;
    }

    fn refusal(mut self, cluster: &Cluster, grounds: Grounds<'_>, crowd: &Crowd<'_>) -> Refusal {
        self.blockers.insert(Blocker::Nodes);
        let (reason, outcome) = self.reason();
        let message =
            match reason {
                PendingReason::NoEligibleNode | PendingReason::PolicyPaused if self.suitable == 0 => {
                    sentence::nobody_suits(&self.by_filter(), cluster.nodes().present().count())
                }
                PendingReason::NoEligibleNode => sentence::too_large(cluster, grounds),
                PendingReason::Topology => sentence::topology(cluster, grounds, crowd, &self.nearest),
                PendingReason::Quota => self.quota.values().next().map_or_else(String::new, |miss| {
                    sentence::quota(cluster, grounds.class.namespace(), miss)
                }),
                _ => sentence::capacity(cluster, grounds, &self.nearest, self.suitable),
            };
        let filters =
            self.counts.iter().take(FILTERS_MAX).map(|((filter, detail, zone), nodes)| FilterCount {
                filter: (*filter).to_owned(),
                detail: detail.clone(),
                zone: zone.clone(),
                nodes: *nodes,
            });
        let misses = self.nearest.iter().take(MISSES_MAX).map(|(dim, (found, needed, node))| NearestMiss {
            node: cluster.nodes().name(*node).to_string(),
            dimension: cluster.dimensions().name(*dim).to_owned(),
            needed: cluster.dimensions().format(*dim, *needed),
            found: cluster.dimensions().format(*dim, *found),
        });
        let nodes = cluster.nodes().present().count() as u32;
        Refusal {
            reason,
            outcome,
            message,
            search: SearchScope { nodes, evaluated: nodes, feasible: self.feasible },
            filters: filters.collect(),
            nearest_misses: misses.collect(),
            quota: self
                .quota
                .values()
                .take(16)
                .map(|it| verdict(cluster, grounds.class.namespace(), it))
                .collect(),
            topology: topology(cluster, grounds, crowd),
            blockers: self.blockers,
        }
    }

    /// The reason that has to go first: what keeps the replica from nodes that have room, then that there is no room.
    fn reason(&self) -> (PendingReason, Outcome) {
        let is_closed =
            self.counts.keys().any(|(filter, detail, _)| *filter == "Policy" && detail.ends_with("paused"));
        if self.suitable == 0 && is_closed {
            (PendingReason::PolicyPaused, Outcome::Limited)
        } else if self.suitable == 0 || self.is_too_large {
            (PendingReason::NoEligibleNode, Outcome::Unschedulable)
        } else if self.by_rules > 0 {
            (PendingReason::Topology, Outcome::Unschedulable)
        } else if self.by_quota > 0 {
            (PendingReason::Quota, Outcome::Limited)
        } else {
            (PendingReason::Capacity, Outcome::Unschedulable)
        }
    }

    fn by_filter(&self) -> BTreeMap<(&'static str, &str), u32> {
        let mut sums = BTreeMap::new();
        for ((filter, detail, _), nodes) in &self.counts {
            *sums.entry((*filter, detail.as_str())).or_default() += nodes;
        }
        sums
    }
}

/// More about a miss: the resource, the taint, the labels.
fn detail(cluster: &Cluster, grounds: Grounds<'_>, node: NodeIx, miss: &Miss) -> String {
    let class = grounds.class;
    let key_of = |topology: TopologyIx| cluster.topologies().key(topology).to_owned();
    match miss {
        Miss::Condition(readiness) => super::filter::condition::describe(*readiness).to_owned(),
        Miss::Policy { index, is_paused } => {
            let policy = &grounds.key.policies[*index];
            match is_paused {
                true => format!("{} is paused", policy.title),
                false => format!("{} asks for {}", policy.title, policy.labels),
            }
        }
        Miss::Selector => grounds.key.node_selector.to_string(),
        Miss::Taint(index) => {
            let taints = cluster.nodes().attributes(node).map(|it| it.taints.as_slice()).unwrap_or_default();
            taints.get(*index).map_or_else(String::new, |it| it.key.clone())
        }
        Miss::Runtime => runtime::needed(grounds.key).to_owned(),
        Miss::Resources { dim, .. } => cluster.dimensions().name(*dim).to_owned(),
        Miss::Port((protocol, port)) => format!("{protocol:?} {port}").to_lowercase(),
        Miss::Spread { rule } => key_of(class.spreads[*rule].topology),
        Miss::Near { rule } | Miss::Apart { rule } => class.affinities[*rule].selector.to_string(),
        Miss::Quota(miss) => miss.quota.clone(),
        Miss::Gone | Miss::Cordoned | Miss::Zone => String::new(),
    }
}

/// What the rules of spreading said.
fn topology(cluster: &Cluster, grounds: Grounds<'_>, crowd: &Crowd<'_>) -> Vec<TopologyVerdict> {
    let hard = grounds.class.spreads.iter().enumerate().filter(|(_, it)| it.is_hard);
    let verdicts = hard.filter_map(|(index, rule)| {
        let places = spread::places(rule, grounds.key, grounds.survey)?;
        let name = |domain| cluster.topologies().domain_name(rule.topology, domain).to_owned();
        let at = |domain| cluster.tallies().at(rule.tally, domain);
        let is_open = |domain: &_| !spread::is_broken(cluster, rule, crowd.floor(index), Some(*domain));
        Some(TopologyVerdict {
            topology_key: cluster.topologies().key(rule.topology).to_owned(),
            counts: places.iter().take(64).map(|it| (name(*it), at(*it))).collect(),
            max_skew: rule.max_skew,
            allowed: places.iter().filter(|it| is_open(it)).take(64).map(|it| name(*it)).collect(),
        })
    });
    verdicts.take(8).collect()
}
