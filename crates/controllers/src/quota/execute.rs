//! Shows what was planned for a quota, and counts what deviates.

use prometheus_client::metrics::counter::Counter;
use setpoint_client::Typed;
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::recorder::Note;
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::Quota;

use super::observe::Views;
use super::plan::{Observed, Plan, plan};
use super::settings::QuotaSettings;

/// Shows the use of quotas.
pub struct QuotaKeeper {
    pub(super) views: Views,
    pub(super) settings: QuotaSettings,
    /// Audits, and those that found a deviation.
    pub(super) audits: Counter,
    pub(super) deviations: Counter,
}

impl Reconciler for QuotaKeeper {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.views.observe(run.client(), run.key(), run.now(), &self.settings).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let seen = &observed.quota;
        if let Some(deviations) = plan.deviations {
            self.audits.inc();
            if deviations > 0 {
                self.deviations.inc();
                let message = format!("{deviations} amounts of its ledgers are not those of its bindings");
                run.event(Note::warning(run.reference(), "QuotaDeviates").message(message)).await;
            }
        }
        let api = run.client().api::<Quota>().namespace(run.key().namespace());
        ensure_status(&api, seen, Typed { status: Some(plan.status), ..seen.clone() }).await?;
        Ok(Action::RequeueAfter(self.settings.show_every()))
    }
}
