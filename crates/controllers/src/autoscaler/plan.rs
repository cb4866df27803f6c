//! How many replicas a target should have, and why not more or fewer. Pure.
//!
//! metrics → the largest proposal → bounds → stabilization → steps → hold. Each stage only ever makes the change smaller, and what kept
//! it from the recommendation is shown.

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::kinds::{Autoscaler, AutoscalerStatus, Metric, MetricStatus, PendingReason};
use setpoint_types::object::Evidence;
use setpoint_types::{Revision, Timestamp, Uid};

use super::hold::{Dependencies, Hold, Waiting, hold};
use super::pace::{change, recommend, stabilised, stepped};
use super::proposal::{Measured, Population, proposal};
use super::report::unit_of_metric;

/// It follows its metrics.
pub const ACTIVE: &str = "Active";
/// It would change the number, and something keeps it from doing so, or from going all the way.
pub const LIMITED: &str = "Limited";

/// What is scaled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// Tells it from a later one of its name.
    pub uid: Uid,
    /// How many are asked for.
    pub replicas: u32,
    /// How many there are.
    pub present: u32,
    pub serving: u32,
    pub waiting: Waiting,
    /// Whoever else decides `.spec.replicas`, if somebody does.
    pub decided_by: Option<String>,
}

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub autoscaler: Typed<Autoscaler>,
    /// None: it is not there.
    pub target: Option<Target>,
    /// What is known of each metric of the spec, in its order.
    pub measured: Vec<Measured>,
    pub depends: Dependencies,
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The new number; none if it stays.
    pub scale: Option<Scale>,
    pub status: AutoscalerStatus,
    /// What it would have done, and what kept it: for the record.
    pub kept_by: Option<(PendingReason, String)>,
}

/// A change of the number, and on which grounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scale {
    pub from: u32,
    pub to: u32,
    pub evidence: Vec<Evidence>,
    pub message: String,
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    Planner::new(observed).plan()
}

struct Planner<'a> {
    observed: &'a Observed,
    status: AutoscalerStatus,
    active: Statement,
    limited: Statement,
    kept_by: Option<(PendingReason, String)>,
}

impl<'a> Planner<'a> {
    fn new(observed: &'a Observed) -> Self {
        let mut status = observed.autoscaler.status.clone().unwrap_or_default();
        status.observed_generation = observed.autoscaler.metadata.generation;
        Self {
            observed,
            status,
            active: Statement::holds(ACTIVE, "Following"),
            limited: Statement::fails(LIMITED, "Free"),
            kept_by: None,
        }
    }

    fn plan(mut self) -> Plan {
        let spec = &self.observed.autoscaler.spec;
        let Some(target) = &self.observed.target else {
            let message = format!("there is no {} {}", spec.target.kind, spec.target.name);
            self.active = Statement::fails(ACTIVE, "TargetMissing").message(message);
            return self.end(None);
        };
        self.status.current = target.present;
        if target.replicas == 0 && spec.min_replicas > 0 {
            let message =
                "somebody has set its replicas to 0, which is outside of the bounds: it is left alone";
            self.active = Statement::fails(ACTIVE, "ScaledToZero").message(message);
            self.status.desired = 0;
            return self.end(None);
        }
        let wanted = self.recommended(target);
        let to = self.followed(target, wanted);
        self.status.desired = to;
        if to == target.replicas {
            return self.end(None);
        }
        if spec.paused {
            self.active = Statement::fails(ACTIVE, "Paused");
            return self.end(None);
        }
        if let Some(other) = &target.decided_by {
            self.active = taken(other);
            return self.end(None);
        }
        let now = self.observed.now;
        self.status.changes = change(&self.status.changes, target.replicas, to, now);
        self.status.last_scale = Some(now);
        let scale = self.scale(target, to);
        self.end(Some(scale))
    }

    fn end(mut self, scale: Option<Scale>) -> Plan {
        let generation = self.observed.autoscaler.metadata.generation;
        let mut conditions = Conditions::of(&mut self.status.conditions, generation, self.observed.now);
        conditions.set(self.active);
        conditions.set(self.limited);
        Plan { scale, status: self.status, kept_by: self.kept_by }
    }

