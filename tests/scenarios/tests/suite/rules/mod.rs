//! What holds at every revision of every scenario, found by folding its whole history (docs/INVARIANTS.md, "Histories").
//!
//! | file | what |
//! |---|---|
//! | `leases` | F1, F2: one holder per epoch, and no write of a deposed one |
//! | `bindings` | F3, F7: a replica is bound once, a loss is made good once and after its release |
//! | `books` | F4, F5: ledgers are what bindings say, and no bind takes more than there is |
//! | `generations` | F10: what statuses tell of exists, and does not go back |
//! | `operations` | F11: an operation id is one revision |
//! | `sight` | F12: who decides has not seen less than it had |
//! | `workloads` | F14 (K1), K2 to K4: limits of rollouts, replacements |
//! | `rest` | F9: what is left when everything is quiet |
//! | `planted` | each of these caught at a history that breaks it |
//!
//! F6 is checked by a witness (`fleet/witness.rs`), F8 by every scenario's end, F13 by `tests/cluster`.

mod bindings;
mod books;
mod generations;
mod leases;
mod operations;
mod planted;
mod rest;
mod sight;
mod workloads;

pub use rest::nothing_is_left;
use setpoint_testkit::{Change, Entry, History, Moment, Scenario, State, Violation};
pub use workloads::{generations_are_true, is_controllers, limits_hold, lives, one_replacement, serves};

/// One invariant, told every revision in order.
trait Rule {
    /// Its number, and what it says.
    fn name(&self) -> &'static str;

    /// One revision, and all that is there after it.
    fn see(&mut self, entry: &Entry, after: &State) -> Result<(), String>;
}

fn rules() -> Vec<Box<dyn Rule>> {
    vec![
        Box::<leases::OneHolder>::default(),
        Box::<leases::NoStaleWrite>::default(),
        Box::<bindings::BoundOnce>::default(),
        Box::<bindings::ReleasedFirst>::default(),
        Box::<books::AsBindings>::default(),
        Box::<books::WithinLimits>::default(),
        Box::<generations::Generations>::default(),
        Box::<operations::OneRevision>::default(),
        Box::<sight::NoTimeTravel>::default(),
        Box::<Workloads>::default(),
    ]
}

/// All of them, over a whole history.
pub fn audit(history: &History) -> Result<(), Violation> {
    let mut rules = rules();
    let mut state = State::default();
    for entry in history.entries() {
        state.apply(entry);
        for rule in &mut rules {
            rule.see(entry, &state).map_err(|why| Violation {
                invariant: rule.name().to_owned(),
                revision: entry.revision,
                why,
            })?;
        }
    }
    Ok(())
}

/// A scenario in which all of them hold.
pub fn watched(scenario: Scenario) -> Scenario {
    scenario.audit(audit)
}

/// What the rules of workloads say of one revision; they need to look at all of it, but only where replicas change.
#[derive(Default)]
struct Workloads;

impl Rule for Workloads {
    fn name(&self) -> &'static str {
        "F14: limits of rollouts (K1, K2)"
    }

    fn see(&mut self, entry: &Entry, after: &State) -> Result<(), String> {
        let is_replica = |change: &Change| change.key.kind == "Replica";
        if !entry.changes.iter().any(is_replica) {
            return Ok(());
        }
        let moment = Moment { changes: entry.changes.clone(), state: after.clone() };
        limits_hold(&moment)?;
        one_replacement(&moment)
    }
}
