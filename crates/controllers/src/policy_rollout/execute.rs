//! Carries out what was planned for a version of a policy. All versions of a step change at one revision, or none does.

use std::time::Duration;

use setpoint_client::Typed;
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::recorder::{Detail, Note};
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Outcome, PlacementPolicy, Verdict};

use super::observe::Views;
use super::plan::{Observed, Plan, Step, plan, stepped};
use super::settings::PolicyRolloutSettings;

/// Gives versions of policies more weight, step by step.
pub struct PolicyRollout {
    pub(super) views: Views,
    pub(super) settings: PolicyRolloutSettings,
    pub(super) detail: Detail,
}

impl Reconciler for PolicyRollout {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.views.observe(run.client(), run.key(), run.now()).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed, self.settings.period())
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let seen = &observed.policy;
        // Shown first: why a step was made outlives it.
        let api = run.client().api::<PlacementPolicy>();
        let shown = ensure_status(&api, seen, Typed { status: Some(plan.status), ..seen.clone() }).await?;
        if let Some((mut policy, others)) = stepped(observed, &plan.step) {
            policy.metadata.revision = shown.revision;
            self.step(run, &plan.step, &policy, &others).await?;
            return Ok(Action::Done);
        }
        let next = plan.next_ms.map(Duration::from_millis);
        Ok(next.map_or(Action::Done, Action::RequeueAfter))
    }
}

impl PolicyRollout {
    async fn step(
        &self,
        run: &Run,
        step: &Step,
        policy: &Typed<PlacementPolicy>,
        others: &[Typed<PlacementPolicy>],
    ) -> Result<(), ReconcileError> {
        let (action, message) = match step {
            Step::None => return Ok(()),
            Step::Raise { message, .. } => ("RolloutStep", message),
            Step::RollBack { message, .. } => ("RollBack", message),
        };
        let mut transaction = run.client().transaction().update::<PlacementPolicy>(policy);
        for other in others {
            transaction = transaction.update::<PlacementPolicy>(other);
        }
        let verdict = Verdict { outcome: Outcome::Accepted, message: message.clone(), ..Verdict::default() };
        let draft = run.grounds().decide(action).verdict(verdict);
        let decided = draft.into_transaction(transaction, run.client(), &self.detail);
        decided.transaction.commit(&decided.options).await?;
        let note = match step {
            Step::RollBack { .. } => Note::warning(run.reference(), action),
            _ => Note::normal(run.reference(), action),
        };
        run.event(note.message(message.clone()).decision(decided.name)).await;
        Ok(())
    }
}
