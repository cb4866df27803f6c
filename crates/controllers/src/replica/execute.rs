//! Doing what the plan of a ReplicaSet says. Nothing is decided here.
//!
//! Every write is on condition that the set is as it was seen: what was decided for another number, and comes late, is refused. New
//! ones are made many at a time; each of those that go, on its own, because any of them may have changed.

use futures::stream::{self, StreamExt};
use setpoint_client::{Transaction, Typed, WriteOptions};
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::recorder::{Detail, Draft, Note, WithDecision};
use setpoint_runtime::{Action, ReconcileError, Run};
use setpoint_types::kinds::{LastAction, Outcome, Replica, ReplicaSet, Verdict};
use setpoint_types::object::{Evidence, ObjectReference};
use setpoint_types::{ObjectKey, Revision};

use super::observe::Observed;
use super::plan::{NewReplica, Plan, Replacement, spec_of};
use crate::facts::ReplicaFacts;
use crate::report;

/// Replicas that one transaction makes: enough to share its cost, few enough to be sent again.
const CREATES_PER_WRITE: usize = 32;
/// Transactions at a time.
const CONCURRENCY: usize = 8;

pub(super) async fn execute(
    run: &Run,
    observed: &Observed,
    plan: Plan,
    detail: &Detail,
) -> Result<Action, ReconcileError> {
    let mut status = plan.status.clone();
    let acted = act(run, observed, &plan, detail).await;
    match &acted {
        Ok(Some(action)) => status.last_action = Some(action.clone()),
        Ok(None) => {}
        Err(ReconcileError::NotHolder) => return Err(ReconcileError::NotHolder),
        Err(error) => report::note(&mut status.last_error, error, run.now()),
    }
    let api = run.client().api::<ReplicaSet>().namespace(run.key().namespace());
    let wanted = Typed { status: Some(status), ..observed.set.clone() };
    let told = ensure_status(&api, &observed.set, wanted).await;
    acted?;
    told?;
    Ok(plan.again_after.map_or(Action::Done, Action::RequeueAfter))
}

/// One write, and how it is told.
struct Deed {
    verb: &'static str,
    about: String,
    transaction: Transaction,
    options: WriteOptions,
}

impl Deed {
    async fn commit(self) -> Result<(&'static str, String, Revision), ReconcileError> {
        let done = self.transaction.commit(&self.options).await?;
        Ok((self.verb, self.about, done.revision))
    }
}

/// All of it; of what failed the first, of what was done the last.
async fn act(
    run: &Run,
    observed: &Observed,
    plan: &Plan,
    detail: &Detail,
) -> Result<Option<LastAction>, ReconcileError> {
    let deeds = deeds(run, observed, plan, detail);
    let mut writes = stream::iter(deeds.into_iter().map(Deed::commit)).buffer_unordered(CONCURRENCY);
    let (mut last, mut failed) = (None, None);
    while let Some(written) = writes.next().await {
        match written {
            Ok(done) => last = Some(done),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    for replaced in &plan.replace {
        if failed.is_none() {
            let message = format!("{} replaces {}, which was lost", replaced.new.name, replaced.lost);
            run.event(Note::warning(run.reference(), "Replaced").message(message)).await;
        }
    }
    let told = last.map(|(verb, name, revision)| report::action(run, verb, reference(run, name), revision));
    failed.map_or(Ok(told), Err)
}

fn deeds(run: &Run, observed: &Observed, plan: &Plan, detail: &Detail) -> Vec<Deed> {
    let begin = || guarded(run, observed);
    let mut deeds = Vec::new();
    for chunk in plan.create.chunks(CREATES_PER_WRITE) {
        let transaction = chunk.iter().fold(begin(), |write, new| write.create(&made(observed, new)));
        let options = WriteOptions::default();
        deeds.push(Deed { verb: "EnsureReplica", about: chunk[0].name.clone(), transaction, options });
    }
    for replaced in &plan.replace {
        let transaction = begin().create(&made(observed, &replaced.new));
        let transaction = delete(transaction, run, observed, &replaced.lost, false);
        let WithDecision { transaction, options, .. } =
            replacement(run, observed, replaced).into_transaction(transaction, run.client(), detail);
        let about = replaced.new.name.clone();
        deeds.push(Deed { verb: "EnsureReplacement", about, transaction, options });
    }
    for doomed in &plan.delete {
        let transaction = delete(begin(), run, observed, &doomed.name, doomed.unchanged);
        let options = WriteOptions::default();
        deeds.push(Deed { verb: "EnsureDeleted", about: doomed.name.clone(), transaction, options });
    }
    deeds
}

/// Why a loss is made good: what was seen of it.
fn replacement(run: &Run, observed: &Observed, replaced: &Replacement) -> Draft {
    let message = format!("{} makes good {}", replaced.new.name, replaced.lost);
    let verdict = Verdict { outcome: Outcome::Accepted, message, ..Verdict::default() };
    let draft = run.grounds().decide("Replace").verdict(verdict);
    let Some(lost) = observed.replicas.iter().find(|it| it.name == replaced.lost) else { return draft };
    draft.evidence(Evidence {
        signal: "replica".to_owned(),
        value: format!("{:?} on {:?}", lost.status.stage, lost.status.node),
        time: run.now(),
        revision: lost.revision,
    })
}

fn guarded(run: &Run, observed: &Observed) -> Transaction {
    run.client().transaction().if_at(&observed.set.key(), observed.set.metadata.revision)
}

fn delete(write: Transaction, run: &Run, observed: &Observed, name: &str, unchanged: bool) -> Transaction {
    let Some(seen) = observed.replicas.iter().find(|it| it.name == name) else { return write };
    let ReplicaFacts { uid, revision, .. } = seen;
    let key = ObjectKey::new("Replica", run.key().namespace(), name);
    write.delete(&key, Some(uid), unchanged.then_some(*revision))
}

fn made(observed: &Observed, new: &NewReplica) -> Typed<Replica> {
    let set = &observed.set;
    let mut replica = Typed::<Replica>::new(new.name.clone(), spec_of(observed, new))
        .in_namespace(set.metadata.namespace.clone());
    replica.metadata.labels.clone_from(&set.spec.template.labels);
    replica.metadata.annotations.clone_from(&set.spec.template.annotations);
    replica.metadata.owners.push(set.as_controller());
    replica
}

fn reference(run: &Run, name: String) -> ObjectReference {
    let namespace = run.key().namespace().to_owned();
    ObjectReference { kind: "Replica".to_owned(), namespace, name, ..ObjectReference::default() }
}
