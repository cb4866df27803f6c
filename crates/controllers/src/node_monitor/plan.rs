//! What is to be done about one node: pure, from what is heard of it, of the fleet, and of the replicas it has.
//!
//! Nothing here destroys. Bindings are called unknown, and are given a time after which the replica controller may ask for their
//! release; or their release is asked for, and the agent stops them. Whatever leads towards a release is only planned from a view that
//! was brought up to a fresh revision (`fresh`); from any other view the plan is to look again (`confirm`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{
    Binding, BindingState, BindingStatus, Node, NodeStatus, Taint, TaintEffect, Toleration,
};
use setpoint_types::object::{Condition, Evidence, find_condition};

use super::drain::{Budget, Leaver, Leaving, leaving};
use super::eviction::due;
use super::evidence::{Finding, Hold, LATE, LeaseSeen, Pulse, expired, findings, until_late};
use super::fleet::Turn;
use super::settings::NodeMonitorSettings;
use super::signals::{Measure, Signal};
use super::{DRAINED, EVICTING, LOST, REACHABLE, UNREACHABLE};

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// None: the object is gone.
    pub node: Option<Typed<Node>>,
    pub lease: LeaseSeen,
    /// What the leader says of the lease; none if it could not be asked lately.
    pub pulse: Option<Pulse>,
    /// Bindings to this node that are not released.
    pub held: Vec<Held>,
    /// The same of an earlier node of the name, or of this one, if it is gone.
    pub ghosts: Vec<Held>,
    /// Whether it is the node's turn to be given up. Only asked for if its lease is over.
    pub turn: Option<Turn>,
    /// What the workloads on the node allow, `namespace/workload`. Only looked at if the node is drained.
    pub budgets: BTreeMap<String, Budget>,
    /// Everything above is from at least a revision that was read after the run began to act, and nobody else in this process
    /// acts meanwhile.
    pub fresh: bool,
    pub now: Timestamp,
}

/// A binding, with what its replica says about being left alone.
#[derive(Clone, Debug)]
pub struct Held {
    pub binding: Typed<Binding>,
    /// None: it is gone, or not seen yet.
    pub replica: Option<ReplicaSeen>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSeen {
    /// The budget it counts to, `namespace/workload`.
    pub workload: Option<String>,
    pub available: bool,
    pub unknown_grace: Duration,
    pub tolerations: Vec<Toleration>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// The taint that keeps new replicas away: its new value, or none to take it off. Left out: it is as it should be.
    pub taint: Option<Option<String>>,
    /// What the node shows; none if it shows it already.
    pub conditions: Option<Vec<Condition>>,
    /// What becomes of bindings because of the lease. Only while the lease is as it was seen.
    pub by_lease: Vec<Change>,
    /// What becomes of bindings because of the node's spec. Only while the node is as it was seen.
    pub by_node: Vec<Change>,
    /// The node is given up with this: what for people, on which evidence.
    pub gives_up: Option<Verdict>,
    /// Look again at a fresh revision: there may be more to do.
    pub confirm: bool,
    /// When to look again, if nothing happens.
    pub next_ms: Option<u64>,
}

/// A binding's new status.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// `namespace/name`
    pub binding: String,
    pub status: BindingStatus,
}

/// Why a node is given up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub message: String,
    pub evidence: Vec<Evidence>,
}

/// Decides.
pub fn plan(observed: &Observed, settings: &NodeMonitorSettings) -> Plan {
    let mut plan = match &observed.node {
        Some(node) => Planner { observed, settings, node, plan: Plan::default() }.plan(),
        None => Plan::default(),
    };
    bury(observed, settings, &mut plan);
    plan
}

/// Bindings to a Node object that is gone, also if there is another one of its name. Whoever deleted it has decided.
fn bury(observed: &Observed, settings: &NodeMonitorSettings, plan: &mut Plan) {
    if settings.may_decide.measure(Signal::NodeGone) < Measure::GiveUp {
        return;
    }
    if !observed.fresh {
        plan.confirm |= observed.ghosts.iter().any(Held::waits_for_grace);
        return;
    }
    let evidence = Evidence {
        signal: "node".to_owned(),
        value: "the Node object is gone".to_owned(),
        time: observed.now,
        ..Evidence::default()
    };
    for held in observed.ghosts.iter().filter(|held| held.waits_for_grace()) {
        let grace = Some(observed.now.plus(held.grace()));
        let why = "its node was deleted";
        plan.by_node.extend(held.unknown(
            "NodeGone",
            why,
            std::slice::from_ref(&evidence),
            grace,
            observed.now,
        ));
    }
}

