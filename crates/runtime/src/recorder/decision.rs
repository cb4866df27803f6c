//! Decisions: why a component did what it did, or did nothing.
//!
//! One that has an effect is committed with it ([`Draft::into_transaction`]): the record is there exactly if the effect is. One that
//! has none is told to the recorder, which counts equal ones into one record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{Client, OperationId, Transaction, Typed, WriteOptions};
use setpoint_types::kinds::{
    Cause, Decision, DecisionSpec, DecisionStatus, DetailLevel, FilterCount, NearestMiss, NodeScore, Outcome,
    PendingReason, QuotaVerdict, SearchScope, TopologyVerdict, Verdict, Victim, WakeCondition,
};
use setpoint_types::object::{Evidence, ObjectReference};
use setpoint_types::{Epoch, Generation, Revision, Timestamp};

use super::detail::Detail;
use super::event::home;
use super::tally::{Delta, Tallied, Told, Topic, class_of, record_name};
use crate::conditions::cut;
use crate::trace::TraceContext;

/// What the kind's schema allows.
const MESSAGE_BYTES_MAX: usize = 1024;

/// What is known before anything is decided: what a run is about, and on which grounds. **Guarantees**: where they come from
/// [`crate::Run::grounds`], the revisions are those the caches had at that moment. **Does not promise** that `cause` is the only change
/// that led to the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Grounds {
    pub object: ObjectReference,
    pub generation: Generation,
    pub cause: Option<Cause>,
    pub queue_wait: Duration,
    pub attempt: u32,
    pub component: Arc<str>,
    pub epoch: Epoch,
    /// Up to which revision each kind had been seen.
    pub cache_revisions: BTreeMap<String, Revision>,
    pub policy_version: String,
    pub trace: Option<TraceContext>,
    pub now: Timestamp,
}

impl Grounds {
    /// A decision on something: "Place", "Scale".
    pub fn decide(&self, action: impl Into<String>) -> Draft {
        let spec = DecisionSpec {
            object: self.object.clone(),
            generation: self.generation,
            action: action.into(),
            cause: self.cause.clone(),
            queue_wait_ms: u64::try_from(self.queue_wait.as_millis()).unwrap_or(u64::MAX),
            attempt: self.attempt,
            component: self.component.to_string(),
            epoch: self.epoch,
            cache_revisions: self.cache_revisions.clone(),
            policy_version: self.policy_version.clone(),
            trace: self.trace.map_or_else(String::new, |trace| trace.trace.to_string()),
            time: self.now,
            ..DecisionSpec::default()
        };
        Draft { spec }
    }
}

/// A decision that is being written down. Lists keep their first entries, as many as the kind allows.
///
/// **Guarantees**: [`Draft::into_transaction`] records it if and only if its effect is done. **Does not promise** that one that is only told is
/// ever stored: a process may end before.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing is recorded before it is told, or committed"]
pub struct Draft {
    spec: DecisionSpec,
}

/// A transaction with its decision in it. **Guarantees**: the record is there exactly if the effect is, at the same revision.
/// **Assumes** that it is committed with `options`.
#[must_use = "nothing happens before it is committed"]
pub struct WithDecision {
    pub transaction: Transaction,
    /// To commit it with: they carry the operation id that the decision names.
    pub options: WriteOptions,
    /// The decision's, for an event about the same.
    pub name: String,
}

impl Draft {
    /// How many nodes were looked at.
    pub fn search(mut self, search: SearchScope) -> Self {
        self.spec.search = Some(search);
        self
    }

    pub fn filter(mut self, filter: FilterCount) -> Self {
        push(&mut self.spec.filters, filter, 64);
        self
    }

    pub fn nearest_miss(mut self, miss: NearestMiss) -> Self {
        push(&mut self.spec.nearest_misses, miss, 8);
        self
    }

    pub fn score(mut self, score: NodeScore) -> Self {
        push(&mut self.spec.scores, score, 8);
        self
    }

    pub fn quota(mut self, quota: QuotaVerdict) -> Self {
        push(&mut self.spec.quota, quota, 16);
        self
    }

    pub fn topology(mut self, topology: TopologyVerdict) -> Self {
        push(&mut self.spec.topology, topology, 8);
        self
    }

    pub fn victim(mut self, victim: Victim) -> Self {
        push(&mut self.spec.victims, victim, 256);
        self
    }

