//! Sites: which nodes suit a class, apart from whether they are full. Classes that differ only in what they need of a node share
//! one, and it is looked at anew only after nodes have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use setpoint_types::kinds::{NodePreference, Toleration};
use setpoint_types::selector::LabelSelector;

use super::class::{AffinityRule, SpreadRule, Wants};
use super::cluster::Cluster;
use super::cluster::node::NodeIx;
use super::cluster::topology::{Domain, TopologyIx};
use super::filter::{self, Miss};
use super::hash::StableHasher;
use super::policy::Rules;
use super::score;

/// More places than this are not counted one by one: the emptiest then counts as having none. It is also what the server takes.
pub const DOMAINS_MAX: usize = 1024;
/// So many sites remember which nodes suit; at ten thousand nodes that is some 40 MB. Beyond it all of them look anew.
const SURVEYS_MAX: usize = 256;

/// What decides which nodes suit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteKey {
    pub zones: Vec<String>,
    pub node_selector: LabelSelector,
    pub preferences: Vec<NodePreference>,
    pub tolerations: Vec<Toleration>,
    pub needs_docker: bool,
    pub policies: Vec<Demanded>,
    /// By which places rules tell nodes apart, besides the nodes themselves. Ordered, zones always first.
    pub topologies: Vec<TopologyIx>,
}

/// What a policy demands of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Demanded {
    /// As decisions name it.
    pub title: String,
    /// Of nodes in these zones; empty for all.
    pub zones: Vec<String>,
    pub labels: LabelSelector,
    /// Nothing is placed there.
    pub is_paused: bool,
}

impl SiteKey {
    pub fn of(wants: &Wants, rules: &Rules, spreads: &[SpreadRule], affinities: &[AffinityRule]) -> Self {
        let used = spreads.iter().map(|it| it.topology).chain(affinities.iter().map(|it| it.topology));
        let used: BTreeSet<TopologyIx> =
            used.filter(|it| *it != TopologyIx::NODE).chain([TopologyIx::ZONE]).collect();
        let policies = rules.followed.iter().map(|it| Demanded {
            title: it.title.clone(),
            zones: it.zones.clone(),
            labels: it.node_selector.clone(),
            is_paused: it.is_paused,
        });
        let mut zones = wants.placement.zones.clone();
        zones.sort_unstable();
        Self {
            zones,
            node_selector: wants.placement.node_selector.clone(),
            preferences: wants.placement.preferences.clone(),
            tolerations: wants.placement.tolerations.clone(),
            needs_docker: wants.image.is_some(),
            policies: policies.filter(|it| it.is_paused || !it.labels.is_everything()).collect(),
            topologies: used.into_iter().collect(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteIx(pub u32);

/// Nodes that are in the same places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub zone: Domain,
    /// In the order of the site's topologies; none where the nodes lack the label.
    pub domains: Vec<Option<Domain>>,
}

/// A node that suits.
#[derive(Clone, Copy, Debug)]
pub struct Suitable {
    pub node: NodeIx,
    pub bucket: u32,
    /// What never changes of its score: preferences and taints, weighed already within themselves.
    pub preference: i32,
    pub taints: i32,
}

/// Which nodes suit, as of a stamp of the nodes.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    stamp: Option<u64>,
    pub suitable: Vec<Suitable>,
    pub buckets: Vec<Bucket>,
    /// The places that count for rules of spreading: those with a node that the replica could be on, whether it is full, not
    /// ready or closed at the moment. In the order of the site's topologies.
    pub places: Vec<BTreeSet<Domain>>,
}

#[derive(Clone, Debug)]
struct Site {
    key: SiteKey,
    users: u32,
    survey: Survey,
}

/// All sites somebody uses.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    by_hash: BTreeMap<u64, Vec<SiteIx>>,
    sites: Vec<Option<Site>>,
    free: Vec<SiteIx>,
    surveyed: usize,
}

impl Sites {
    pub fn enter(&mut self, key: SiteKey) -> SiteIx {
        let hash = hash_of(&key);
        let alike = self.by_hash.get(&hash).into_iter().flatten().copied();
        if let Some(ix) = alike.into_iter().find(|ix| *self.key(*ix) == key) {
            self.get_mut(ix).users += 1;
            return ix;
        }
        let ix = self.free.pop().unwrap_or(SiteIx(self.sites.len() as u32));
        if ix.0 as usize == self.sites.len() {
            self.sites.push(None);
        }
        self.sites[ix.0 as usize] = Some(Site { key, users: 1, survey: Survey::default() });
        self.by_hash.entry(hash).or_default().push(ix);
        ix
    }

    pub fn leave(&mut self, ix: SiteIx) {
        let site = self.get_mut(ix);
        site.users -= 1;
        if site.users > 0 {
            return;
        }
        let hash = hash_of(&site.key);
        self.sites[ix.0 as usize] = None;
        self.free.push(ix);
        if let Some(alike) = self.by_hash.get_mut(&hash) {
            alike.retain(|it| *it != ix);
            if alike.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    fn get_mut(&mut self, ix: SiteIx) -> &mut Site {
        self.sites[ix.0 as usize].as_mut().expect("a site in use")
    }

    pub fn key(&self, ix: SiteIx) -> &SiteKey {
        &self.sites[ix.0 as usize].as_ref().expect("a site in use").key
    }

    /// What was asked, and the nodes that suit now.
    pub fn survey(&mut self, ix: SiteIx, cluster: &Cluster) -> (&SiteKey, &Survey) {
        let stamp = Some(cluster.nodes().stamp());
        if self.get_mut(ix).survey.stamp != stamp {
            if self.surveyed >= SURVEYS_MAX {
                self.sites.iter_mut().flatten().for_each(|site| site.survey = Survey::default());
                self.surveyed = 0;
            }
            self.surveyed += 1;
            let site = self.get_mut(ix);
            site.survey = survey(&site.key, cluster);
        }
        let site = self.get_mut(ix);
        (&site.key, &site.survey)
    }

    /// Whether one node suits, and if not, why.
    pub fn judge(&self, ix: SiteIx, cluster: &Cluster, node: NodeIx) -> Option<Miss> {
        filter::judge_site(self.key(ix), cluster, node)
    }
}

fn hash_of(key: &SiteKey) -> u64 {
    let mut hasher = StableHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

fn survey(key: &SiteKey, cluster: &Cluster) -> Survey {
    let mut survey = Survey { stamp: Some(cluster.nodes().stamp()), ..Survey::default() };
    survey.places = vec![BTreeSet::new(); key.topologies.len()];
    let mut buckets: BTreeMap<Vec<Option<Domain>>, u32> = BTreeMap::new();
    for (node, attributes) in cluster.nodes().present() {
        let domains: Vec<Option<Domain>> =
            key.topologies.iter().map(|it| cluster.topologies().domain(*it, node)).collect();
        if filter::selector::could_be_on(key, attributes) {
            for (places, domain) in survey.places.iter_mut().zip(&domains) {
                places.extend(*domain);
            }
        }
        if filter::judge_site(key, cluster, node).is_some() {
            continue;
        }
        let Some(zone) = cluster.zone_of(node) else { continue };
        let next = buckets.len() as u32;
        let bucket = *buckets.entry(domains.clone()).or_insert(next);
        if bucket == next {
            survey.buckets.push(Bucket { zone, domains });
        }
        survey.suitable.push(Suitable {
            node,
            bucket,
            preference: score::preference::value(&key.preferences, attributes),
            taints: score::taints::value(&key.tolerations, attributes),
        });
    }
    survey
}
