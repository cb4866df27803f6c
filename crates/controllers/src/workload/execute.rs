//! Doing what the plan of a workload says. Nothing is decided here.
//!
//! Numbers of all sets change in one transaction, on condition that the workload and every set are as they were seen: what was decided
//! for other numbers, and comes late, is refused.

use setpoint_client::{Committed, Typed, WriteOptions};
use setpoint_runtime::ensure::{Adopt, Deletion, Owner, ensure_child, ensure_deleted, ensure_status};
use setpoint_runtime::recorder::{Detail, Draft, Note};
use setpoint_runtime::{Action, ReconcileError, Run};
use setpoint_types::Revision;
use setpoint_types::kinds::{
    LastAction, Outcome, ReplicaSet, RolloutPhase, RolloutStatus, Verdict, Workload,
};
use setpoint_types::object::ObjectReference;

use super::observe::Observed;
use super::plan::{ChangedSet, NewSet, Plan};
use crate::report;

/// Sets that a decision names: there are rarely more than two, and names are long.
const NAMED_MAX: usize = 3;

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
        Err(error) => report::note(&mut status.last_error, error, run.now()),
    }
    if matches!(acted, Err(ReconcileError::NotHolder)) {
        return Err(ReconcileError::NotHolder);
    }
    let api = run.client().api::<Workload>().namespace(run.key().namespace());
    let rollout = status.rollout.clone();
    let wanted = Typed { status: Some(status), ..observed.workload.clone() };
    let told = ensure_status(&api, &observed.workload, wanted).await;
    acted?;
    told?;
    tell(run, observed, &rollout).await;
    Ok(plan.again_after.map_or(Action::Done, Action::RequeueAfter))
}

/// Tells people of a rollout that has come to another phase.
async fn tell(run: &Run, observed: &Observed, rollout: &RolloutStatus) {
    let before = observed.workload.status.as_ref().map(|status| status.rollout.phase);
    if before == Some(rollout.phase) {
        return;
    }
    let reason = format!("Rollout{:?}", rollout.phase);
    let note = match rollout.phase {
        RolloutPhase::Stuck | RolloutPhase::RollingBack | RolloutPhase::RolledBack => {
            Note::warning(run.reference(), reason)
        }
        _ => Note::normal(run.reference(), reason),
    };
    run.event(note.message(rollout.message.clone())).await;
}

/// Everything but the status; what was done last.
async fn act(
    run: &Run,
    observed: &Observed,
    plan: &Plan,
    detail: &Detail,
) -> Result<Option<LastAction>, ReconcileError> {
    let mut last = None;
    if let Some(new) = &plan.create {
        last = Some(create(run, observed, new).await?);
    }
    if !plan.change.is_empty() {
        last = Some(change(run, observed, plan, detail).await?);
    }
    let sets = run.client().api::<ReplicaSet>().namespace(run.key().namespace());
    for set in observed.sets.iter().filter(|set| plan.forget.contains(&set.metadata.name)) {
        let unchanged = Deletion { unchanged: true, ..Deletion::default() };
        ensure_deleted(&sets, set, unchanged).await?;
        last = Some(done(run, "ForgetRevision", set_reference(set), Revision::NONE));
    }
    Ok(last)
}

async fn create(run: &Run, observed: &Observed, new: &NewSet) -> Result<LastAction, ReconcileError> {
    let sets = run.client().api::<ReplicaSet>().namespace(run.key().namespace());
    let wanted =
        Typed::<ReplicaSet>::new(new.name.clone(), new.spec.clone()).in_namespace(run.key().namespace());
    let owner = Owner::of(&observed.workload);
    // Nobody else makes sets of such names; one that was orphaned with its workload is gone on with, if it is the same.
    let made = ensure_child(&sets, &owner, None, wanted, &Adopt::Always).await?;
    let object = ObjectReference {
        kind: "ReplicaSet".to_owned(),
        namespace: run.key().namespace().to_owned(),
        name: new.name.clone(),
        uid: made.object.map(|set| set.metadata.uid).unwrap_or_default(),
    };
    Ok(done(run, "CreateRevision", object, made.revision))
}

/// The numbers of all sets, and why, at one revision.
async fn change(
    run: &Run,
    observed: &Observed,
    plan: &Plan,
    detail: &Detail,
) -> Result<LastAction, ReconcileError> {
    let changes = &plan.change;
    let workload = &observed.workload;
    let mut transaction = run.client().transaction().if_at(&workload.key(), workload.metadata.revision);
    let mut about = None;
    for set in &observed.sets {
        let Some(change) = changes.iter().find(|change| change.name == set.metadata.name) else {
            transaction = transaction.if_at(&set.key(), set.metadata.revision);
            continue;
        };
        let mut wanted = set.clone();
        wanted.spec.replicas = change.replicas;
        wanted.spec.workload_replicas = change.workload_replicas;
        wanted.spec.min_ready_seconds = change.min_ready_seconds;
        wanted.spec.deadline = change.deadline;
        // One that was read is replaced only if it is still at its revision.
        transaction = transaction.update(&wanted);
        about = Some((verb(change), set_reference(set)));
    }
    let Committed { revision, .. } = match decision(run, observed, plan) {
        Some(draft) => {
            let decided = draft.into_transaction(transaction, run.client(), detail);
            decided.transaction.commit(&decided.options).await?
        }
        None => transaction.commit(&WriteOptions::default()).await?,
    };
    let (verb, object) = about.unwrap_or_default();
    Ok(done(run, verb, object, revision))
}

/// What is decided about numbers, if any changes: one record for all sets.
fn decision(run: &Run, observed: &Observed, plan: &Plan) -> Option<Draft> {
    let changed = || plan.change.iter().filter(|it| it.from != it.replicas);
    changed().next()?;
    let is_used = |set: &&Typed<ReplicaSet>| {
        let next = plan.change.iter().find(|it| it.name == set.metadata.name).map(|it| it.replicas);
        set.spec.replicas > 0 || next.is_some_and(|next| next > 0)
    };
    let action = match plan.status.rollout.phase {
        RolloutPhase::RollingBack | RolloutPhase::RolledBack => "RollBack",
        _ if observed.sets.iter().filter(is_used).count() <= 1 => "Scale",
        _ => "RolloutStep",
    };
    let lines =
        changed().take(NAMED_MAX).map(|it| format!("{} from {} to {}", it.name, it.from, it.replicas));
    let message = lines.collect::<Vec<_>>().join(", ");
    let verdict = Verdict { outcome: Outcome::Accepted, message, ..Verdict::default() };
    Some(run.grounds().decide(action).verdict(verdict))
}

fn verb(change: &ChangedSet) -> &'static str {
    match change.replicas.cmp(&change.from) {
        std::cmp::Ordering::Less => "ScaleDown",
        std::cmp::Ordering::Equal => "Adjust",
        std::cmp::Ordering::Greater => "ScaleUp",
    }
}

fn set_reference(set: &Typed<ReplicaSet>) -> ObjectReference {
    let metadata = &set.metadata;
    ObjectReference {
        kind: "ReplicaSet".to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    }
}

fn done(run: &Run, action: &str, object: ObjectReference, revision: Revision) -> LastAction {
    report::action(run, action, object, revision)
}
