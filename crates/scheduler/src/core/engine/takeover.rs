//! A class that found no room takes the place of others, if it may: of those who leave anyway, or of less important ones.

use setpoint_types::kinds::{Outcome, PendingReason};

use super::plan::{Eviction, Plan};
use super::turn::Taken;
use super::{Engine, may_evict};
use crate::core::blocker::Blocker;
use crate::core::class::{Class, ClassIx};
use crate::core::cluster::Cluster;
use crate::core::explain::Refusal;
use crate::core::gang::Muster;
use crate::core::hash::mix;
use crate::core::place::Grounds;
use crate::core::seats::Victim;
use crate::core::{preempt, seats};

impl Engine {
    /// Keeps places for those who have none, and says so in the refusal.
    pub(super) fn take_places(
        &mut self,
        ix: ClassIx,
        muster: Muster,
        back: &Taken,
        refusal: &mut Refusal,
        now: u64,
        plan: &mut Plan,
    ) {
        let class = self.classes.get(ix);
        let may_evict = may_evict(class, &self.priority_classes);
        if let (false, Some(name)) = (may_evict, &class.wants.priority_class) {
            refusal.blockers.insert(Blocker::PriorityClass(name.as_str().into()));
        }
        match muster {
            Muster::Each => {
                let waiting = back.len() + self.queue.waiting(ix);
                let places = self.take_one_by_one(ix, waiting, may_evict, now, plan);
                tell_places(refusal, places, waiting);
            }
            Muster::Together(_) => {
                if self.take_together(ix, back, may_evict, now, plan) {
                    tell_seats(refusal, back.len());
                }
            }
            Muster::Incomplete { .. } => {}
        }
    }

    /// A place for as many as possible. Says how many have one.
    fn take_one_by_one(
        &mut self,
        ix: ClassIx,
        waiting: usize,
        may_evict: bool,
        now: u64,
        plan: &mut Plan,
    ) -> usize {
        let Self { cluster, classes, sites, options, seed, .. } = self;
        let class = classes.get(ix);
        let (key, survey) = sites.survey(class.site, cluster);
        let grounds = Grounds { class, key, survey };
        let until = now.saturating_add(options.nomination_ms);
        let kept = cluster.nodes().nominations_of(ix);
        let mut places = kept;
        for turn in kept..waiting.min(kept + options.evictions) {
            let found = preempt::nominate(cluster, grounds, may_evict, mix(*seed ^ turn as u64), until);
            let Some(nominee) = found else { break };
            places += 1;
            for (victim, priority) in nominee.victims {
                plan.evictions.push(eviction(
                    cluster,
                    class,
                    Victim { key: victim, priority, node: nominee.node },
                ));
            }
        }
        places
    }

    /// A place for everybody, or none. What was kept for them stays kept as long as it would do.
    fn take_together(
        &mut self,
        ix: ClassIx,
        back: &Taken,
        may_evict: bool,
        now: u64,
        plan: &mut Plan,
    ) -> bool {
        let Self { cluster, classes, sites, options, seed, .. } = self;
        let class = classes.get(ix);
        let (key, survey) = sites.survey(class.site, cluster);
        let grounds = Grounds { class, key, survey };
        let members: Vec<_> = back.iter().map(|it| it.1.clone()).collect();
        if seats::hold(cluster, grounds, &members) {
            return true;
        }
        cluster.withdraw_all(ix);
        let until = now.saturating_add(options.nomination_ms);
        let Some(victims) = seats::keep(cluster, grounds, &members, may_evict, *seed, until) else {
            return false;
        };
        plan.evictions.extend(victims.into_iter().map(|it| eviction(cluster, class, it)));
        true
    }
}

fn eviction(cluster: &Cluster, class: &Class, victim: Victim) -> Eviction {
    Eviction {
        victim: victim.key,
        priority: victim.priority,
        node: cluster.nodes().name(victim.node).clone(),
        namespace: class.wants.namespace.clone(),
        workload: class.wants.workload.clone(),
        by_priority: class.priority(),
    }
}

fn tell_places(refusal: &mut Refusal, places: usize, waiting: usize) {
    if places == 0 {
        return;
    }
    let message = match places >= waiting {
        true => "it waits until those whose place it takes have left".to_owned(),
        false => format!(
            "{places} of {waiting} wait until those whose place they take have left; the others: {}",
            refusal.message
        ),
    };
    tell(refusal, message);
}

fn tell_seats(refusal: &mut Refusal, members: usize) {
    let message = format!(
        "all {members} that need their nodes together wait until those whose places they take have left"
    );
    tell(refusal, message);
}

fn tell(refusal: &mut Refusal, message: String) {
    refusal.reason = PendingReason::Preempting;
    refusal.outcome = Outcome::Waiting;
    refusal.message = message;
}
