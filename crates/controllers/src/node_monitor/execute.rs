//! Carries out what was planned for a node. Nothing is decided here: what leads towards a release is decided again at a fresh
//! revision, by the same plan, one node at a time.

use std::time::Duration;

use setpoint_client::{Transaction, Typed, WriteOptions};
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::recorder::{Detail, Draft, Note};
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Binding, BindingState, Lease, Node, Outcome, Verdict as DecisionVerdict};
use setpoint_types::object::Object;
use setpoint_types::{KindType, ObjectKey, Revision};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::evidence::LeaseSeen;
use super::observe::Views;
use super::plan::{Change, Observed, Plan, Verdict, plan, shown};
use super::settings::NodeMonitorSettings;
use super::{SYSTEM, UNREACHABLE, lease_of};

/// Writes in one transaction.
const CHANGES_MAX: usize = 100;
/// How long it is waited until the caches have come up to a fresh revision: a few bookmarks of a quiet kind.
const CATCH_UP: Duration = Duration::from_secs(10);

/// Watches over nodes.
pub struct NodeMonitor {
    pub(super) views: Views,
    pub(super) settings: NodeMonitorSettings,
    pub(super) detail: Detail,
    /// One node at a time is given up or drained: two that look at the same moment would count the same.
    pub(super) turnstile: Mutex<()>,
}

impl Reconciler for NodeMonitor {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.views.observe(run.key(), false, run.now(), &self.settings).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed, &self.settings)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let (confirm, next, began) = (plan.confirm, plan.next_ms, Instant::now());
        self.perform(run, observed, plan).await?;
        let confirmed = if confirm { self.confirm(run, began).await? } else { None };
        let next = confirmed.or(next);
        Ok(next.map_or(Action::Done, |millis| Action::RequeueAfter(Duration::from_millis(millis))))
    }
}

impl NodeMonitor {
    /// The same again, by what there is after a linearizable read that begins now.
    async fn confirm(&self, run: &Run, began: Instant) -> Result<Option<u64>, ReconcileError> {
        let _turn = self.turnstile.lock().await;
        let leases = run.client().api::<Lease>().namespace(SYSTEM);
        let latest = leases.list(&setpoint_client::ListOptions { page: 1, ..Default::default() }).await?;
        self.views.catch_up(latest.revision, CATCH_UP).await?;
        // The pace is counted by this time, so it is that of now, however long the turn was waited for.
        let now = run.now().plus(began.elapsed());
        let Some(fresh) = self.views.observe(run.key(), true, now, &self.settings).await? else {
            return Ok(None);
        };
        let again = plan(&fresh, &self.settings);
        let next = again.next_ms;
        self.perform(run, &fresh, again).await?;
        Ok(next)
    }

