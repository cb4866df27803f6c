//! F4, F5: at every revision the ledgers are what bindings say that are not released, and no bind takes more than nodes and quotas have.
//!
//! Limits are taken from Nodes and Quotas themselves, not from the ledgers: those are what is checked.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_testkit::{Entry, State};
use setpoint_types::kinds::{BindingSpec, BindingState, NodeSpec, QuotaSpec};
use setpoint_types::object::Object;
use setpoint_types::quantity::Amounts;

use super::Rule;

type Sums = BTreeMap<String, BTreeMap<String, i64>>;

/// What each ledger has to use, kept by changes.
#[derive(Default)]
struct Counted {
    sums: Sums,
}

impl Counted {
    /// The ledgers that a revision touched, each with what it used before.
    fn take(&mut self, entry: &Entry) -> Sums {
        let mut before = Sums::new();
        for change in entry.changes.iter().filter(|it| it.key.kind == "Binding") {
            for (object, sign) in [(&change.before, -1), (&change.after, 1)] {
                let Some(object) = object.as_deref().filter(|it| !is_released(it)) else { continue };
                for (ledger, amounts) in reserved(object) {
                    let sums = self.sums.entry(ledger.clone()).or_default();
                    before.entry(ledger).or_insert_with(|| sums.clone());
                    for (dimension, amount) in amounts.iter() {
                        *sums.entry(dimension.to_owned()).or_default() += sign * amount;
                    }
                    sums.retain(|_, amount| *amount != 0);
                }
            }
        }
        before
    }
}

fn is_released(binding: &Object) -> bool {
    let state = serde_json::from_value::<BindingState>(binding.status["state"].clone());
    state.is_ok_and(|it| it == BindingState::Released)
}

fn reserved(binding: &Object) -> Vec<(String, Amounts)> {
    let spec = serde_json::from_value::<BindingSpec>(binding.spec.clone());
    let reservations = spec.map(|it| it.reservations).unwrap_or_default();
    reservations.into_iter().map(|it| (it.ledger, it.amounts)).collect()
}

/// F5: a ledger uses the sum of what bindings have reserved in it.
#[derive(Default)]
pub struct AsBindings {
    counted: Counted,
}

impl Rule for AsBindings {
    fn name(&self) -> &'static str {
        "F5: ledgers are what bindings say"
    }

    fn see(&mut self, entry: &Entry, after: &State) -> Result<(), String> {
        let touched = self.counted.take(entry);
        let named = entry.ledgers.iter().map(|(name, _)| name).chain(touched.keys());
        for ledger in named.collect::<BTreeSet<_>>() {
            let used: BTreeMap<String, i64> = after
                .ledger(ledger)
                .map(|it| it.used.iter().map(|(dimension, amount)| (dimension.to_owned(), amount)).collect())
                .unwrap_or_default();
            let sum = self.counted.sums.get(ledger).cloned().unwrap_or_default();
            if used != sum {
                return Err(format!("{ledger} uses {used:?}, its bindings {sum:?}"));
            }
        }
        Ok(())
    }
}

/// F4, F5: what is over its limit did not grow at this revision.
#[derive(Default)]
pub struct WithinLimits {
    counted: Counted,
}

impl Rule for WithinLimits {
    fn name(&self) -> &'static str {
        "F4: no bind takes more than there is"
    }

    fn see(&mut self, entry: &Entry, after: &State) -> Result<(), String> {
        for (ledger, before) in self.counted.take(entry) {
            let Some(limits) = limits(&ledger, after) else { continue };
            let now = self.counted.sums.get(&ledger).cloned().unwrap_or_default();
            for (dimension, amount) in &now {
                let Some(limit) = limits.get(dimension) else { continue };
                if *amount > limit && *amount > before.get(dimension).copied().unwrap_or(0) {
                    return Err(format!("{ledger} uses {amount} of {limit} {dimension}"));
                }
            }
        }
        Ok(())
    }
}

/// What nodes and quotas say of a ledger; none if nothing limits it.
fn limits(ledger: &str, state: &State) -> Option<Amounts> {
    let mut parts = ledger.split('/');
    match (parts.next()?, parts.next()?, parts.next()) {
        ("node", node, None) => {
            let node = state.of_kind("Node").find(|it| it.metadata.name == node)?;
            let spec: NodeSpec = serde_json::from_value(node.spec.clone()).ok()?;
            let left = |(dimension, amount): (&str, i64)| {
                (dimension.to_owned(), amount - spec.reserved.get(dimension).unwrap_or(0))
            };
            Some(spec.capacity.iter().map(left).collect())
        }
        ("quota", namespace, zone) => {
            let mut least: BTreeMap<String, i64> = BTreeMap::new();
            for quota in state.of_kind("Quota").filter(|it| it.metadata.namespace == namespace) {
                let spec: QuotaSpec = serde_json::from_value(quota.spec.clone()).ok()?;
                let said = match zone {
                    None => Some(&spec.limits),
                    Some(zone) => spec.zones.iter().find(|it| it.zone == zone).map(|it| &it.limits),
                };
                for (dimension, amount) in said.into_iter().flat_map(|it| it.iter()) {
                    let limit = least.entry(dimension.to_owned()).or_insert(amount);
                    *limit = amount.min(*limit);
                }
            }
            Some(least.into_iter().collect())
        }
        _ => None,
    }
}