struct Planner<'a> {
    observed: &'a Observed,
    settings: &'a NodeMonitorSettings,
    node: &'a Typed<Node>,
    plan: Plan,
}

/// How a node is to be shown and treated.
enum Reach {
    NeverHeard,
    Heard,
    Late,
    Expired,
}

impl Planner<'_> {
    fn plan(mut self) -> Plan {
        let observed = self.observed;
        let mut found =
            findings(self.node, &observed.lease, observed.pulse.as_ref(), observed.now, self.settings);
        if observed.lease.hold == Hold::Never && !observed.held.is_empty() {
            // Whoever bound something here saw a lease. That there is none any more is the end of it.
            found.push(expired("there is no lease", observed.now, observed.lease.revision));
        }
        let has = |signal| found.iter().any(|it: &Finding| it.signal == signal);
        let reach = match observed.lease.hold {
            _ if has(Signal::LeaseExpired) => Reach::Expired,
            Hold::Never => Reach::NeverHeard,
            _ if has(Signal::LeaseLate) => Reach::Late,
            _ => Reach::Heard,
        };
        let evidence: Vec<Evidence> = found.iter().map(|it| it.evidence.clone()).collect();
        let measure = found.iter().map(|it| self.settings.may_decide.measure(it.signal)).max();
        let measure = measure.unwrap_or(Measure::Note);
        let mut conditions = self.conditions();
        let mut set = Conditions::of(&mut conditions, self.node.metadata.generation, observed.now);
        set.set(reachable(&reach, &evidence));
        match reach {
            Reach::Expired if measure >= Measure::CallUnknown => self.silent(&found, &evidence, &mut set),
            Reach::Expired => self.wait(self.settings.period()),
            Reach::NeverHeard => {}
            Reach::Heard | Reach::Late => self.heard(&mut set),
        }
        self.place(&reach, measure);
        self.show(conditions);
        self.plan
    }

    fn conditions(&self) -> Vec<Condition> {
        self.node.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
    }

    fn wait(&mut self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        self.plan.next_ms = Some(self.plan.next_ms.map_or(millis, |before| before.min(millis)));
    }

    /// Whether new replicas are kept away.
    fn place(&mut self, reach: &Reach, measure: Measure) {
        let value = match reach {
            _ if measure < Measure::NoPlacement => None,
            Reach::Expired => Some("expired"),
            Reach::Late => Some("late"),
            Reach::Heard | Reach::NeverHeard => Some("reported"),
        };
        let taints = &self.node.spec.taints;
        let is_ours = |it: &&Taint| it.key == UNREACHABLE && it.effect == TaintEffect::NoSchedule;
        let is = taints.iter().find(is_ours).map(|taint| taint.value.as_str());
        if is != value {
            self.plan.taint = Some(value.map(str::to_owned));
        }
    }

    fn show(&mut self, conditions: Vec<Condition>) {
        if conditions != self.conditions() {
            self.plan.conditions = Some(conditions);
        }
    }

    /// Its lease is over.
    fn silent(&mut self, found: &[Finding], evidence: &[Evidence], set: &mut Conditions<'_>) {
        let observed = self.observed;
        let was_lost = self.is_lost();
        let by_word = found.iter().any(|it| it.signal == Signal::OutOfService);
        let may = |signal| self.settings.may_decide.measure(signal) >= Measure::GiveUp;
        let turn = if by_word && may(Signal::OutOfService) {
            Turn::Now
        } else if may(Signal::LeaseExpiredConfirmed) {
            match observed
                .turn
                .clone()
                .unwrap_or(Turn::Wait { for_at_least: self.settings.period(), disrupted: false })
            {
                Turn::Stop => Turn::Stop,
                _ if was_lost => Turn::Now,
                turn => turn,
            }
        } else {
            Turn::Stop
        };
        let lost = match turn {
            Turn::Now if was_lost => true,
            Turn::Now if observed.fresh => {
                let (reason, message) = match by_word {
                    true => ("OutOfService", "its replicas are given up at once"),
                    false => ("Confirmed", "its replicas are given up, each after its own grace"),
                };
                let told = Statement::holds(LOST, reason).message(message);
                set.set(evidence.iter().cloned().fold(told, Statement::evidence));
                let message = format!("{reason}: {message}");
                self.plan.gives_up = Some(Verdict { message, evidence: evidence.to_vec() });
                true
            }
            Turn::Now => {
                self.plan.confirm = true;
                false
            }
            Turn::Wait { for_at_least, disrupted } => {
                self.wait(for_at_least.clamp(self.settings.period(), Duration::from_secs(60)));
                let why = match disrupted {
                    true => "much of its zone is silent: nodes are given up slowly",
                    false => "nodes of a zone are given up one after the other",
                };
                set.set(Statement::unknown(LOST, "HeldBack").message(why));
                false
            }
            Turn::Stop => {
                self.wait(self.settings.period());
                let why = match may(Signal::LeaseExpiredConfirmed) {
                    true => "every zone is silent: nothing is given up",
                    false => "the settings leave that to people",
                };
                set.set(Statement::unknown(LOST, "HeldBack").message(why));
                false
            }
        };
        if lost && observed.held.iter().any(Held::is_unknown) {
            // If all of the fleet falls silent, what was begun is taken back.
            self.wait(self.settings.period());
        }
        for held in &observed.held {
            let patience = if by_word { Duration::ZERO } else { held.grace() };
            let grace = lost.then(|| held.binding_grace().unwrap_or(observed.now.plus(patience)));
            let change =
                held.unknown("NodeUnreachable", "its node is out of reach", evidence, grace, observed.now);
            self.plan.by_lease.extend(change);
        }
    }

    fn is_lost(&self) -> bool {
        let conditions = self.node.status.as_ref().map(|it| it.conditions.as_slice()).unwrap_or_default();
        let lost = find_condition(conditions, LOST);
        lost.is_some_and(|it| it.status == setpoint_types::object::ConditionStatus::True)
    }

    /// Its agent is there, and obeys.
    fn heard(&mut self, set: &mut Conditions<'_>) {
        let observed = self.observed;
        set.remove(LOST);
        let next = until_late(&observed.lease, observed.pulse.as_ref(), self.settings);
        // A little later than it could be late, so that one look is enough.
        self.wait(next.unwrap_or_default().max(self.settings.period()) + Duration::from_millis(100));
        self.plan.by_lease.extend(observed.held.iter().filter_map(|held| held.back(observed.now)));
        self.evict(set);
        self.drain(set);
    }

    /// Taints that move replicas away.
    fn evict(&mut self, set: &mut Conditions<'_>) {
        let observed = self.observed;
        let taints: Vec<&Taint> =
            self.node.spec.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).collect();
        if taints.is_empty() {
            set.remove(EVICTING);
            return;
        }
        // Whoever set a taint need not say when: then it counts from when it was first seen, which is kept here.
        let seen: Vec<Evidence> = set.find(EVICTING).map(|it| it.evidence.clone()).unwrap_or_default();
        let since = |taint: &Taint| {
            let first = || seen.iter().find(|it| it.signal == taint.key).map(|it| it.time);
            taint.since.or_else(first).unwrap_or(observed.now)
        };
        let mut told = Statement::holds(EVICTING, "NoExecuteTaint");
        for taint in taints.iter().filter(|taint| taint.since.is_none()) {
            let (signal, value) = (taint.key.clone(), taint.value.clone());
            told = told.evidence(Evidence { signal, value, time: since(taint), ..Evidence::default() });
        }
        set.set(told);
        for held in observed.held.iter().filter(|held| held.state() == BindingState::Bound) {
            let Some(replica) = &held.replica else { continue };
            let Some(due) = due(&self.node.spec.taints, &replica.tolerations, since) else { continue };
            if due.at > observed.now {
                self.wait(due.at.since(observed.now));
                continue;
            }
            let message = format!("its node has the taint {}, which it does not bear", due.taint);
            let evidence = Evidence {
                signal: "taint".to_owned(),
                value: due.taint,
                time: due.at,
                revision: self.node.metadata.revision,
            };
            self.plan.by_node.push(held.request_release("Taint", message, evidence, observed.now));
        }
    }

    /// The node is to be empty.
    fn drain(&mut self, set: &mut Conditions<'_>) {
        let observed = self.observed;
        if !self.node.spec.drain {
            set.remove(DRAINED);
            return;
        }
        if observed.held.is_empty() {
            set.set(Statement::holds(DRAINED, "Empty"));
            return;
        }
        let going: Vec<&str> = self.plan.by_node.iter().map(|change| change.binding.as_str()).collect();
        let bound =
            |held: &&Held| held.state() == BindingState::Bound && !going.contains(&held.key().as_str());
        let leavers: Vec<Leaver> = observed.held.iter().filter(bound).map(Held::leaver).collect();
        let Leaving { now, blockers } = leaving(&leavers, &observed.budgets);
        let left = observed.held.len();
        let waits = if blockers.is_empty() { String::new() } else { format!("; held up by {blockers}") };
        let reason = if blockers.is_empty() { "Draining" } else { "Blocked" };
        set.set(Statement::fails(DRAINED, reason).message(format!("{left} left{waits}")));
        self.wait(self.settings.drain_period());
        if !observed.fresh {
            self.plan.confirm |= !now.is_empty();
            return;
        }
        for held in observed.held.iter().filter(|held| now.contains(&held.key())) {
            let evidence = Evidence {
                signal: "administrator".to_owned(),
                value: "drain".to_owned(),
                time: observed.now,
                revision: self.node.metadata.revision,
            };
            let message = "its node is being drained".to_owned();
            self.plan.by_node.push(held.request_release("Drain", message, evidence, observed.now));
        }
    }
}

