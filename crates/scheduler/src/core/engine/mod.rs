//! The whole scheduler as one state machine: replicas, nodes, policies and answers come in, binds and reports come out.
//!
//! - `turn.rs`: a class has its turn; `takeover.rs`: it takes the place of others
//! - `answer.rs`: what the server said to a bind
//! - `report.rs`: what is to be shown of those who wait
//!
//! Not here: performing any of it (`crate::shell`).

mod answer;
mod plan;
mod report;
mod takeover;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use answer::Answer;
pub use plan::{BindItem, Eviction, Notice, Plan, SpreadClaim};
pub use report::{Report, fingerprint};
use setpoint_types::kinds::Preemption;
use setpoint_types::{Generation, Revision, Uid};

use super::blocker::Blocker;
use super::class::{Class, ClassIx, Classes, Wants};
use super::cluster::Cluster;
use super::cluster::bound::Standing;
use super::cluster::event::Event;
use super::explain::Refusal;
use super::filter;
use super::gang::{Muster, muster};
use super::place::Search;
use super::policy::{Policies, Version};
use super::preempt::could_take;
use super::queue::{Backoff, Fit, Queue, Ticket};
use super::site::Sites;

/// What an engine can be told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// At most so many replicas of a class have their turn together; then others of its priority are next.
    pub batch: usize,
    pub search: Search,
    /// Those blocked for so long are tried again though nothing happened that could help them.
    pub flush_ms: u64,
    /// How long a place is kept for whom it was taken for. Those who have it may take their grace to leave.
    pub nomination_ms: u64,
    /// At most so many replicas take others' places in one turn.
    pub evictions: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 512,
            search: Search::default(),
            flush_ms: 300_000,
            nomination_ms: 120_000,
            evictions: 32,
        }
    }
}

/// A replica without a node.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub uid: Uid,
    pub generation: Generation,
    pub wants: Wants,
    /// Since when it waits, in milliseconds since 1970.
    pub since: u64,
    pub deadline: Option<u64>,
    /// What its status shows that it waits for, as [`report::fingerprint`] has it; 0 for nothing.
    pub shown: u64,
    pub attempts: u32,
}

#[derive(Clone, Debug)]
struct Pending {
    uid: Uid,
    generation: Generation,
    class: ClassIx,
    ticket: Ticket,
    phase: Phase,
    since: u64,
    shown: u64,
    attempts: u32,
    /// In a row, by the server.
    refusals: u32,
    deadline: Option<u64>,
}

/// What a replica waits for, apart from its line.
#[derive(Clone, Debug)]
enum Phase {
    /// Its turn.
    InLine,
    /// The answer to its bind.
    Away,
    /// A while, after a refusal.
    Pausing(Arc<Refusal>),
    /// Nothing: its time is over.
    Late,
}

/// The scheduler without IO.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    options: Options,
    cluster: Cluster,
    classes: Classes,
    sites: Sites,
    policies: Policies,
    priority_classes: BTreeMap<String, Preemption>,
    queue: Queue,
    backoff: Backoff,
    pending: BTreeMap<Arc<str>, Pending>,
    deadlines: BTreeSet<(u64, Arc<str>)>,
    /// Binds the server has taken and the cache has not shown.
    committed: BTreeSet<(Revision, Arc<str>)>,
    /// Everything up to here is in.
    seen: Revision,
    dirty: BTreeSet<Arc<str>>,
    /// What was last shown for a whole line.
    shown_of_line: BTreeMap<ClassIx, u64>,
    seed: u64,
}

