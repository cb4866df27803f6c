//! How many replicas one metric proposes. Pure, in whole numbers.
//!
//! What is averaged is averaged over the replicas that serve, and not over those that are wanted: asked again before the others have
//! come, it proposes the same again, and not more. That is what keeps it from winding up.

use setpoint_types::kinds::{Metric, MetricType};

use super::report::Sample;

/// What is known of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Somebody reported it as a whole.
    Whole(Sample),
    /// Serving replicas reported their parts: for each what it has reserved of the resource, and what it reported.
    Parts(Vec<Part>),
    /// Nobody did, or it is too old: why.
    Missing(&'static str),
}

/// What a serving replica has reserved of a resource, and what it said it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub reserved: i64,
    pub sample: Option<Sample>,
}

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// How many are asked for.
    pub current: u32,
    pub serving: u32,
    pub tolerance_percent: u32,
}

/// As many as the metric proposes; none if it cannot tell.
pub fn proposal(metric: &Metric, measured: &Measured, of: Population) -> Option<u32> {
    let target = i128::from(metric.target_amount()?);
    match (metric.kind, measured) {
        (_, Measured::Missing(_)) => None,
        (MetricType::Total, Measured::Whole(sample)) => Some(total(i128::from(sample.value), target, of)),
        (MetricType::Total, Measured::Parts(parts)) => {
            // A part that is missing makes the whole too small: it cannot be told.
            let values: Option<Vec<i128>> =
                parts.iter().map(|part| part.sample.map(|it| i128::from(it.value))).collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(total(values.into_iter().sum(), target, of))
        }
        (_, Measured::Whole(sample)) => {
            let ratio = Ratio { is: i128::from(sample.value), right: target };
            (of.serving > 0).then(|| towards(ratio, i128::from(of.serving), of))
        }
        (kind, Measured::Parts(parts)) => of_parts(kind, parts, target, of),
    }
}

/// What there is, and what would be right.
#[derive(Clone, Copy)]
struct Ratio {
    is: i128,
    right: i128,
}

impl Ratio {
    /// More than right by more than is tolerated: greater; less: less.
    fn compare(self, tolerance_percent: u32) -> std::cmp::Ordering {
        let tolerance = i128::from(tolerance_percent);
        let is = self.is.saturating_mul(100);
        if is > self.right.saturating_mul(100 + tolerance) {
            std::cmp::Ordering::Greater
        } else if is < self.right.saturating_mul(100 - tolerance) {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Equal
        }
    }
}

fn total(value: i128, target: i128, of: Population) -> u32 {
    let ratio = Ratio { is: value, right: target.saturating_mul(of.current.into()) };
    match ratio.compare(of.tolerance_percent) {
        std::cmp::Ordering::Equal if of.current > 0 => of.current,
        _ => clamp(div_ceil(value, target)),
    }
}

/// So many times the ratio, away from the current number only in the direction the ratio says.
fn towards(ratio: Ratio, counted: i128, of: Population) -> u32 {
    let proposed = clamp(div_ceil(counted.saturating_mul(ratio.is), ratio.right));
    match ratio.compare(of.tolerance_percent) {
        std::cmp::Ordering::Equal => of.current,
        std::cmp::Ordering::Greater => proposed.max(of.current),
        std::cmp::Ordering::Less => proposed.min(of.current),
    }
}

/// Replicas that say nothing are counted so that they speak for the present number: as idle if there seem to be too few, as fully used if
/// there seem to be too many.
fn of_parts(kind: MetricType, parts: &[Part], target: i128, of: Population) -> Option<u32> {
    let right = |part: &Part| match kind {
        MetricType::Utilization => i128::from(part.reserved) * target / 100,
        MetricType::Average | MetricType::Total => target,
    };
    let full = |part: &Part| match kind {
        MetricType::Utilization => i128::from(part.reserved),
        MetricType::Average | MetricType::Total => target,
    };
    let (known, missing): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| part.sample.is_some());
    let is: i128 = known.iter().filter_map(|part| part.sample).map(|sample| i128::from(sample.value)).sum();
    let first = Ratio { is, right: known.iter().map(|part| right(part)).sum() };
    if first.right <= 0 {
        return None;
    }
    let direction = first.compare(of.tolerance_percent);
    let assumed: i128 = match direction {
        std::cmp::Ordering::Less => missing.iter().map(|part| full(part)).sum(),
        _ => 0,
    };
    let all = Ratio { is: is + assumed, right: parts.iter().map(right).sum() };
    if all.compare(of.tolerance_percent) != direction {
        return Some(of.current);
    }
    let counted = i128::try_from(parts.len()).unwrap_or(i128::MAX);
    Some(towards(all, counted, of))
}

fn div_ceil(value: i128, by: i128) -> i128 {
    if by <= 0 { i128::MAX } else { value / by + i128::from(value % by > 0) }
}

fn clamp(value: i128) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;

    use super::*;

    fn metric(kind: MetricType, target: &str) -> Metric {
        Metric { name: "cpu".into(), kind, target: target.into(), max_age_seconds: 60 }
    }

    fn sample(value: i64) -> Sample {
        Sample { value, time: Timestamp(1) }
    }

    fn of(current: u32, serving: u32) -> Population {
        Population { current, serving, tolerance_percent: 10 }
    }

    #[test]
    fn an_average_is_taken_over_those_that_serve() {
        let average = metric(MetricType::Average, "100");
        let check = |value: i64, population, expected| {
            let found = proposal(&average, &Measured::Whole(sample(value * 1_000)), population);
            assert_eq!(found, expected, "{value} {population:?}");
        };
        check(200, of(4, 4), Some(8));
        check(105, of(4, 4), Some(4));
        check(50, of(4, 4), Some(2));
        // Half of them are still to come: what serves does too much, but what is asked for is enough.
        check(200, of(8, 4), Some(8));
        check(300, of(8, 4), Some(12));
        check(50, of(8, 4), Some(2));
        check(200, of(4, 0), None);
    }

    #[test]
    fn a_total_is_divided_whatever_the_number_is() {
        let total = metric(MetricType::Total, "30");
        let check = |value: i64, population, expected| {
            assert_eq!(proposal(&total, &Measured::Whole(sample(value * 1_000)), population), Some(expected));
        };
        check(100, of(1, 0), 4);
        check(100, of(0, 0), 4);
        check(0, of(5, 5), 0);
        check(155, of(5, 5), 5);
    }

    #[test]
    fn replicas_that_say_nothing_speak_for_the_present_number() {
        let utilization = metric(MetricType::Utilization, "50");
        let parts = |used: &[Option<i64>]| {
            let part = |used: &Option<i64>| Part { reserved: 1_000, sample: used.map(sample) };
            Measured::Parts(used.iter().map(part).collect())
        };
        let check = |used: &[Option<i64>], expected| {
            let count = used.len() as u32;
            assert_eq!(proposal(&utilization, &parts(used), of(count, count)), expected, "{used:?}");
        };
        check(&[Some(1_000), Some(1_000)], Some(4));
        check(&[Some(1_000), None], Some(2));
        check(&[Some(1_000), Some(1_000), Some(1_000), None], Some(6));
        check(&[Some(100), Some(100)], Some(1));
        check(&[Some(100), None], Some(2));
        check(&[None, None], None);
        check(&[], None);
    }
}