    /// What the metrics propose, within the bounds; the current number, as far as they cannot tell.
    fn recommended(&mut self, target: &Target) -> u32 {
        let spec = &self.observed.autoscaler.spec;
        let of = Population {
            current: target.replicas,
            serving: target.serving,
            tolerance_percent: spec.tolerance_percent,
        };
        let mut missing: Vec<String> = Vec::new();
        let mut most: Option<u32> = None;
        let mut metrics = Vec::new();
        for (metric, measured) in spec.metrics.iter().zip(&self.observed.measured) {
            let proposed = proposal(metric, measured, of);
            match proposed {
                Some(proposed) => most = most.max(Some(proposed)),
                None => missing.push(format!("{}: {}", metric.name, unknown(measured))),
            }
            metrics.push(shown(metric, measured, proposed.unwrap_or(target.replicas)));
        }
        self.status.metrics = metrics;
        self.status.recommended = most.unwrap_or(target.replicas);
        if !missing.is_empty() {
            let reason = if most.is_none() { "MetricsMissing" } else { "SomeMetricsMissing" };
            let told = if most.is_none() {
                Statement::fails(ACTIVE, reason)
            } else {
                Statement::holds(ACTIVE, reason)
            };
            self.active = told.message(missing.join("; "));
        }
        // What is not known might speak for more.
        let wanted = match most {
            None => target.replicas,
            Some(most) if !missing.is_empty() => most.max(target.replicas),
            Some(most) => most,
        };
        wanted.clamp(spec.min_replicas, spec.max_replicas)
    }

    /// As far as it is followed now.
    fn followed(&mut self, target: &Target, wanted: u32) -> u32 {
        let spec = &self.observed.autoscaler.spec;
        let (current, now) = (target.replicas, self.observed.now);
        let standing = hold(&target.waiting, &self.observed.depends);
        self.status.observed_revision = match &standing {
            Hold::Free => self.status.observed_revision,
            Hold::By(reason) => reason.revision,
            Hold::Stale { revision, .. } => *revision,
        };
        self.status.limited_by = None;
        // The bounds are the user's word, and need no patience.
        let bounded = current.clamp(spec.min_replicas, spec.max_replicas);
        let earlier = self.status.recommendations.clone();
        self.status.recommendations = recommend(&earlier, wanted, now);
        if bounded != current {
            self.limit("OutOfBounds", "the number was outside of the bounds");
            return bounded;
        }
        let stable = stabilised(&self.status.recommendations, wanted, current, &spec.behaviour, now);
        let to = stepped(&self.status.changes, stable, current, &spec.behaviour, now);
        if to > current && standing != Hold::Free {
            self.held(standing);
            return current;
        }
        if to != wanted && stable != wanted {
            self.limit("Stabilizing", "an earlier recommendation of the window is followed");
        } else if to != wanted {
            self.limit("Steps", "a period has no more than its step");
        } else if self.status.recommended > spec.max_replicas {
            self.limit("AtMaximum", "the metrics propose more than the maximum");
        } else if self.status.recommended < spec.min_replicas {
            self.limit("AtMinimum", "the metrics propose fewer than the minimum");
        }
        to
    }

    fn limit(&mut self, reason: &str, message: impl Into<String>) {
        self.limited = Statement::holds(LIMITED, reason).message(message);
    }

    fn held(&mut self, standing: Hold) {
        let (reason, name, message) = match standing {
            Hold::Free => return,
            Hold::By(it) => {
                let message = format!("{} replicas are pending: {:?}: {}", it.count, it.reason, it.message);
                (it.reason, format!("{:?}", it.reason), message)
            }
            Hold::Stale { why, .. } => (PendingReason::StaleCache, "StaleReason".to_owned(), why),
        };
        self.status.limited_by = Some(reason);
        self.limit(&name, message.clone());
        self.kept_by = Some((reason, message));
    }

    fn scale(&self, target: &Target, to: u32) -> Scale {
        let evidence = |it: &MetricStatus| Evidence {
            signal: it.name.clone(),
            value: format!("{} proposes {}", it.value, it.proposes),
            time: it.time,
            revision: Revision::NONE,
        };
        let evidence = self.status.metrics.iter().map(evidence).collect();
        let from = target.replicas;
        let message = format!("from {from} to {to}, recommended are {}", self.status.recommended);
        Scale { from, to, evidence, message }
    }
}

