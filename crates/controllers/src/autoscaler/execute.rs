//! Carries out what was planned for an autoscaler: the number, what is shown and why, at one revision.

use setpoint_client::{Error, Typed};
use setpoint_runtime::ensure::{Ignored, ensure_status_ignoring};
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Autoscaler, AutoscalerStatus, Outcome, Verdict};
use setpoint_types::object::Object;

use super::observe::Views;
use super::plan::{Observed, Plan, Scale, inactive, plan, taken};
use super::settings::AutoscalerSettings;

/// What is shown with the next change, and is no reason to write.
const QUIET: [Ignored; 3] =
    [Ignored("metrics[].timeMs"), Ignored("metrics[].value"), Ignored("observedRevision")];

/// Keeps the number of replicas by what is measured.
pub struct Scaler {
    pub(super) views: Views,
    pub(super) settings: AutoscalerSettings,
    pub(super) detail: Detail,
}

impl Reconciler for Scaler {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.views.observe(run.client(), run.key(), run.now()).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        if let Some((reason, message)) = &plan.kept_by {
            let draft = run.grounds().decide("Scale").because(Outcome::Limited, *reason, message.clone());
            run.decision(draft).await;
        }
        match plan.scale {
            None => show(run, observed, plan.status).await?,
            Some(scale) => match self.scale(run, observed, scale, plan.status).await {
                // Somebody else decides the number since the cache last looked.
                Err(error) if is_taken(&error).is_some() => {
                    let other = is_taken(&error).unwrap_or_default();
                    show(run, observed, inactive(observed, taken(&other))).await?;
                }
                done => done?,
            },
        }
        Ok(Action::RequeueAfter(self.settings.period()))
    }
}

impl Scaler {
    /// The number is this manager's field, and nobody's is taken by force.
    async fn scale(
        &self,
        run: &Run,
        observed: &Observed,
        scale: Scale,
        status: AutoscalerStatus,
    ) -> Result<(), Error> {
        let seen = &observed.autoscaler;
        let target = &seen.spec.target;
        let mut wanted = Object::new(&target.kind, &seen.metadata.namespace, &target.name);
        wanted.metadata.uid = observed.target.as_ref().map(|target| target.uid.clone()).unwrap_or_default();
        wanted.spec = serde_json::json!({"replicas": scale.to});
        let shown = Typed { status: Some(status), ..seen.clone() };
        let transaction = run.client().transaction();
        let transaction =
            transaction.apply_dynamic(&wanted, false, false).update_status::<Autoscaler>(&shown);
        let draft =
            scale.evidence.into_iter().fold(run.grounds().decide("Scale"), |draft, it| draft.evidence(it));
        let verdict = Verdict { outcome: Outcome::Accepted, message: scale.message, ..Verdict::default() };
        let decided = draft.verdict(verdict).into_transaction(transaction, run.client(), &self.detail);
        decided.transaction.commit(&decided.options).await.map(drop)
    }
}

async fn show(run: &Run, observed: &Observed, status: AutoscalerStatus) -> Result<(), ReconcileError> {
    let seen = &observed.autoscaler;
    let api = run.client().api::<Autoscaler>().namespace(run.key().namespace());
    let wanted = Typed { status: Some(status), ..seen.clone() };
    ensure_status_ignoring(&api, seen, wanted, &QUIET).await?;
    Ok(())
}

/// Who has the field, if that is what was refused.
fn is_taken(error: &Error) -> Option<String> {
    let conflicts = error.refusal()?.conflicts;
    conflicts.into_iter().next().map(|conflict| conflict.manager)
}
