//! The quota controller: shows what of a quota is used, and checks that it is what the bindings say.
//!
//! | file | what |
//! |---|---|
//! | `audit` | the sum over bindings, and where a ledger says something else; pure |
//! | `plan` | what a quota shows; pure |
//! | `observe`, `execute` | ledgers and caches; carrying it out |
//!
//! Not here: enforcing it. That is the ledgers', in the commit of every bind. docs/controllers/quota.md is the page for people.

pub mod audit;
mod execute;
mod observe;
pub mod plan;
pub mod settings;

pub use execute::QuotaKeeper;
use observe::Views;
use prometheus_client::metrics::counter::Counter;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Controller, Manager, Predicate};
use setpoint_types::kinds::{Binding, Quota};

use crate::registry::BuildError;
use crate::settings::Settings;

/// The controller's name: that of its lease, and of the manager of every field it writes.
pub const NAME: &str = "quota";

/// What it looks at. Only quotas wake it: their use is looked at now and then, however much is bound meanwhile.
pub fn controller(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let knobs = settings.quota.clone();
    if let Some(problem) = knobs.problems().into_iter().next() {
        return Err(BuildError { problem });
    }
    let quotas = manager.informers().cache::<Quota>(Selection::everywhere());
    let bindings = manager.informers().cache::<Binding>(Selection::everywhere());
    let (audits, deviations) = (Counter::default(), Counter::default());
    manager.register(|registry| {
        let help = "Comparisons of a quota's ledgers with the bindings of its namespace";
        registry.register("quota_audits", help, audits.clone());
        registry.register("quota_deviations", "Those that found a difference", deviations.clone());
    });
    let views = Views { quotas: quotas.clone(), bindings };
    let keeper = QuotaKeeper { views, settings: knobs, audits, deviations };
    Ok(Controller::new(NAME, keeper).for_kind(&quotas).only_if(Predicate::generation_changed()))
}