    /// First no new replicas, then what is shown, then what becomes of those there are.
    async fn perform(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<(), ReconcileError> {
        let Plan { taint, conditions, by_lease, by_node, gives_up, .. } = plan;
        let mut seen = observed.node.clone();
        if let (Some(value), Some(node)) = (taint, &seen) {
            seen = Some(self.set_taint(run, node, value).await?);
        }
        if let (Some(conditions), Some(node)) = (conditions, &seen) {
            let wanted = shown(node, conditions);
            seen = match gives_up {
                Some(verdict) => Some(self.give_up(run, observed, &wanted, verdict).await?),
                None => {
                    let api = run.client().api::<Node>();
                    Some(ensure_status(&api, node, wanted.clone()).await?.object.unwrap_or(wanted))
                }
            };
        }
        let unchanged_lease = |transaction| if_lease(transaction, run.key().name(), &observed.lease);
        self.change(run, observed, by_lease, unchanged_lease).await?;
        let revision = seen.as_ref().map_or(Revision::NONE, |node| node.metadata.revision);
        let node = run.key().of_kind(Node::INFO.name);
        let unchanged_node = |transaction: Transaction| transaction.if_at(&node, revision);
        self.change(run, observed, by_node, unchanged_node).await
    }

    /// What the node shows, and why, at one revision, while its lease is as it was seen.
    async fn give_up(
        &self,
        run: &Run,
        observed: &Observed,
        wanted: &Typed<Node>,
        verdict: Verdict,
    ) -> Result<Typed<Node>, ReconcileError> {
        let outcome = DecisionVerdict {
            outcome: Outcome::Accepted,
            message: verdict.message.clone(),
            node: wanted.metadata.name.clone(),
            ..DecisionVerdict::default()
        };
        let draft =
            verdict.evidence.into_iter().fold(run.grounds().decide("GiveUp"), |draft, it| draft.evidence(it));
        let transaction = run.client().transaction().update_status::<Node>(wanted);
        let transaction = if_lease(transaction, run.key().name(), &observed.lease);
        let decided = draft.verdict(outcome).into_transaction(transaction, run.client(), &self.detail);
        let done = decided.transaction.commit(&decided.options).await?;
        let note = Note::warning(run.reference(), "GivenUp").message(verdict.message);
        run.event(note.decision(decided.name)).await;
        let mut node = wanted.clone();
        node.metadata.revision = done.revision;
        Ok(node)
    }

    async fn change(
        &self,
        run: &Run,
        observed: &Observed,
        changes: Vec<Change>,
        guard: impl Fn(Transaction) -> Transaction,
    ) -> Result<(), ReconcileError> {
        for some in changes.chunks(CHANGES_MAX) {
            let mut transaction = guard(run.client().transaction());
            for change in some {
                let mut all = observed.held.iter().chain(&observed.ghosts);
                let Some(held) = all.find(|held| held.key() == change.binding) else { continue };
                let wanted = Typed { status: Some(change.status.clone()), ..held.binding.clone() };
                transaction = transaction.update_status::<Binding>(&wanted);
            }
            let (transaction, options) = match eviction(run, some) {
                Some(draft) => {
                    let decided = draft.into_transaction(transaction, run.client(), &self.detail);
                    (decided.transaction, decided.options)
                }
                None => (transaction, WriteOptions::default()),
            };
            transaction.commit(&options).await?;
        }
        Ok(())
    }

    /// The taint of this controller has this value, or is not there, and why, at one revision. Others' taints are theirs.
    async fn set_taint(
        &self,
        run: &Run,
        node: &Typed<Node>,
        value: Option<String>,
    ) -> Result<Typed<Node>, ReconcileError> {
        let (action, spec) = match &value {
            Some(value) => {
                let taint = serde_json::json!({"key": UNREACHABLE, "value": value, "effect": "NoSchedule"});
                ("Taint", serde_json::json!({"taints": [taint]}))
            }
            // What was applied before and is left out now is given up.
            None => ("Untaint", serde_json::json!({})),
        };
        let mut wanted = Object::new(Node::INFO.name, "", &node.metadata.name);
        wanted.metadata.uid = node.metadata.uid.clone();
        wanted.spec = spec;
        let message = value.map_or_else(String::new, |value| format!("no new replicas: {value}"));
        let verdict = DecisionVerdict {
            outcome: Outcome::Accepted,
            message,
            node: node.metadata.name.clone(),
            ..DecisionVerdict::default()
        };
        let draft = run.grounds().decide(action).verdict(verdict);
        let transaction = run.client().transaction().apply_dynamic(&wanted, true, false);
        let decided = draft.into_transaction(transaction, run.client(), &self.detail);
        let done = decided.transaction.commit(&decided.options).await?;
        let mut node = node.clone();
        node.metadata.revision = done.revision;
        if let Some(Some(written)) = done.results.into_iter().next() {
            node.metadata = written.object.metadata;
        }
        Ok(node)
    }
}

/// Why bindings are asked to give their node back, if they are: one record for all of a transaction.
fn eviction(run: &Run, changes: &[Change]) -> Option<Draft> {
    let mut leave = changes.iter().filter(|it| it.status.state == BindingState::ReleaseRequested);
    let first = leave.next()?;
    let action = if first.status.reason == "Drain" { "Drain" } else { "Evict" };
    let count = 1 + leave.count();
    let message = format!("{count} are to leave: {}", first.status.message);
    let node = run.key().name().to_owned();
    let verdict = DecisionVerdict { outcome: Outcome::Accepted, message, node, ..DecisionVerdict::default() };
    let draft = run.grounds().decide(action).verdict(verdict);
    Some(first.status.evidence.iter().cloned().fold(draft, Draft::evidence))
}

/// Only while the lease is as it was seen: the proof of everything that follows from it.
fn if_lease(transaction: Transaction, node: &str, lease: &LeaseSeen) -> Transaction {
    transaction.if_at(&ObjectKey::new(Lease::INFO.name, SYSTEM, lease_of(node)), lease.revision)
}
