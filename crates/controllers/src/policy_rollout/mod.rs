//! The policy rollout: a new version of a placement policy gets its weight step by step, and loses it if its replicas fare worse.
//!
//! | file | what |
//! |---|---|
//! | `census` | how the replicas of a version fare, beside the rest |
//! | `gate` | whether that, and who has seen what, allows more weight |
//! | `plan` | wait, step, complete, or go back; pure, as the files above |
//! | `observe`, `execute` | caches and leases; carrying it out |
//!
//! Not here: placing by it (the scheduler). Bindings there are stay as they are, whatever becomes of the version they were made by.
//! docs/controllers/policy-rollout.md is the page for people.

pub mod census;
mod execute;
pub mod gate;
mod observe;
pub mod plan;
pub mod settings;

pub use execute::PolicyRollout;
use observe::Views;
use setpoint_runtime::cache::{Delta, Entry, Index};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Controller, Manager};
use setpoint_types::kinds::{Binding, Lease, PlacementPolicy, Replica};

use crate::registry::BuildError;
use crate::settings::Settings;

/// The controller's name: that of its lease, and of the manager of every field it writes.
pub const NAME: &str = "policy-rollout";
/// The index by which bindings are found that were made by a version.
const BY_VERSION: &str = "policy-version";
/// The index by which the versions of a policy are found.
const BY_POLICY: &str = "policy";

/// What it looks at, and what wakes which version.
pub fn controller(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let knobs = settings.policy_rollout.clone();
    if let Some(problem) = knobs.problems().into_iter().next() {
        return Err(BuildError { problem });
    }
    let informers = manager.informers();
    let policies = informers.cache::<PlacementPolicy>(Selection::everywhere());
    let bindings = informers.cache::<Binding>(Selection::everywhere());
    policies.add_index(Index::spec(BY_POLICY, "/policy"));
    bindings.add_index(Index::spec(BY_VERSION, "/policyVersion"));
    let views = Views {
        policies: policies.clone(),
        leases: informers.cache::<Lease>(Selection::everywhere()),
        replicas: informers.cache::<Replica>(Selection::everywhere()),
        bindings,
    };
    let rollout = PolicyRollout { views, settings: knobs, detail: Detail::new(&settings.recorder) };
    let versions = policies.clone();
    Ok(Controller::new(NAME, rollout)
        .for_kind(&policies)
        // Which version was before, and whether it still is, concerns the others.
        .watches(&policies, move |delta: &Delta, wake| {
            for policy in delta.states().filter_map(policy_of) {
                versions.find(BY_POLICY, &policy).iter().for_each(|version| wake(version.key().clone()));
            }
        }))
}

fn policy_of(entry: &Entry) -> Option<String> {
    Some(entry.read::<PlacementPolicy>().ok()?.spec.policy)
}
