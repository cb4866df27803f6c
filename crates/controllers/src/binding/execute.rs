//! Doing what the plan of a binding says. Nothing is decided here.

use std::time::Duration;

use serde_json::json;
use setpoint_client::{BindingReference, Patch, PatchOptions, ReleaseReason, Typed};
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::recorder::Note;
use setpoint_runtime::{Action, ReconcileError, Run};
use setpoint_types::kinds::{Binding, Replica};

use super::observe::Observed;
use super::plan::{LOOK_AGAIN, Plan, Step};

pub(super) async fn execute(run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
    let namespace = run.key().namespace();
    match (plan.step, &observed.binding, &observed.replica) {
        (Step::RequestRelease { status }, Some(binding), _) => {
            let message = status.message.clone();
            let api = run.client().api::<Binding>().namespace(namespace);
            let wanted = Typed { status: Some(*status), ..binding.clone() };
            ensure_status(&api, binding, wanted).await?;
            let note = Note::warning(run.reference(), "ReleaseRequested");
            run.event(note.message(format!("node {}: {message}", binding.spec.node))).await;
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
