//! A class has its turn: as many of it as possible get nodes, the rest waits for something that could help.
//!
//! Not here: making others leave for the rest (`takeover.rs`).

use std::sync::Arc;

use setpoint_types::kinds::{DecisionSpec, NodeScore, Outcome, PendingReason, SearchScope};

use super::plan::{BindItem, Notice, Plan, SpreadClaim};
use super::{Engine, Phase};
use crate::core::blocker::Blocker;
use crate::core::class::ClassIx;
use crate::core::cluster::topology::TopologyIx;
use crate::core::explain::{Refusal, refuse};
use crate::core::filter::spread;
use crate::core::gang::{Muster, muster, place_all};
use crate::core::hash::mix;
use crate::core::place::{Grounds, Placed, Search, place};
use crate::core::queue::Ticket;

pub(super) type Taken = Vec<(Ticket, Arc<str>)>;

impl Engine {
    /// Finds nodes for up to so many replicas. They count as bound from here on, until an answer comes.
    pub fn plan(&mut self, now: u64, most: usize) -> Plan {
        self.wake();
        let mut plan = Plan::default();
        while plan.binds.len() < most {
            let Some(class) = self.queue.next() else { break };
            self.turn(class, now, most - plan.binds.len(), &mut plan);
        }
        plan
    }

    fn turn(&mut self, ix: ClassIx, now: u64, most: usize, plan: &mut Plan) {
        self.seed = mix(self.seed.wrapping_add(1));
        let waiting = self.queue.waiting(ix);
        let Self { cluster, classes, sites, queue, options, seed, .. } = self;
        let class = classes.get(ix);
        let (key, survey) = sites.survey(class.site, cluster);
        let grounds = Grounds { class, key, survey };
        let search =
            Search { explains: options.search.explains || class.rules.is_canary(), ..options.search };
        let muster = muster(cluster, class, waiting);
        let (taken, placed, refusal): (Taken, Vec<Placed>, Option<Refusal>) = match muster {
            Muster::Each => {
                let taken = queue.take(ix, options.batch.min(most));
                let keys: Vec<Arc<str>> = taken.iter().map(|it| it.1.clone()).collect();
                let placed = place(cluster, grounds, &keys, *seed, search);
                let refusal = (placed.len() < keys.len()).then(|| refuse(cluster, grounds));
                (taken, placed, refusal)
            }
            Muster::Together(needed) => {
                let taken = queue.take(ix, needed);
                let keys: Vec<Arc<str>> = taken.iter().map(|it| it.1.clone()).collect();
                match place_all(cluster, grounds, &keys, *seed, search) {
                    Ok(placed) => (taken, placed, None),
                    Err(refusal) => (taken, Vec::new(), Some(*refusal)),
                }
            }
            Muster::Incomplete { waiting, needed } => {
                (queue.take(ix, waiting), Vec::new(), Some(incomplete(waiting, needed)))
            }
        };
        let is_gang = matches!(class.wants.placement.gang, Some(size) if size as usize == taken.len());
        let mut back = taken;
        let bound: Taken = back.drain(..placed.len()).collect();
        self.bind(ix, &bound, placed, is_gang, now, plan);
        if let Some(refusal) = refusal {
            self.refused(ix, muster, back, refusal, now, plan);
        }
    }

    /// Those who got a node are away until an answer comes.
    fn bind(
        &mut self,
        ix: ClassIx,
        bound: &Taken,
        placed: Vec<Placed>,
        is_gang: bool,
        now: u64,
        plan: &mut Plan,
    ) {
        let domains = self.domains(ix);
        for (index, ((_, replica), placed)) in bound.iter().zip(placed).enumerate() {
            let Some(pending) = self.pending.get_mut(replica) else { continue };
            pending.attempts += 1;
            pending.phase = Phase::Away;
            if index == 0 || !is_gang {
                self.seed = mix(self.seed.wrapping_add(1));
            }
            plan.binds.extend(self.item(ix, replica, placed, &domains, now));
        }
    }

    /// The places that count, for each hard rule of spreading.
    fn domains(&mut self, ix: ClassIx) -> Vec<Arc<[String]>> {
        let class = self.classes.get(ix);
        if !class.spreads.iter().any(|it| it.is_hard) {
            return Vec::new();
        }
        let (key, survey) = self.sites.survey(class.site, &self.cluster);
        let hard = class.spreads.iter().filter(|it| it.is_hard);
        let topologies = self.cluster.topologies();
        let names = |rule| {
            let places = spread::places(rule, key, survey).into_iter().flatten();
            places.map(|it| topologies.domain_name(rule.topology, *it).to_owned()).collect()
        };
        hard.map(names).collect()
    }