    pub fn evidence(mut self, evidence: Evidence) -> Self {
        push(&mut self.spec.evidence, evidence, 32);
        self
    }

    /// What it waits for before it is tried again.
    pub fn wake(mut self, wake: WakeCondition) -> Self {
        push(&mut self.spec.wake, wake, 16);
        self
    }

    /// It was not done, or not wholly: why.
    pub fn because(self, outcome: Outcome, reason: PendingReason, message: impl Into<String>) -> Self {
        let message = cut(message.into(), MESSAGE_BYTES_MAX);
        self.verdict(Verdict { outcome, reason: Some(reason), message, ..Verdict::default() })
    }

    pub fn verdict(mut self, verdict: Verdict) -> Self {
        self.spec.verdict = verdict;
        self
    }

    pub fn spec(&self) -> &DecisionSpec {
        &self.spec
    }

    /// Puts the decision into the transaction of its effect, as accepted unless it has a verdict: both are committed, or neither is.
    /// The revision of the record is the revision of the effect. Its name follows from an operation id drawn here, so that no two
    /// tries are in each other's way; commit with the options that come back.
    pub fn into_transaction(
        self,
        transaction: Transaction,
        client: &Client,
        detail: &Detail,
    ) -> WithDecision {
        let mut spec = self.spec;
        if spec.verdict == Verdict::default() {
            spec.verdict.outcome = Outcome::Accepted;
        }
        let operation = client.entropy().operation();
        spec.operation.clone_from(&operation);
        let spec = detail.cut_down(spec);
        let object = &spec.object;
        let name =
            record_name(&object.name, &[&spec.component, object.uid.as_str(), &spec.action, &operation]);
        let status = DecisionStatus {
            count: 1,
            first: spec.time,
            last: spec.time,
            cache_revisions: spec.cache_revisions.clone(),
            dropped: 0,
        };
        let namespace = home(object, detail.cluster_namespace());
        let mut record = Typed::<Decision>::new(&name, spec).in_namespace(namespace);
        record.status = Some(status);
        let transaction = transaction.create::<Decision>(&record).update_status::<Decision>(&record);
        let options = WriteOptions { operation: OperationId::Chosen(operation), ..WriteOptions::default() };
        WithDecision { transaction, options, name }
    }

    /// To be counted with its like: decisions about one generation of one object that came to the same for the same reason.
    pub(super) fn told(self, detail: &Detail) -> Told<Decision> {
        let spec = detail.cut_down(self.spec);
        let verdict = &spec.verdict;
        let reason = format!(
            "{} {:?} {:?} at {} under {:?}",
            spec.action, verdict.outcome, verdict.reason, spec.generation, spec.policy_version
        );
        let topic = Topic { component: spec.component.as_str().into(), object: spec.object.clone(), reason };
        let (class, namespace) = (class_of(&verdict.message), home(&spec.object, detail.cluster_namespace()));
        let (at, latest) = (spec.time, spec.cache_revisions.clone());
        Told { topic, class, namespace, spec, at, latest }
    }
}

/// Whether it came to nothing, or to nothing yet.
pub(super) fn is_failure(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Accepted | Outcome::Unchanged => false,
        Outcome::Rejected
        | Outcome::Unschedulable
        | Outcome::Undetermined
        | Outcome::Waiting
        | Outcome::Limited => true,
    }
}

fn push<T>(list: &mut Vec<T>, item: T, most: usize) {
    if list.len() < most {
        list.push(item);
    }
}

impl Tallied for Decision {
    /// Up to which revision each kind had been seen the last time.
    type Latest = BTreeMap<String, Revision>;

    fn add(status: &mut DecisionStatus, delta: &Delta<Self::Latest>) {
        if delta.count > 0 {
            status.first = if status.count == 0 { delta.first } else { status.first.min(delta.first) };
            status.last = status.last.max(delta.last);
        }
        status.count += delta.count;
        status.dropped += delta.dropped;
        if let Some(latest) = &delta.latest {
            status.cache_revisions.clone_from(latest);
        }
    }

    fn together(mut spec: DecisionSpec) -> DecisionSpec {
        let message = format!("several messages, such as: {}", spec.verdict.message);
        spec.verdict.message = cut(message, MESSAGE_BYTES_MAX);
        DecisionSpec { detail: DetailLevel::Counts, ..spec }
    }
}
