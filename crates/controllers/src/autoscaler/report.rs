//! Where metrics come from: values that somebody reported through the API, as annotations. Pure.
//!
//! | annotation | of | says |
//! |---|---|---|
//! | `metric.setpoint/NAME` | the Autoscaler | the value as the metric's type means it: percent, average or total |
//! | `usage.setpoint/NAME` | a Replica | what this replica uses, or has of it |
//!
//! A value is written `VALUE@TIME`, with the time in milliseconds since 1970: `350m@1735689600000`. Each annotation has an owner of its
//! own, so that any number of reporters share an object. Nothing is fetched from anywhere: whoever can measure can report.

use setpoint_types::Timestamp;
use setpoint_types::kinds::{Metric, MetricType};
use setpoint_types::quantity::Unit;

/// How annotations of an Autoscaler begin that report a metric as a whole.
pub const METRIC: &str = "metric.setpoint/";
/// How annotations of a Replica begin that report its part.
pub const USAGE: &str = "usage.setpoint/";

/// A value, and when it was so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// In the smallest unit.
    pub value: i64,
    pub time: Timestamp,
}

/// The unit a metric is reported in as a whole.
pub fn unit_of_metric(metric: &Metric) -> Unit {
    if metric.kind == MetricType::Utilization { Unit::Count } else { Unit::Milli }
}

/// The unit a replica reports its part in.
pub fn unit_of_usage(metric: &Metric) -> Unit {
    match metric.kind {
        MetricType::Utilization => Unit::of_dimension(&metric.name),
        MetricType::Average | MetricType::Total => Unit::Milli,
    }
}

/// What was reported, if it can be read and is young enough.
pub fn sample(
    text: Option<&str>,
    unit: Unit,
    metric: &Metric,
    now: Timestamp,
) -> Result<Sample, &'static str> {
    let text = text.ok_or("not reported")?;
    let (value, time) = text.split_once('@').ok_or("not VALUE@TIME")?;
    let time = time.trim().parse().map(Timestamp).map_err(|_| "its time is no number")?;
    let value = unit.parse(value.trim()).map_err(|_| "its value is no amount of its unit")?;
    let age_max = std::time::Duration::from_secs(metric.max_age_seconds.into());
    // A clock that is ahead makes a value young; not younger than now.
    if now.since(time) > age_max { Err("too old") } else { Ok(Sample { value, time: time.min(now) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_with_its_time_and_none_that_is_too_old() {
        let metric = Metric { name: "cpu".into(), max_age_seconds: 60, ..Metric::default() };
        let read = |text: &str| sample(Some(text), Unit::Milli, &metric, Timestamp(100_000));
        assert_eq!(read("350m@90000"), Ok(Sample { value: 350, time: Timestamp(90_000) }));
        assert_eq!(read("2@200000"), Ok(Sample { value: 2_000, time: Timestamp(100_000) }));
        assert_eq!(read("350m@39999"), Err("too old"));
        assert_eq!(read("350m"), Err("not VALUE@TIME"));
        assert_eq!(read("much@90000"), Err("its value is no amount of its unit"));
        assert_eq!(read("1@soon"), Err("its time is no number"));
        assert_eq!(sample(None, Unit::Milli, &metric, Timestamp(0)), Err("not reported"));
    }
}
