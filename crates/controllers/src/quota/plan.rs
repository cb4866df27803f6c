//! What a quota shows: its use, and whether that can be believed. Pure.

use serde::Serialize;
use setpoint_client::{Ledger, Typed};
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::kinds::{Quota, QuotaStatus, ZoneUse};
use setpoint_types::quantity::{Amounts, Unit};
use setpoint_types::{Revision, Timestamp};

use super::audit::{Deviation, Sums, told};

/// The limits of the ledgers are no higher than those of the spec.
pub const IN_FORCE: &str = "InForce";
/// No more is used than the limits say. It can be otherwise if a limit was lowered below what is used.
pub const WITHIN_LIMITS: &str = "WithinLimits";
/// The ledgers say what the bindings say.
pub const CONSISTENT: &str = "Consistent";

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub quota: Typed<Quota>,
    /// Of the quota as a whole and of its zones, at `revision`.
    pub ledgers: Vec<Ledger>,
    pub revision: Revision,
    /// What the bindings of the namespace say at the same revision; none if they were not looked at this time.
    pub sums: Option<Sums>,
    pub now: Timestamp,
}

/// What is to be shown, and what deviates, if that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub status: QuotaStatus,
    pub deviations: Option<usize>,
}

/// The ledger that a quota is kept by: of its namespace, in all zones or in one. All quotas of a namespace share it.
pub fn ledger_of(namespace: &str, zone: Option<&str>) -> String {
    match zone {
        None => format!("quota/{namespace}"),
        Some(zone) => format!("quota/{namespace}/{zone}"),
    }
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let Observed { quota, now, .. } = observed;
    let (metadata, spec) = (&quota.metadata, &quota.spec);
    let mut status = quota.status.clone().unwrap_or_default();
    let whole = Part::of(observed, None, &spec.limits);
    let zones: Vec<Part> =
        spec.zones.iter().map(|zone| Part::of(observed, Some(&zone.zone), &zone.limits)).collect();
    let parts: Vec<&Part> = std::iter::once(&whole).chain(&zones).collect();
    let deviations = observed.sums.as_ref().map(|sums| -> Vec<Deviation> {
        parts.iter().flat_map(|part| sums.compare(&part.ledger, &part.used)).collect()
    });

    let in_force = parts.iter().all(|part| part.is_in_force());
    let mut conditions = Conditions::of(&mut status.conditions, metadata.generation, *now);
    conditions.set(match in_force {
        true => Statement::holds(IN_FORCE, "LedgersFollow"),
        false => Statement::fails(IN_FORCE, "LedgersBehind").message("the ledgers allow more than the spec"),
    });
    let exceeded: Vec<String> = parts.iter().flat_map(|part| part.exceeded()).collect();
    conditions.set(match exceeded.is_empty() {
        true => Statement::holds(WITHIN_LIMITS, "WithinLimits"),
        false => Statement::fails(WITHIN_LIMITS, "LimitLowered").message(exceeded.join("; ")),
    });
    if let Some(deviations) = &deviations {
        conditions.set(match deviations.is_empty() {
            true => Statement::holds(CONSISTENT, "AsBindings"),
            false => Statement::fails(CONSISTENT, "Deviation").message(told(deviations)),
        });
    }
    if in_force {
        status.observed_generation = metadata.generation;
    }
    let used = whole.used.clone();
    let zones: Vec<ZoneUse> = spec
        .zones
        .iter()
        .zip(zones)
        // A zone where nothing is reserved has nothing to show: the kind knows no empty use.
        .filter(|(_, part)| !part.used.is_empty())
        .map(|(zone, part)| ZoneUse { zone: zone.zone.clone(), used: part.used })
        .collect();
    // The revision is that of the use: as long as nothing of it changes, what was shown is still right.
    if (&used, &zones) != (&status.used, &status.zones) || status.observed_revision.is_none() {
        status.observed_revision = observed.revision;
    }
    let status = QuotaStatus { used, zones, ..status };
    Plan { status, deviations: deviations.map(|it| it.len()) }
}

/// One of the ledgers.
struct Part {
    ledger: String,
    wanted: Amounts,
    limits: Amounts,
    used: Amounts,
}