impl Engine {
    /// The seed decides between equals; two schedulers should have different ones.
    pub fn new(options: Options, seed: u64) -> Self {
        Self { options, seed, ..Self::default() }
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// For what is seen of nodes, bindings and quotas.
    pub fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// How many wait, in whatever way.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    pub fn pausing(&self) -> usize {
        self.backoff.len()
    }

    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// A replica without a node was seen, or is another than it was.
    pub fn see_replica(&mut self, key: &str, waiting: Waiting, now: u64) {
        let standing = self.cluster.bounds().standing(key).filter(|_| !self.pending.contains_key(key));
        // Its node was decided already, and this is from before. If nobody has answered yet, it was somebody else's for a while: it
        // waits for the answer, which may be a refusal.
        if standing.is_some_and(|it| it != Standing::Assumed) {
            return;
        }
        if let Some(known) = self.pending.get_mut(key)
            && known.uid == waiting.uid
        {
            // Nothing of a replica's spec changes; what is shown of it does.
            known.generation = waiting.generation;
            known.shown = waiting.shown;
            return;
        }
        self.drop_replica(key);
        let key: Arc<str> = key.into();
        let rules = self.policies.rules(&waiting.wants, share_of(&waiting.wants, &waiting.uid));
        let class = self.classes.enter(waiting.wants, rules, &mut self.sites, &mut self.cluster);
        let ticket = self.queue.ticket();
        let pending = Pending {
            uid: waiting.uid,
            generation: waiting.generation,
            class,
            ticket,
            phase: Phase::InLine,
            since: waiting.since,
            shown: waiting.shown,
            attempts: waiting.attempts,
            refusals: 0,
            deadline: waiting.deadline,
        };
        if let Some(deadline) = pending.deadline {
            self.deadlines.insert((deadline, key.clone()));
        }
        let is_away = standing.is_some();
        let phase = if is_away { Phase::Away } else { Phase::InLine };
        self.pending.insert(key.clone(), Pending { phase, ..pending });
        if !is_away {
            self.join(&key, now);
        }
    }