    fn item(
        &self,
        ix: ClassIx,
        replica: &Arc<str>,
        placed: Placed,
        domains: &[Arc<[String]>],
        now: u64,
    ) -> Option<BindItem> {
        let (class, pending) = (self.classes.get(ix), self.pending.get(replica)?);
        let (nodes, node) = (self.cluster.nodes(), placed.node);
        let attributes = nodes.attributes(node)?;
        let rules = class.spreads.iter().filter(|it| it.is_hard).zip(domains);
        let spread = rules.map(|(rule, domains)| SpreadClaim {
            topology_key: self.cluster.topologies().key(rule.topology).to_owned(),
            domain: match rule.topology {
                TopologyIx::NODE => nodes.name(node).to_string(),
                topology => {
                    let domain = self.cluster.topologies().domain(topology, node);
                    domain.map_or_else(String::new, |it| {
                        self.cluster.topologies().domain_name(topology, it).to_owned()
                    })
                }
            },
            max_skew: rule.max_skew,
            domains: domains.clone(),
        });
        let followed = class.rules.followed.iter().filter(|it| it.is_for_zone(&attributes.zone));
        let search = SearchScope {
            nodes: nodes.count() as u32,
            evaluated: placed.evaluated,
            feasible: placed.feasible,
        };
        let explanation = (!placed.scores.is_empty()).then(|| self.explanation(&placed, &search));
        Some(BindItem {
            group: self.seed,
            replica: replica.clone(),
            uid: pending.uid.clone(),
            generation: pending.generation,
            workload: class.wants.workload.clone(),
            node: nodes.name(node).clone(),
            node_uid: attributes.uid.clone(),
            node_revision: nodes.revision(node),
            node_epoch: attributes.epoch,
            policies: followed
                .map(|it| (it.name.clone(), it.generation, self.policies.revision(&it.name)))
                .collect(),
            policy_version: class.rules.version(&attributes.zone),
            spread: spread.collect(),
            attempt: pending.attempts,
            waited_ms: now.saturating_sub(pending.since),
            search,
            is_canary: class.rules.is_canary(),
            explanation,
        })
    }

    fn explanation(&self, placed: &Placed, search: &SearchScope) -> Box<DecisionSpec> {
        let scores = placed.scores.iter().map(|(node, terms)| NodeScore {
            node: self.cluster.nodes().name(*node).to_string(),
            total: terms.values().sum(),
            terms: terms.clone(),
        });
        Box::new(DecisionSpec {
            search: Some(search.clone()),
            scores: scores.collect(),
            ..DecisionSpec::default()
        })
    }

    /// The rest waits; if others can be made to leave, they are.
    fn refused(
        &mut self,
        ix: ClassIx,
        muster: Muster,
        back: Taken,
        mut refusal: Refusal,
        now: u64,
        plan: &mut Plan,
    ) {
        if matches!(refusal.reason, PendingReason::Capacity | PendingReason::Topology) {
            self.take_places(ix, muster, &back, &mut refusal, now, plan);
        }
        let class = self.classes.get(ix);
        let refusal = Arc::new(refusal);
        let first = back.first().and_then(|it| self.pending.get(&it.1));
        let (attempt, since) = first.map_or((0, now), |it| (it.attempts + 1, it.since));
        plan.notices.push(Notice {
            namespace: class.wants.namespace.clone(),
            workload: class.wants.workload.clone(),
            wakes: refusal.wakes(&self.cluster),
            policy_version: class.rules.followed.iter().map(|it| &*it.title).collect::<Vec<_>>().join(","),
            waiting: back.len() + self.queue.waiting(ix),
            attempt,
            waited_ms: now.saturating_sub(since),
            refusal: refusal.clone(),
        });
        for (_, replica) in &back {
            if let Some(pending) = self.pending.get_mut(replica) {
                pending.attempts += 1;
            }
        }
        let priority = class.priority();
        // What happened up to here is what it was refused by; it may help others, not this class.
        self.wake();
        self.queue.block(ix, priority, back, refusal, now);
        self.show_line(ix);
    }
}

fn incomplete(waiting: usize, needed: usize) -> Refusal {
    let message = format!(
        "{waiting} of {needed} replicas that need their nodes together are there: it waits for the others, or for a smaller gang"
    );
    Refusal::plain(PendingReason::Queued, Outcome::Waiting, message, Blocker::Gang)
}
