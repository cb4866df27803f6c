//! Doing what the plan of a batch says. Nothing is decided here.
//!
//! Every write is on condition that the workload is as it was seen: what was decided for another spec, and comes late, is refused.

use setpoint_client::{Transaction, Typed, WriteOptions};
use setpoint_runtime::ensure::{Deletion, ensure_deleted, ensure_status};
use setpoint_runtime::{Action, ReconcileError, Run};
use setpoint_types::ObjectKey;
use setpoint_types::kinds::{DeadlineState, LastAction, Replica, Workload};
use setpoint_types::object::ObjectReference;

use super::observe::Observed;
use super::plan::{NewAttempt, Plan, spec_of};
use crate::report;

/// Replicas that one transaction makes or deletes: enough to share its cost, few enough to be sent again.
const PER_WRITE: usize = 32;

pub(super) async fn execute(run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
    let api = run.client().api::<Workload>().namespace(run.key().namespace());
    if plan.expire {
        ensure_deleted(&api, &observed.workload, Deletion { unchanged: true, ..Deletion::default() }).await?;
        return Ok(Action::Done);
    }
    let mut status = plan.status.clone();
    let acted = act(run, observed, &plan).await;
    match &acted {
        Ok(Some(action)) => status.last_action = Some(action.clone()),
        Ok(None) => {}
        Err(ReconcileError::NotHolder) => return Err(ReconcileError::NotHolder),
        Err(error) => report::note(&mut status.last_error, error, run.now()),
    }
    let wanted = Typed { status: Some(status), ..observed.workload.clone() };
    let told = ensure_status(&api, &observed.workload, wanted).await;
    acted?;
    told?;
    Ok(plan.again_after.map_or(Action::Done, Action::RequeueAfter))
}

async fn act(run: &Run, observed: &Observed, plan: &Plan) -> Result<Option<LastAction>, ReconcileError> {
    let mut last = None;
    for chunk in plan.create.chunks(PER_WRITE) {
        let write =
            chunk.iter().fold(guarded(run, observed), |write, new| write.create(&made(observed, plan, new)));
        let done = write.commit(&WriteOptions::default()).await?;
        last = Some(report::action(run, "EnsureReplica", reference(run, &chunk[0].name), done.revision));
    }
    for chunk in plan.delete.chunks(PER_WRITE) {
        let write = chunk.iter().fold(guarded(run, observed), |write, name| {
            let Some(seen) = observed.replicas.iter().find(|it| it.name == *name) else { return write };
            write.delete(&ObjectKey::new("Replica", run.key().namespace(), name), Some(&seen.uid), None)
        });
        let done = write.commit(&WriteOptions::default()).await?;
        last = Some(report::action(run, "EnsureDeleted", reference(run, &chunk[0]), done.revision));
    }
    Ok(last)
}

fn guarded(run: &Run, observed: &Observed) -> Transaction {
    run.client().transaction().if_at(&observed.workload.key(), observed.workload.metadata.revision)
}

fn made(observed: &Observed, plan: &Plan, new: &NewAttempt) -> Typed<Replica> {
    let workload = &observed.workload;
    let deadline = plan.status.deadline.as_ref().filter(|it| it.state == DeadlineState::Running);
    let spec = spec_of(observed, new, deadline.map(|it| it.time));
    let mut replica =
        Typed::<Replica>::new(new.name.clone(), spec).in_namespace(workload.metadata.namespace.clone());
    replica.metadata.labels.clone_from(&workload.spec.template.labels);
    replica.metadata.annotations.clone_from(&workload.spec.template.annotations);
    replica.metadata.owners.push(workload.as_controller());
    replica
}

fn reference(run: &Run, name: &str) -> ObjectReference {
    let namespace = run.key().namespace().to_owned();
    ObjectReference {
        kind: "Replica".to_owned(),
        namespace,
        name: name.to_owned(),
        ..ObjectReference::default()
    }
}