impl Part {
    fn of(observed: &Observed, zone: Option<&str>, wanted: &Amounts) -> Self {
        let metadata = &observed.quota.metadata;
        let name = ledger_of(&metadata.namespace, zone);
        let found = observed.ledgers.iter().find(|ledger| ledger.name == name).cloned().unwrap_or_default();
        Self { ledger: name, wanted: wanted.clone(), limits: found.limits, used: found.used }
    }

    /// Another quota of the namespace may say less; none can say more.
    fn is_in_force(&self) -> bool {
        self.wanted.iter().all(|(dimension, limit)| self.limits.get(dimension).is_some_and(|it| it <= limit))
    }

    fn exceeded(&self) -> Vec<String> {
        let over = |(dimension, limit): (&str, i64)| {
            let (used, unit) = (self.used.get(dimension).unwrap_or(0), Unit::of_dimension(dimension));
            (used > limit).then(|| {
                let (used, limit) = (unit.format(used), unit.format(limit));
                format!("{}: {used} of {limit} {dimension} are used", self.ledger)
            })
        };
        self.wanted.iter().filter_map(over).collect()
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Generation;
    use setpoint_types::kinds::{QuotaSpec, Reservation, ZoneLimits};
    use setpoint_types::object::find_condition;

    use super::*;

    fn cpu(amount: i64) -> Amounts {
        [("cpu".to_owned(), amount)].into_iter().collect()
    }

    fn observed(used: i64, limit: i64) -> Observed {
        let zones = vec![ZoneLimits { zone: "a".to_owned(), limits: cpu(500) }];
        let mut quota = Typed::<Quota>::new("q", QuotaSpec { limits: cpu(1_000), zones }).in_namespace("d");
        quota.metadata.generation = Generation(3);
        let ledger = |name: &str, limit, used| Ledger {
            name: name.to_owned(),
            limits: cpu(limit),
            used: cpu(used),
            modified: Revision::new(8),
        };
        let ledgers = vec![ledger("quota/d", limit, used), ledger("quota/d/a", 500, 200)];
        Observed { quota, ledgers, revision: Revision::new(9), sums: None, now: Timestamp(1) }
    }

    /// `InForce=True WithinLimits=True`, with what is said of those that are not.
    fn told(plan: &Plan) -> String {
        let conditions = &plan.status.conditions;
        let line = |kind: &str| {
            let it = find_condition(conditions, kind)?;
            let message = if it.message.is_empty() { String::new() } else { format!(" ({})", it.message) };
            Some(format!("{kind}={:?}{message}", it.status))
        };
        [IN_FORCE, WITHIN_LIMITS, CONSISTENT].into_iter().filter_map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_use_is_shown_and_what_is_wrong_with_it_is_named() {
        let well = plan(&observed(300, 1_000));
        assert_eq!(told(&well), "InForce=True WithinLimits=True");
        assert_eq!(
            (well.status.used.get("cpu"), well.status.zones[0].used.get("cpu")),
            (Some(300), Some(200))
        );
        assert_eq!(well.status.observed_generation, Generation(3));
        let lowered = plan(&observed(1_200, 1_000));
        assert_eq!(told(&lowered), "InForce=True WithinLimits=False (quota/d: 1200m of 1 cpu are used)");
        let behind = plan(&observed(300, 2_000));
        assert_eq!(told(&behind), "InForce=False (the ledgers allow more than the spec) WithinLimits=True");
        assert_eq!(behind.status.observed_generation, Generation(0));
    }

    #[test]
    fn an_audit_names_what_bindings_do_not_account_for() {
        let mut sums = Sums::default();
        let reservation =
            |ledger: &str, amount| Reservation { ledger: ledger.to_owned(), amounts: cpu(amount) };
        sums.add(None, &[reservation("quota/d", 300), reservation("quota/d/a", 100)]);
        let found = plan(&Observed { sums: Some(sums), ..observed(300, 1_000) });
        assert_eq!(found.deviations, Some(1));
        assert!(
            told(&found).ends_with("Consistent=False (quota/d/a has cpu 200m reserved, its bindings 100m)")
        );
    }

    #[test]
    fn what_stays_the_same_is_not_written_again() {
        let mut seen = observed(300, 1_000);
        seen.quota.status = Some(plan(&seen).status);
        let later = Observed { revision: Revision::new(50), now: Timestamp(9), ..seen.clone() };
        assert_eq!(Some(plan(&later).status), seen.quota.status);
    }
}
