//! Scores: which of the nodes that would do is the best. One file per term; each is worth from -1000 to 1000, times its weight.
//!
//! Two things were learned by measuring. Filling nodes while one resource runs out before the other strands the rest, so the
//! balance of processor and memory weighs more than anything else. And equal scores must not fall to the first zone: it fills up,
//! and whoever has to be spread evenly finds no place at half load; so the share that is free in a zone counts, and ties are drawn
//! by a hash.
//!
//! Not here: whether a node would do at all (`filter`).

pub mod affinity;
pub mod balance;
pub mod fill;
pub mod locality;
pub mod preference;
pub mod scarce;
pub mod spread;
pub mod taints;
pub mod zone_share;

use std::collections::BTreeMap;

use super::class::Class;
use super::cluster::Cluster;
use super::cluster::topology::{Domain, TopologyIx};
use super::filter::Crowd;
use super::site::{Bucket, SiteKey, Suitable};

/// What counts, by the name that policies and decisions have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    Fill,
    Balance,
    Scarce,
    Spread,
    ZoneShare,
    Preference,
    Affinity,
    Taints,
    Locality,
}

impl Term {
    pub const ALL: [Self; 9] = [
        Self::Fill,
        Self::Balance,
        Self::Scarce,
        Self::Spread,
        Self::ZoneShare,
        Self::Preference,
        Self::Affinity,
        Self::Taints,
        Self::Locality,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Balance => "balance",
            Self::Scarce => "scarce",
            Self::Spread => "spread",
            Self::ZoneShare => "zoneShare",
            Self::Preference => "preference",
            Self::Affinity => "affinity",
            Self::Taints => "taints",
            Self::Locality => "locality",
        }
    }
}

/// How much each term counts, in hundredths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights([i64; Term::ALL.len()]);

impl Default for Weights {
    /// A first choice; `examples/place_speed.rs` shows what others would do.
    fn default() -> Self {
        Self([100, 300, 100, 200, 100, 200, 200, 300, 50])
    }
}

impl Weights {
    /// Takes what is named; names nobody knows change nothing.
    pub fn set(&mut self, scores: &BTreeMap<String, u32>) {
        for term in Term::ALL {
            if let Some(weight) = scores.get(term.name()) {
                self.0[term as usize] = i64::from(*weight).min(100_000);
            }
        }
    }

    pub fn of(&self, term: Term) -> i64 {
        self.0[term as usize]
    }

    fn weigh(&self, term: Term, value: i64) -> i64 {
        self.0[term as usize] * value / 100
    }
}

/// Scores the nodes of one class.
pub struct Scores<'a> {
    cluster: &'a Cluster,
    class: &'a Class,
    key: &'a SiteKey,
    weights: &'a Weights,
}

impl<'a> Scores<'a> {
    pub fn new(cluster: &'a Cluster, class: &'a Class, key: &'a SiteKey) -> Self {
        Self { cluster, class, key, weights: &class.rules.weights }
    }

    /// What does not depend on other nodes.
    pub fn of_node(&self, suitable: &Suitable) -> i64 {
        self.node_terms(suitable).into_iter().map(|(term, value)| self.weights.weigh(term, value)).sum()
    }

    /// What all nodes of some places have in common.
    pub fn of_bucket(&self, bucket: &Bucket, crowd: &Crowd<'_>) -> i64 {
        self.bucket_terms(bucket, crowd)
            .into_iter()
            .map(|(term, value)| self.weights.weigh(term, value))
            .sum()
    }

    /// The whole, term by term, for a decision.
    pub fn terms(&self, suitable: &Suitable, bucket: &Bucket, crowd: &Crowd<'_>) -> BTreeMap<String, i64> {
        let mut terms = BTreeMap::new();
        let all = self.node_terms(suitable).into_iter().chain(self.bucket_terms(bucket, crowd));
        for (term, value) in all {
            *terms.entry(term.name().to_owned()).or_default() += self.weights.weigh(term, value);
        }
        terms
    }

    fn node_terms(&self, suitable: &Suitable) -> [(Term, i64); 8] {
        let (cluster, class, node) = (self.cluster, self.class, suitable.node);
        let used = balance::used_after(cluster, class, node);
        let domain = Some(Domain(node.0));
        let locality = self.weights.of(Term::Locality) > 0;
        [
            (Term::Fill, fill::value(used, class.rules.strategy)),
            (Term::Balance, balance::value(used)),
            (Term::Scarce, scarce::value(cluster, class, node)),
            (Term::Spread, spread::value(cluster, class, TopologyIx::NODE, domain, |_| 0)),
            (Term::Preference, suitable.preference.into()),
            (Term::Affinity, affinity::value(cluster, class, TopologyIx::NODE, domain)),
            (Term::Taints, suitable.taints.into()),
            (Term::Locality, if locality { locality::value(cluster, class, node) } else { 0 }),
        ]
    }

    fn bucket_terms(&self, bucket: &Bucket, crowd: &Crowd<'_>) -> [(Term, i64); 3] {
        let (mut spreading, mut near) = (0, 0);
        for (topology, domain) in self.key.topologies.iter().zip(&bucket.domains) {
            let floor = |rule: usize| crowd.floor(rule);
            spreading += spread::value(self.cluster, self.class, *topology, *domain, floor);
            near += affinity::value(self.cluster, self.class, *topology, *domain);
        }
        let share = zone_share::value(self.cluster, self.class, bucket.zone);
        [(Term::Spread, spreading), (Term::Affinity, near), (Term::ZoneShare, share)]
    }
}