/// Somebody else decides the number: no fight.
pub fn taken(other: &str) -> Statement {
    let message = format!(
        "{other} decides spec.replicas: leave it out there and apply again, or delete this autoscaler"
    );
    Statement::fails(ACTIVE, "FieldTaken").message(message)
}

/// The status with this in place of what it says about being active.
pub fn inactive(observed: &Observed, said: Statement) -> AutoscalerStatus {
    let autoscaler = &observed.autoscaler;
    let mut status = autoscaler.status.clone().unwrap_or_default();
    Conditions::of(&mut status.conditions, autoscaler.metadata.generation, observed.now).set(said);
    status
}

fn unknown(measured: &Measured) -> &'static str {
    match measured {
        Measured::Missing(why) => why,
        Measured::Whole(_) | Measured::Parts(_) => "no replica serves that it could be averaged over",
    }
}

fn shown(metric: &Metric, measured: &Measured, proposes: u32) -> MetricStatus {
    let unit = unit_of_metric(metric);
    let (value, time) = match measured {
        Measured::Whole(sample) => (unit.format(sample.value), sample.time),
        Measured::Parts(parts) => {
            let told: Vec<_> = parts.iter().filter_map(|part| part.sample).collect();
            let oldest = told.iter().map(|sample| sample.time).min().unwrap_or_default();
            (format!("{} of {} replicas", told.len(), parts.len()), oldest)
        }
        Measured::Missing(_) => (String::new(), Timestamp::default()),
    };
    MetricStatus { name: metric.name.clone(), value, proposes, time }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use setpoint_types::Generation;
    use setpoint_types::kinds::{AutoscalerSpec, MetricType, PendingCount, ScaleBehaviour, ScaleRule};
    use setpoint_types::object::{ConditionStatus, find_condition};
    use setpoint_types::quantity::CountOrPercent;

    use super::super::report::Sample;
    use super::*;

    const START: Timestamp = Timestamp(1_000_000_000);

    fn observed(min: u32, max: u32, replicas: u32, load: Option<i64>) -> Observed {
        let metric = Metric {
            name: "queue".into(),
            kind: MetricType::Total,
            target: "10".into(),
            max_age_seconds: 60,
        };
        let spec = AutoscalerSpec {
            min_replicas: min,
            max_replicas: max,
            metrics: vec![metric],
            tolerance_percent: 10,
            ..AutoscalerSpec::default()
        };
        let measured = match load {
            Some(load) => Measured::Whole(Sample { value: load * 1_000, time: START }),
            None => Measured::Missing("not reported"),
        };
        let waiting = Waiting {
            generation: Generation(1),
            observed_generation: Some(Generation(1)),
            reasons: Vec::new(),
        };
        Observed {
            autoscaler: Typed::new("web", spec),
            target: Some(Target { replicas, serving: replicas, waiting, ..Target::default() }),
            measured: vec![measured],
            depends: Dependencies::default(),
            now: START,
        }
    }

    fn active(plan: &Plan) -> (ConditionStatus, String) {
        let it = find_condition(&plan.status.conditions, ACTIVE).expect("the condition");
        (it.status, it.reason.clone())
    }

    #[test]
    fn what_cannot_be_done_is_said_and_not_done() {
        let mut missing = observed(1, 10, 3, Some(80));
        missing.target = None;
        let mut taken = observed(1, 10, 3, Some(80));
        taken.target.as_mut().expect("a target").decided_by = Some("gitops".into());
        let mut paused = observed(1, 10, 3, Some(80));
        paused.autoscaler.spec.paused = true;
        let table = [
            (observed(1, 10, 3, None), "MetricsMissing", 3),
            (missing, "TargetMissing", 0),
            (observed(1, 10, 0, Some(80)), "ScaledToZero", 0),
            (taken, "FieldTaken", 7),
            (paused, "Paused", 7),
        ];
        for (observed, reason, desired) in table {
            let plan = plan(&observed);
            assert_eq!(plan.scale, None, "{reason}");
            assert_eq!(active(&plan), (ConditionStatus::False, reason.to_owned()));
            assert_eq!(plan.status.desired, desired, "{reason}");
        }
        assert_eq!(
            plan(&observed(1, 10, 3, Some(80))).scale.map(|scale| scale.to),
            Some(7),
            "a step of four"
        );
    }

    #[test]
    fn what_is_said_again_is_the_same_again() {
        let mut seen = observed(1, 10, 3, Some(30));
        seen.autoscaler.status = Some(plan(&seen).status);
        let later = Observed { now: START.plus(Duration::from_secs(500)), ..seen.clone() };
        assert_eq!(Some(plan(&later).status), seen.autoscaler.status);
    }

    #[derive(Clone, Debug)]
    struct Moment {
        load: Option<i64>,
        held: bool,
        seconds: u64,
    }

    fn moments() -> impl Strategy<Value = Vec<Moment>> {
        let moment = (prop::option::weighted(0.9, 0..400i64), prop::bool::weighted(0.3), 1..90u64);
        prop::collection::vec(moment.prop_map(|(load, held, seconds)| Moment { load, held, seconds }), 1..60)
    }

    fn rules() -> impl Strategy<Value = ScaleRule> {
        let step = prop_oneof![
            (1..10u32).prop_map(CountOrPercent::Count),
            (1..200u32).prop_map(CountOrPercent::Percent)
        ];
        (prop::option::of(0..300u32), step, prop::option::of(1..5u32), 1..120u32).prop_map(
            |(stabilization_seconds, max_step, min_step, period_seconds)| ScaleRule {
                stabilization_seconds,
                max_step,
                min_step,
                period_seconds,
                disabled: false,
            },
        )
    }

    /// One look, and what it makes of the number.
    fn look(observed: &mut Observed, moment: &Moment) -> (u32, u32) {
        observed.now = observed.now.plus(Duration::from_secs(moment.seconds));
        observed.measured = vec![match moment.load {
            Some(load) => Measured::Whole(Sample { value: load * 1_000, time: observed.now }),
            None => Measured::Missing("not reported"),
        }];
        let target = observed.target.as_mut().expect("a target");
        target.waiting.reasons = match moment.held {
            true => vec![PendingCount { count: 1, reason: PendingReason::Quota, ..PendingCount::default() }],
            false => Vec::new(),
        };
        let before = target.replicas;
        let Plan { scale, status, .. } = plan(observed);
        let after = scale.map_or(before, |scale| scale.to);
        observed.autoscaler.status = Some(status);
        observed.target.as_mut().expect("a target").replicas = after;
        (before, after)
    }

    proptest! {
        /// Whatever is reported, missing or pending when: the bounds hold, and nothing is raised while held or unknown.
        #[test]
        fn it_stays_within_its_bounds_and_still_while_held(
            (min, span) in (1..5u32, 0..40u32),
            up in rules(),
            down in rules(),
            moments in moments(),
        ) {
            let mut observed = observed(min, min + span, min, None);
            observed.autoscaler.spec.behaviour = ScaleBehaviour { up, down };
            for moment in moments {
                let (before, after) = look(&mut observed, &moment);
                prop_assert!((min..=min + span).contains(&after), "{after}");
                if moment.held {
                    prop_assert!(after <= before, "raised from {before} to {after} while held");
                }
                if moment.load.is_none() {
                    prop_assert_eq!(after, before, "changed by nothing");
                }
            }
        }

        /// Once the load stays, the number comes to what it asks for, and stays there.
        #[test]
        fn it_converges(up in rules(), down in rules(), moments in moments(), load in 0..400i64) {
            let mut observed = observed(1, 40, 1, None);
            observed.autoscaler.spec.behaviour = ScaleBehaviour { up, down };
            for moment in &moments {
                look(&mut observed, moment);
            }
            let steady = Moment { load: Some(load), held: false, seconds: 120 };
            for _ in 0..60 {
                look(&mut observed, &steady);
            }
            let (before, after) = look(&mut observed, &steady);
            prop_assert_eq!(before, after, "it still moves");
            let right = u32::try_from((load + 9) / 10).expect("small").clamp(1, 40);
            let is_tolerated = (load * 100 - i64::from(after) * 1_000).abs() <= i64::from(after) * 100;
            prop_assert!(after == right || is_tolerated, "{after} for {load}");
        }
    }
}
