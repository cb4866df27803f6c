//! Whether the ledgers of a quota say what the bindings say. Pure.
//!
//! They cannot differ as long as every reservation is made and given back together with its binding. If they do, something was done
//! beside the API, or is a bug: it is shown here, and given back by `reservations`.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_types::kinds::{BindingState, BindingStatus, Reservation};
use setpoint_types::quantity::{Amounts, Unit};

/// How many deviations are named. The others are counted.
const NAMED_MAX: usize = 4;

/// What bindings have reserved, by ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(BTreeMap<String, BTreeMap<String, i64>>);

/// What a ledger says, and what the bindings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    pub ledger: String,
    pub dimension: String,
    pub in_ledger: i64,
    pub in_bindings: i64,
}

impl Sums {
    /// Counts what a binding has reserved. One that is released has nothing.
    pub fn add(&mut self, status: Option<&BindingStatus>, reservations: &[Reservation]) {
        if status.is_some_and(|status| status.state == BindingState::Released) {
            return;
        }
        for reservation in reservations {
            let ledger = self.0.entry(reservation.ledger.clone()).or_default();
            for (dimension, amount) in reservation.amounts.iter() {
                let sum = ledger.entry(dimension.to_owned()).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
    }

    /// Where a ledger says something else.
    pub fn compare(&self, ledger: &str, used: &Amounts) -> Vec<Deviation> {
        let none = BTreeMap::new();
        let sums = self.0.get(ledger).unwrap_or(&none);
        let dimensions: BTreeSet<&str> =
            used.iter().map(|(dimension, _)| dimension).chain(sums.keys().map(String::as_str)).collect();
        let deviation = |dimension: &str| {
            let in_ledger = used.get(dimension).unwrap_or(0);
            let in_bindings = sums.get(dimension).copied().unwrap_or(0);
            (in_ledger != in_bindings).then(|| Deviation {
                ledger: ledger.to_owned(),
                dimension: dimension.to_owned(),
                in_ledger,
                in_bindings,
            })
        };
        dimensions.into_iter().filter_map(deviation).collect()
    }
}

/// For people.
pub fn told(deviations: &[Deviation]) -> String {
    let line = |it: &Deviation| {
        let unit = Unit::of_dimension(&it.dimension);
        let (ledger, bindings) = (unit.format(it.in_ledger), unit.format(it.in_bindings));
        format!("{} has {} {ledger} reserved, its bindings {bindings}", it.ledger, it.dimension)
    };
    let mut lines: Vec<String> = deviations.iter().take(NAMED_MAX).map(line).collect();
    if deviations.len() > NAMED_MAX {
        lines.push(format!("and {} more", deviations.len() - NAMED_MAX));
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts(cpu: i64) -> Amounts {
        [("cpu".to_owned(), cpu)].into_iter().collect()
    }

    fn reservation(ledger: &str, cpu: i64) -> Reservation {
        Reservation { ledger: ledger.to_owned(), amounts: amounts(cpu) }
    }

    #[test]
    fn what_is_released_counts_for_nothing_and_what_is_asked_back_still_counts() {
        let mut sums = Sums::default();
        for state in [BindingState::Bound, BindingState::ReleaseRequested, BindingState::Released] {
            let status = BindingStatus { state, ..BindingStatus::default() };
            sums.add(Some(&status), &[reservation("quota/d/q", 100)]);
        }
        assert!(sums.compare("quota/d/q", &amounts(200)).is_empty());
        let deviations = sums.compare("quota/d/q", &amounts(300));
        assert_eq!(told(&deviations), "quota/d/q has cpu 300m reserved, its bindings 200m");
        assert_eq!(sums.compare("quota/d/other", &amounts(1)).len(), 1);
    }

    proptest! {
        /// A ledger that is the sum of what was reserved never deviates, and one that lost or kept something always does.
        #[test]
        fn a_deviation_is_found_if_and_only_if_there_is_one(
            bindings in prop::collection::vec((0..3u8, 1..1_000i64), 0..20),
            leak in -500..500i64,
        ) {
            let mut sums = Sums::default();
            let mut ledgers: BTreeMap<String, i64> = BTreeMap::new();
            for (zone, cpu) in bindings {
                let ledger = format!("quota/d/q/z{zone}");
                sums.add(None, &[reservation(&ledger, cpu)]);
                *ledgers.entry(ledger).or_default() += cpu;
            }
            for (ledger, used) in &ledgers {
                prop_assert!(sums.compare(ledger, &amounts(*used)).is_empty());
                prop_assert_eq!(sums.compare(ledger, &amounts(used + leak)).is_empty(), leak == 0);
            }
        }
    }
}
