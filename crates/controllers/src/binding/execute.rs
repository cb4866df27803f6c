//! Doing what the plan of a binding says. Nothing is decided here.

use std::time::Duration;

use serde_json::json;
use setpoint_client::{BindingReference, Patch, PatchOptions, ReleaseReason, Typed};
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::recorder::{Detail, Draft, Note};
use setpoint_runtime::{Action, ReconcileError, Run};
use setpoint_types::kinds::{Binding, BindingStatus, Outcome, Replica, Verdict};

use super::observe::Observed;
use super::plan::{LOOK_AGAIN, Plan, Step};

pub(super) async fn execute(
    run: &Run,
    observed: &Observed,
    plan: Plan,
    detail: &Detail,
) -> Result<Action, ReconcileError> {
    let namespace = run.key().namespace();
    match (plan.step, &observed.binding, &observed.replica) {
        (Step::RequestRelease { status }, Some(binding), _) => {
            request(run, binding, *status, detail).await?;
            Ok(Action::Done)
        }
        (Step::Release, Some(binding), _) => release(run, binding).await,
        (Step::FreeReplica { finalizer }, _, Some(replica)) => {
            let api = run.client().api::<Replica>().namespace(namespace);
            let found = api.get(&replica.name).await?;
            let left: Vec<&String> =
                found.metadata.finalizers.iter().filter(|it| **it != finalizer).collect();
            let patch = Patch::Merge(json!({"metadata": {"finalizers": left}}));
            let of_this = PatchOptions {
                uid: Some(replica.uid.clone()),
                revision: Some(found.metadata.revision),
                ..PatchOptions::default()
            };
            api.patch(&replica.name, &patch, &of_this).await?;
            Ok(Action::Done)
        }
        _ => Ok(plan.again_after.map_or(Action::Done, Action::RequeueAfter)),
    }
}

/// That the node is to be given back, and why, at one revision; only while the binding is as it was seen.
async fn request(
    run: &Run,
    binding: &Typed<Binding>,
    status: BindingStatus,
    detail: &Detail,
) -> Result<(), ReconcileError> {
    let message = format!("node {}: {}", binding.spec.node, status.message);
    let node = binding.spec.node.clone();
    let verdict =
        Verdict { outcome: Outcome::Accepted, message: message.clone(), node, ..Verdict::default() };
    let draft = run.grounds().decide("Release").verdict(verdict);
    let draft = status.evidence.iter().cloned().fold(draft, Draft::evidence);
    let wanted = Typed { status: Some(status), ..binding.clone() };
    let transaction = run.client().transaction().update_status::<Binding>(&wanted);
    let decided = draft.into_transaction(transaction, run.client(), detail);
    match decided.transaction.commit(&decided.options).await {
        // In a namespace that goes no record can be made, and it must be released all the same.
        Err(error) if error.is_conflict() => {
            let api = run.client().api::<Binding>().namespace(run.key().namespace());
            ensure_status(&api, binding, wanted).await?;
        }
        done => drop(done?),
    }
    let note = Note::warning(run.reference(), "ReleaseRequested").message(message);
    run.event(note.decision(decided.name)).await;
    Ok(())
}

/// The server knows when it is safe, and says how long to wait if it is not.
async fn release(run: &Run, binding: &Typed<Binding>) -> Result<Action, ReconcileError> {
    let reference = BindingReference {
        namespace: binding.metadata.namespace.clone(),
        binding: binding.metadata.name.clone(),
        uid: binding.metadata.uid.clone(),
    };
    let results = run.client().placement().release(&[reference]).await?;
    let refused = match results.into_iter().next() {
        None | Some(Ok(_)) => return Ok(Action::Done),
        Some(Err(refused)) => refused,
    };
    match refused.reason {
        ReleaseReason::BindingGone => Ok(Action::Done),
        ReleaseReason::Fenced => Err(ReconcileError::NotHolder),
        ReleaseReason::MayStillRun => Ok(Action::RequeueAfter(refused.wait.max(Duration::from_millis(100)))),
        ReleaseReason::NotStopped | ReleaseReason::StillHeld => Ok(Action::RequeueAfter(LOOK_AGAIN)),
        ReleaseReason::Invalid => Err(ReconcileError::terminal("NotReleased", refused.message)),
        _ => Err(ReconcileError::retry(refused.message)),
    }
}
