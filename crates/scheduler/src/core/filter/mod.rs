//! Filters: what keeps a replica from a node. One file each; the order here is the order they are asked in.
//!
//! A filter answers with a [`Miss`] or nothing. Those of the first part depend on the node alone and are asked once per change of it
//! (`site`); those of the second on what is bound.
//!
//! Not here: choosing among the nodes that are left (`score`), and counting the misses (`explain`).

pub mod affinity;
pub mod condition;
pub mod policy;
pub mod ports;
pub mod quota;
pub mod resources;
pub mod runtime;
pub mod selector;
pub mod spread;
pub mod taints;
pub mod zone;

use affinity::Company;

use super::class::Class;
use super::cluster::Cluster;
use super::cluster::node::{NodeIx, Port, Readiness};
use super::cluster::quota::QuotaMiss;
use super::cluster::resource::Dim;
use super::cluster::topology::{Domain, TopologyIx};
use super::site::{Bucket, SiteKey, Survey};

/// Why a node is not for a replica: the first thing found. Indexes are those of the class's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// There is no such node.
    Gone,
    Condition(Readiness),
    Cordoned,
    /// Which of the site's policies.
    Policy {
        index: usize,
        is_paused: bool,
    },
    Zone,
    Selector,
    /// Which of the node's taints.
    Taint(usize),
    Runtime,
    Resources {
        dim: Dim,
        needed: i64,
        found: i64,
    },
    Port(Port),
    Spread {
        rule: usize,
    },
    Near {
        rule: usize,
    },
    Apart {
        rule: usize,
    },
    Quota(Box<QuotaMiss>),
}

impl Miss {
    /// The filter, as decisions name it.
    pub fn filter(&self) -> &'static str {
        match self {
            Self::Gone | Self::Condition(_) => "Condition",
            Self::Cordoned => "Cordon",
            Self::Policy { .. } => "Policy",
            Self::Zone => "Zone",
            Self::Selector => "Selector",
            Self::Taint(_) => "Taints",
            Self::Runtime => "Runtime",
            Self::Resources { .. } => "Resources",
            Self::Port(_) => "Ports",
            Self::Spread { .. } => "Spread",
            Self::Near { .. } => "Near",
            Self::Apart { .. } => "Apart",
            Self::Quota(_) => "Quota",
        }
    }
}

/// The first part: whether a node suits, full or not.
pub fn judge_site(key: &SiteKey, cluster: &Cluster, node: NodeIx) -> Option<Miss> {
    let Some(attributes) = cluster.nodes().attributes(node) else { return Some(Miss::Gone) };
    zone::check(key, attributes)
        .or_else(|| selector::check(key, attributes))
        .or_else(|| policy::check(key, attributes))
        .or_else(|| runtime::check(key, attributes))
        .or_else(|| taints::check(key, attributes))
        .or_else(|| condition::check(attributes))
}

/// Whether a node has room, whoever else is where.
pub fn judge_room(cluster: &Cluster, class: &Class, node: NodeIx) -> Option<Miss> {
    resources::check(cluster, class, node).or_else(|| ports::check(cluster, class, node))
}

/// The second part: what depends on who is bound where. Made anew whenever somebody was placed.
pub struct Crowd<'a> {
    cluster: &'a Cluster,
    class: &'a Class,
    key: &'a SiteKey,
    /// How many the emptiest place has, for each rule of spreading.
    floors: Vec<u32>,
    /// Whether anybody is anywhere whom a rule of nearness is about.
    company: Vec<Company>,
    has_zone_quota: bool,
}

impl<'a> Crowd<'a> {
    pub fn new(cluster: &'a Cluster, class: &'a Class, key: &'a SiteKey, survey: &Survey) -> Self {
        let floors = class.spreads.iter().map(|rule| spread::floor(cluster, rule, key, survey)).collect();
        let company = class.affinities.iter().map(|rule| Company::of(cluster, rule)).collect();
        let has_zone_quota = cluster.quotas().has_zones(class.namespace());
        Self { cluster, class, key, floors, company, has_zone_quota }
    }

    pub fn floor(&self, rule: usize) -> u32 {
        self.floors[rule]
    }

    /// What keeps all nodes of some places out.
    pub fn judge_bucket(&self, bucket: &Bucket) -> Option<Miss> {
        let domain_of = |topology: TopologyIx| {
            let at = self.key.topologies.iter().position(|it| *it == topology)?;
            bucket.domains.get(at).copied().flatten()
        };
        let quota = || match self.has_zone_quota {
            true => quota::check(self.cluster, self.class, Some(bucket.zone), 1),
            false => None,
        };
        quota().or_else(|| self.judge_rules(false, domain_of))
    }

    /// What keeps a single node out.
    pub fn judge_node(&self, node: NodeIx) -> Option<Miss> {
        judge_room(self.cluster, self.class, node).or_else(|| self.judge_node_rules(node))
    }

    /// Rules by which each node is a place of its own.
    pub fn judge_node_rules(&self, node: NodeIx) -> Option<Miss> {
        self.judge_rules(true, |_| Some(Domain(node.0)))
    }

    fn judge_rules(&self, of_nodes: bool, domain_of: impl Fn(TopologyIx) -> Option<Domain>) -> Option<Miss> {
        let is_asked = |topology| (topology == TopologyIx::NODE) == of_nodes;
        let spreads = self.class.spreads.iter().enumerate();
        let spread =
            spreads.filter(|(_, rule)| rule.is_hard && is_asked(rule.topology)).find(|(index, rule)| {
                spread::is_broken(self.cluster, rule, self.floors[*index], domain_of(rule.topology))
            });
        if let Some((rule, _)) = spread {
            return Some(Miss::Spread { rule });
        }
        let affinities = self.class.affinities.iter().enumerate();
        let affinity =
            affinities.filter(|(_, it)| it.is_required && is_asked(it.topology)).find(|(index, rule)| {
                affinity::is_broken(self.cluster, rule, self.company[*index], domain_of(rule.topology))
            });
        affinity.map(|(rule, it)| if it.is_apart { Miss::Apart { rule } } else { Miss::Near { rule } })
    }
}