fn reachable(reach: &Reach, evidence: &[Evidence]) -> Statement {
    let told = match reach {
        Reach::Heard => return Statement::holds(REACHABLE, "LeaseHeld"),
        Reach::NeverHeard => return Statement::unknown(REACHABLE, "NeverHeard"),
        Reach::Late => Statement::unknown(REACHABLE, LATE).message("no new replicas are placed here"),
        Reach::Expired => Statement::fails(REACHABLE, "LeaseExpired"),
    };
    evidence.iter().cloned().fold(told, Statement::evidence)
}

impl Held {
    pub fn key(&self) -> String {
        let metadata = &self.binding.metadata;
        format!("{}/{}", metadata.namespace, metadata.name)
    }

    fn status(&self) -> BindingStatus {
        self.binding.status.clone().unwrap_or_default()
    }

    pub fn state(&self) -> BindingState {
        self.binding.status.as_ref().map(|status| status.state).unwrap_or_default()
    }

    fn is_unknown(&self) -> bool {
        self.state() == BindingState::Unknown
    }

    fn binding_grace(&self) -> Option<Timestamp> {
        self.binding.status.as_ref().and_then(|status| status.grace_until)
    }

    /// Nobody has said yet when it may be released.
    fn waits_for_grace(&self) -> bool {
        matches!(self.state(), BindingState::Bound | BindingState::Unknown) && self.binding_grace().is_none()
    }