    /// Puts a replica into its line, behind those who came before it.
    fn join(&mut self, key: &Arc<str>, now: u64) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        if pending.deadline.is_some_and(|deadline| deadline <= now) {
            pending.phase = Phase::Late;
            self.dirty.insert(key.clone());
            return;
        }
        pending.phase = Phase::InLine;
        let class = self.classes.get(pending.class);
        let has_gang = class.wants.placement.gang.is_some();
        let stop = self.queue.join(pending.class, class.priority(), pending.ticket, key.clone());
        if stop.is_some() {
            self.dirty.insert(key.clone());
            if has_gang {
                self.queue.wake_class(pending.class);
            }
        }
    }

    /// A replica is gone, has a node, or is somebody else's.
    pub fn drop_replica(&mut self, key: &str) {
        let Some((key, pending)) = self.pending.remove_entry(key) else { return };
        self.queue.leave(pending.class, pending.ticket);
        self.keep_no_more_than_needed(pending.class);
        self.backoff.remove(&key);
        self.dirty.remove(&key);
        if let Some(deadline) = pending.deadline {
            self.deadlines.remove(&(deadline, key.clone()));
        }
        self.leave_class(pending.class);
    }

    /// Nobody keeps more places than it has use for; a gang that lacks members has none for any.
    fn keep_no_more_than_needed(&mut self, class: ClassIx) {
        if !self.cluster.nodes().has_nominations() {
            return;
        }
        let waiting = self.queue.waiting(class);
        if matches!(muster(&self.cluster, self.classes.get(class), waiting), Muster::Incomplete { .. }) {
            self.cluster.withdraw_all(class);
        }
        while self.cluster.nodes().nominations_of(class) > waiting && self.cluster.withdraw(class, None) {}
    }

    fn leave_class(&mut self, class: ClassIx) {
        if self.classes.leave(class, &mut self.sites, &mut self.cluster) {
            self.shown_of_line.remove(&class);
        }
    }

    /// A policy was seen; none if it is gone. Everybody who waits is looked at again if it says something else.
    pub fn see_policy(&mut self, name: &str, version: Option<(Version, Revision)>, now: u64) {
        let has_changed = match version {
            Some((version, revision)) => self.policies.set(name, version, revision),
            None => self.policies.remove(name),
        };
        if has_changed {
            self.reclassify(now);
        }
    }

    /// A priority class was seen; none if it is gone. Its value is in its replicas already, and cannot change.
    pub fn see_priority_class(&mut self, name: &str, preemption: Option<Preemption>) {
        let before = match preemption {
            Some(preemption) => self.priority_classes.insert(name.to_owned(), preemption),
            None => self.priority_classes.remove(name),
        };
        if before == Some(Preemption::Never) && preemption != before {
            self.cluster.tell(Event::PriorityClass(name.into()));
        }
    }

    /// Somebody who was to leave for others stays: those who were to have its place look again.
    pub fn stayed(&mut self, victim: &str) {
        let Some(node) = self.cluster.bounds().held(victim).map(|it| it.node) else { return };
        for class in self.cluster.withdraw_from(node) {
            self.queue.wake_class(class);
        }
    }

    /// Gives everybody in a line the class that the policies of now make of it.
    fn reclassify(&mut self, now: u64) {
        let in_line = |it: &Pending| !matches!(it.phase, Phase::Away);
        let keys: Vec<Arc<str>> =
            self.pending.iter().filter(|it| in_line(it.1)).map(|it| it.0.clone()).collect();
        for key in keys {
            let Some(pending) = self.pending.get(&key) else { continue };
            let (before, ticket) = (pending.class, pending.ticket);
            let wants = self.classes.get(before).wants.clone();
            let rules = self.policies.rules(&wants, share_of(&wants, &pending.uid));
            let after = self.classes.enter(Wants::clone(&wants), rules, &mut self.sites, &mut self.cluster);
            let is_in_line = matches!(pending.phase, Phase::InLine);
            if before != after && is_in_line {
                self.queue.leave(before, ticket);
                self.keep_no_more_than_needed(before);
            }
            if let Some(pending) = self.pending.get_mut(&key) {
                pending.class = after;
            }
            if before != after && is_in_line {
                self.join(&key, now);
            }
            self.leave_class(before);
        }
        self.cluster.tell(Event::Policies);
    }

    /// Everything up to here is in. What the server has taken and the cache does not show is there no more.
    pub fn set_seen(&mut self, revision: Revision) {
        self.seen = self.seen.max(revision);
        while let Some((at, _)) = self.committed.first()
            && *at <= self.seen
            && let Some((at, key)) = self.committed.pop_first()
        {
            if self.cluster.bounds().standing(&key) == Some(Standing::Committed(at)) {
                self.cluster.forget(&key);
            }
        }
    }

    /// Lets time pass: whoever waited long enough is back in its line.
    pub fn tick(&mut self, now: u64) {
        for key in self.backoff.take_due(now, self.seen) {
            self.join(&key, now);
        }
        while let Some((deadline, _)) = self.deadlines.first()
            && *deadline <= now
            && let Some((_, key)) = self.deadlines.pop_first()
        {
            self.expire(&key);
        }
        self.queue.flush(now, self.options.flush_ms);
        for class in self.cluster.withdraw_expired(now) {
            self.queue.wake_class(class);
        }
        self.wake();
    }

    fn expire(&mut self, key: &Arc<str>) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        if matches!(pending.phase, Phase::Away) {
            // If it was bound, it has its node in time.
            return;
        }
        pending.phase = Phase::Late;
        let class = pending.class;
        self.queue.leave(class, pending.ticket);
        self.backoff.remove(key);
        self.dirty.insert(key.clone());
        self.keep_no_more_than_needed(class);
    }

    /// When [`Engine::tick`] has something to do, as far as that is known.
    pub fn next_tick(&self, now: u64) -> Option<u64> {
        let flush = self.queue.flush_due(self.options.flush_ms);
        let deadline = self.deadlines.first().map(|it| it.0);
        [flush, deadline, self.backoff.next_due(now)].into_iter().flatten().min()
    }

    /// Wakes those whom what happened could help.
    fn wake(&mut self) {
        let Self { cluster, queue, classes, sites, priority_classes, .. } = self;
        let events = cluster.take_events();
        if !queue.has_blocked() {
            return;
        }
        for event in events {
            let zone_of = |node| cluster.zone_of(node);
            queue.wake(&event, zone_of, |class, node| {
                let class = classes.get(class);
                let Some(zone) = cluster.zone_of(node) else { return Fit::Unsuited };
                if sites.judge(class.site, cluster, node).is_some() {
                    return Fit::Unsuited;
                }
                match filter::judge_room(cluster, class, node) {
                    None => Fit::Fits,
                    // Whoever else is there could be made to leave the rest.
                    Some(_) if may_evict(class, priority_classes) && could_take(cluster, class, node) => {
                        Fit::Fits
                    }
                    Some(filter::Miss::Resources { dim, .. }) => Fit::Lacks(Blocker::Room { zone, dim }),
                    Some(_) => Fit::Lacks(Blocker::Port { zone }),
                }
            });
        }
    }
}

/// Whether replicas of a class may make others go.
fn may_evict(class: &Class, priority_classes: &BTreeMap<String, Preemption>) -> bool {
    let said = class.wants.priority_class.as_ref().and_then(|it| priority_classes.get(it));
    said != Some(&Preemption::Never) && !class.rules.forbids_preemption
}

/// What decides which share of a policy's weight a replica falls into: a gang stays together.
fn share_of<'a>(wants: &'a Wants, uid: &'a Uid) -> &'a str {
    if wants.placement.gang.is_some() { &wants.workload } else { uid.as_str() }
}
