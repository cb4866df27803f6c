//! What is read before a node is decided about: caches, and the leader's word. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::Typed;
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::{Cache, Entry, Index, Key};
use setpoint_types::kinds::{Binding, BindingState, Lease, LeaseStatus, Node, Replica, Stage, Workload};
use setpoint_types::object::{Condition, ConditionStatus, find_condition};
use setpoint_types::{FieldProblem, Revision, Timestamp};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::drain::Budget;
use super::evidence::{Hold, LATE, LeaseSeen};
use super::fleet::{Fleet, Member, MemberState};
use super::plan::{Held, Observed, ReplicaSeen};
use super::pulse::Pulses;
use super::settings::NodeMonitorSettings;
use super::{LOST, OUT_OF_SERVICE, REACHABLE, SYSTEM, lease_of};

/// The index by which bindings are found: `NODE STATE`. Released ones are not in it.
pub const BY_NODE: &str = "node-state";
/// The index by which the replicas of a workload are found.
pub const BY_WORKLOAD: &str = "workload";

/// What is looked at.
pub struct Views {
    pub nodes: Cache<Node>,
    pub leases: Cache<Lease>,
    pub bindings: Cache<Binding>,
    pub replicas: Cache<Replica>,
    pub workloads: Cache<Workload>,
    pub pulses: Pulses,
    /// The fleet as it was counted last, and when: to count all nodes once for many runs.
    pub fleet: Mutex<Option<(Instant, Arc<Fleet>)>>,
}

/// How bindings are found.
pub fn by_node() -> Index {
    Index::new(BY_NODE, |entry: &Entry| {
        let binding = entry.read::<Binding>()?;
        let state = binding.status.map(|status| status.state).unwrap_or_default();
        Ok(match state {
            BindingState::Released => Vec::new(),
            state => vec![format!("{} {state:?}", binding.spec.node)],
        })
    })
}

impl Views {
    /// Everything about a node. None: neither it nor a binding to it is left.
    pub async fn observe(
        &self,
        key: &Key,
        fresh: bool,
        now: Timestamp,
        settings: &NodeMonitorSettings,
    ) -> Result<Option<Observed>, ReconcileError> {
        let node = self.nodes.read(key)?;
        let name = key.name();
        let lease = self.lease(name)?;
        let is_held = matches!(lease.hold, Hold::Held { .. });
        // A node that is well need not look at what it has: there may be much of it.
        let looks_at_all = match &node {
            Some(node) => !is_held || node.spec.drain || evicts(node) || is_new(node, now),
            None => true,
        };
        let mut all = self.held(name, BindingState::Unknown)?;
        if looks_at_all {
            all.extend(self.held(name, BindingState::Bound)?);
            all.extend(self.held(name, BindingState::ReleaseRequested)?);
        }
        if node.is_none() && all.is_empty() {
            return Ok(None);
        }
        let is_ours =
            |it: &Held| node.as_ref().is_some_and(|node| it.binding.spec.node_uid == node.metadata.uid);
        let (held, ghosts): (Vec<Held>, Vec<Held>) = all.into_iter().partition(is_ours);
        let mut budgets = BTreeMap::new();
        let mut turn = None;
        if let Some(node) = &node {
            if node.spec.drain && is_held {
                budgets = self.budgets(&held)?;
            }
            if !is_held {
                let fleet = self.fleet(fresh).await;
                turn = Some(fleet.turn(&node.spec.zone, name, now, settings));
            }
        }
        let pulse = if is_held { self.pulses.of(&lease_of(name)).await } else { None };
        Ok(Some(Observed { node, lease, pulse, held, ghosts, turn, budgets, fresh, now }))
    }