    /// A replica that is not known is as patient as one that says nothing.
    fn grace(&self) -> Duration {
        let default = setpoint_types::kinds::ReplicaTemplate::default().unknown_grace_seconds;
        self.replica.as_ref().map_or(Duration::from_secs(default.into()), |it| it.unknown_grace)
    }

    fn leaver(&self) -> Leaver {
        let (workload, available) =
            self.replica.as_ref().map_or((None, false), |it| (it.workload.clone(), it.available));
        Leaver { binding: self.key(), workload, available }
    }

    fn change(&self, status: BindingStatus) -> Change {
        Change { binding: self.key(), status }
    }

    /// Called unknown, with or without a time after which it may be released. Nothing if it is so already, or its release was asked
    /// for.
    fn unknown(
        &self,
        reason: &str,
        message: &str,
        evidence: &[Evidence],
        grace_until: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Change> {
        let status = self.status();
        match status.state {
            BindingState::Bound => {}
            BindingState::Unknown if status.grace_until != grace_until => {}
            _ => return None,
        }
        let since = if self.is_unknown() { status.since } else { now };
        Some(self.change(BindingStatus {
            state: BindingState::Unknown,
            since,
            reason: reason.to_owned(),
            message: message.to_owned(),
            evidence: evidence.to_vec(),
            grace_until,
            ..status
        }))
    }

    /// Bound again, if it was unknown.
    fn back(&self, now: Timestamp) -> Option<Change> {
        let status = self.is_unknown().then(|| self.status())?;
        Some(self.change(BindingStatus {
            state: BindingState::Bound,
            since: now,
            reason: "NodeBack".to_owned(),
            message: String::new(),
            evidence: Vec::new(),
            grace_until: None,
            ..status
        }))
    }

    fn request_release(&self, reason: &str, message: String, evidence: Evidence, now: Timestamp) -> Change {
        self.change(BindingStatus {
            state: BindingState::ReleaseRequested,
            since: now,
            reason: reason.to_owned(),
            message,
            evidence: vec![evidence],
            grace_until: None,
            ..self.status()
        })
    }
}

/// The node with what it is to show.
pub fn shown(node: &Typed<Node>, conditions: Vec<Condition>) -> Typed<Node> {
    let status = node.status.clone().unwrap_or_default();
    Typed { status: Some(NodeStatus { conditions, ..status }), ..node.clone() }
}