    /// Waits until everything is from at least this revision.
    pub async fn catch_up(&self, revision: Revision, patience: Duration) -> Result<(), ReconcileError> {
        let all = async {
            self.nodes.at_least(revision).await?;
            self.leases.at_least(revision).await?;
            self.bindings.at_least(revision).await?;
            self.replicas.at_least(revision).await?;
            self.workloads.at_least(revision).await
        };
        match tokio::time::timeout(patience, all).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(ended)) => Err(ReconcileError::retry(ended)),
            Err(_) => Err(ReconcileError::retry("the caches are behind: nothing is given up by old views")),
        }
    }

    fn lease(&self, node: &str) -> Result<LeaseSeen, FieldProblem> {
        let Some(lease) = self.leases.read(&Key::new(SYSTEM, &lease_of(node)))? else {
            return Ok(LeaseSeen { hold: Hold::Never, revision: Revision::NONE });
        };
        let revision = lease.metadata.revision;
        Ok(LeaseSeen { hold: hold(lease.status.unwrap_or_default()), revision })
    }

    fn held(&self, node: &str, state: BindingState) -> Result<Vec<Held>, FieldProblem> {
        let found = self.bindings.find(BY_NODE, &format!("{node} {state:?}"));
        found.into_iter().map(|cached| self.with_replica(cached.read()?)).collect()
    }

    fn with_replica(&self, binding: Typed<Binding>) -> Result<Held, FieldProblem> {
        let key = Key::new(&binding.metadata.namespace, &binding.spec.replica);
        let replica = self.replicas.read(&key)?.filter(|it| it.metadata.uid == binding.spec.replica_uid);
        let replica = replica.map(|replica| ReplicaSeen {
            workload: Some(format!("{}/{}", replica.metadata.namespace, replica.spec.workload)),
            available: is_available(&replica),
            unknown_grace: Duration::from_secs(replica.spec.template.unknown_grace_seconds.into()),
            tolerations: replica.spec.template.placement.tolerations,
        });
        Ok(Held { binding, replica })
    }

    /// What the workloads on a node allow. Batches and workloads that are gone have no say.
    fn budgets(&self, held: &[Held]) -> Result<BTreeMap<String, Budget>, FieldProblem> {
        let workloads: BTreeSet<&String> =
            held.iter().filter_map(|held| held.replica.as_ref()?.workload.as_ref()).collect();
        let mut budgets = BTreeMap::new();
        for name in workloads {
            let (namespace, workload) = name.split_once('/').unwrap_or_default();
            let Some(found) = self.workloads.read(&Key::new(namespace, workload))? else { continue };
            if found.spec.batch.is_some() {
                continue;
            }
            let desired = found.spec.replicas;
            let missing_max = Budget::missing_max(&found.spec.rollout, desired);
            let mut budget = Budget { desired, missing_max, ..Budget::default() };
            for replica in self.replicas.find(BY_WORKLOAD, workload) {
                if replica.key().namespace() == namespace {
                    self.count(&replica.read()?, &mut budget)?;
                }
            }
            budgets.insert(name.clone(), budget);
        }
        Ok(budgets)
    }

    fn count(&self, replica: &Typed<Replica>, budget: &mut Budget) -> Result<(), FieldProblem> {
        let binding = self.bindings.read(&Key::new(&replica.metadata.namespace, &replica.metadata.name))?;
        let state = binding
            .filter(|it| it.spec.replica_uid == replica.metadata.uid)
            .map(|binding| binding.status.map(|status| status.state).unwrap_or_default());
        match state {
            Some(BindingState::ReleaseRequested) => budget.leaving += 1,
            Some(BindingState::Bound) if is_available(replica) => budget.available += 1,
            _ => {}
        }
        Ok(())
    }

    /// All nodes. Counted once for all who look at about the same time, unless they act upon it.
    async fn fleet(&self, fresh: bool) -> Arc<Fleet> {
        let mut last = self.fleet.lock().await;
        if let Some((_, fleet)) = last.as_ref().filter(|(at, _)| !fresh && at.elapsed() < COUNTED_FOR) {
            return fleet.clone();
        }
        let nodes = self.nodes.snapshot();
        let read = nodes.iter().filter_map(|node| node.read().ok());
        let fleet = Arc::new(Fleet::of(read.filter_map(|node| member(&node))));
        *last = Some((Instant::now(), fleet.clone()));
        fleet
    }
}

/// How long a count of the fleet is good enough to say whose turn it may be.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// For how long a node that came in the place of another one of its name looks for what that one had.
const NEW: Duration = Duration::from_secs(600);

fn is_new(node: &Typed<Node>, now: Timestamp) -> bool {
    now.since(node.metadata.created) < NEW
}

/// Taints that move replicas away.
fn evicts(node: &Typed<Node>) -> bool {
    node.spec.taints.iter().any(|taint| taint.effect == setpoint_types::kinds::TaintEffect::NoExecute)
}

fn is_available(replica: &Typed<Replica>) -> bool {
    let stage = replica.status.as_ref().map(|status| status.stage).unwrap_or_default();
    !replica.metadata.is_terminating() && matches!(stage, Stage::Ready | Stage::Serving)
}

fn hold(status: LeaseStatus) -> Hold {
    if !status.holder.is_empty() {
        let ttl = Duration::from_secs(status.ttl_seconds.into());
        return Hold::Held { epoch: status.epoch, ttl };
    }
    match status.released {
        Some(at) => Hold::Ended { at },
        None => Hold::Never,
    }
}

/// What counts of a node in the fleet. What was never heard, or was put out of service on purpose, is no sign of anything.
fn member(node: &Typed<Node>) -> Option<Member> {
    let conditions: &[Condition] =
        node.status.as_ref().map(|it| it.conditions.as_slice()).unwrap_or_default();
    let reachable = find_condition(conditions, REACHABLE)?;
    if node.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE) {
        return None;
    }
    let lost = find_condition(conditions, LOST).filter(|it| it.status == ConditionStatus::True);
    let state = match (reachable.status, lost) {
        (ConditionStatus::True, _) => MemberState::Heard,
        (ConditionStatus::False, Some(lost)) => MemberState::GivenUp { at: lost.last_transition },
        (ConditionStatus::False, None) => MemberState::Silent { since: reachable.last_transition },
        (ConditionStatus::Unknown, _) if reachable.reason == LATE => MemberState::Late,
        (ConditionStatus::Unknown, _) => return None,
    };
    Some(Member { name: node.metadata.name.clone(), zone: node.spec.zone.clone(), state })
}
