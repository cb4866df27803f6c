//! One figure of a row: both systems over all repetitions, their ratio, and whether the target is met.

use serde::Serialize;

use crate::metric::Metric;
use crate::rows::Target;
use crate::run::{Attempt, Attempts};
use crate::statistics::{Spread, ratio};

/// Above this share of failed operations a row does not count as measured properly.
pub const ERROR_SHARE_MAX: f64 = 0.001;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub metric: Metric,
    #[serde(skip)]
    pub target: Target,
    #[serde(rename = "target")]
    pub target_shown: String,
    pub subject: Option<Spread>,
    pub baseline: Option<Spread>,
    pub floor: Option<Spread>,
    /// Ratio of the medians, subject to baseline.
    pub ratio: Option<f64>,
    /// The ratios of the repetitions, each with its neighbour in time.
    pub paired_ratios: Vec<f64>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Miss,
    /// A figure is missing, because the row failed on a system.
    Unmeasured,
    /// Too many operations failed for the figures to count.
    Errors,
    /// Nothing is asked.
    Shown,
}

/// The figures of a row. Without `judged` no target is applied.
pub fn figures(attempts: &Attempts, judged: bool) -> Vec<Figure> {
    let too_many_errors = [&attempts.subject, &attempts.baseline]
        .into_iter()
        .any(|attempts| error_share(attempts).is_some_and(|share| share > ERROR_SHARE_MAX));
    let figure = |&(metric, target): &(Metric, Target)| {
        let subject = spread(&attempts.subject, metric);
        let baseline = spread(&attempts.baseline, metric);
        let ratio = subject.zip(baseline).and_then(|(ours, theirs)| ratio(ours.median, theirs.median));
        Figure {
            metric,
            target,
            target_shown: target.show(metric.unit()),
            subject,
            baseline,
            floor: spread(&attempts.floor, metric),
            ratio,
            paired_ratios: paired_ratios(attempts, metric),
            verdict: match target {
                Target::None => Verdict::Shown,
                _ if !judged => Verdict::Shown,
                target => match target.is_met(subject.map(|ours| ours.median), ratio) {
                    None => Verdict::Unmeasured,
                    Some(_) if too_many_errors => Verdict::Errors,
                    Some(true) => Verdict::Pass,
                    Some(false) => Verdict::Miss,
                },
            },
        }
    };
    attempts.row.figures().iter().map(figure).collect()
}

/// The share of operations that failed, over all repetitions; `None` if there were none.
pub fn error_share(attempts: &[Attempt]) -> Option<f64> {
    let (mut errors, mut all) = (0, 0);
    for sample in attempts.iter().filter_map(Attempt::sample) {
        errors += sample.errors;
        all += sample.errors + sample.operations;
    }
    (all > 0).then(|| errors as f64 / all as f64)
}

fn spread(attempts: &[Attempt], metric: Metric) -> Option<Spread> {
    let samples = attempts.iter().filter_map(Attempt::sample);
    Spread::of(samples.filter_map(|sample| sample.values.get(&metric)).flatten().copied())
}

fn paired_ratios(attempts: &Attempts, metric: Metric) -> Vec<f64> {
    let one = |attempt: &Attempt| spread(std::slice::from_ref(attempt), metric).map(|spread| spread.median);
    let pairs = attempts.subject.iter().zip(&attempts.baseline);
    pairs.filter_map(|(ours, theirs)| ratio(one(ours)?, one(theirs)?)).collect()
}

#[cfg(test)]
pub mod samples {
    //! Made-up repetitions for the tests of the report.

    use crate::load::Sample;
    use crate::metric::Metric;
    use crate::rows::Row;
    use crate::run::{Attempt, Attempts};

    /// A repetition of 1,000 operations.
    pub fn measured(values: &[(Metric, f64)], errors: u64) -> Attempt {
        let values = values.iter().map(|&(metric, value)| (metric, vec![value])).collect();
        Attempt::Measured(Sample { values, operations: 1_000, errors, first_error: None })
    }

    /// Repetitions of `put-1`, whose only figure is the median latency.
    pub fn put_1(ours: &[f64], theirs: &[f64]) -> Attempts {
        let attempts = |values: &[f64]| {
            values.iter().map(|&value| measured(&[(Metric::LatencyP50, value)], 0)).collect()
        };
        Attempts { row: Row::Put1, subject: attempts(ours), baseline: attempts(theirs), floor: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{measured, put_1};
    use super::*;

    fn only_figure(attempts: &Attempts, judged: bool) -> Figure {
        figures(attempts, judged).into_iter().next().expect("the row has a figure")
    }

    fn check(ours: &[f64], theirs: &[f64], ratio: Option<f64>, verdict: Verdict) {
        let figure = only_figure(&put_1(ours, theirs), true);
        assert_eq!((figure.ratio, figure.verdict), (ratio, verdict), "{ours:?} {theirs:?}");
    }

    #[test]
    fn medians_are_compared() {
        check(&[4.0, 1.0, 2.0], &[4.0, 4.0, 9.0], Some(0.5), Verdict::Pass);
        check(&[4.0, 1.0, 4.0], &[4.0, 4.0, 1.0], Some(1.0), Verdict::Miss);
    }

    #[test]
    fn a_failed_system_leaves_the_row_unmeasured() {
        check(&[], &[4.0], None, Verdict::Unmeasured);
        check(&[1.0], &[], None, Verdict::Unmeasured);
    }

    #[test]
    fn one_failed_repetition_leaves_the_others() {
        let mut attempts = put_1(&[2.0, 2.0], &[4.0, 4.0]);
        attempts.subject[0] = Attempt::Failed { failure: "gone".into() };
        let figure = only_figure(&attempts, true);
        assert_eq!((figure.ratio, figure.paired_ratios), (Some(0.5), vec![0.5]));
    }

    #[test]
    fn errors_on_either_side_void_the_verdict() {
        let mut attempts = put_1(&[1.0], &[4.0]);
        attempts.baseline = vec![measured(&[(Metric::LatencyP50, 4.0)], 1)];
        assert_eq!(only_figure(&attempts, true).verdict, Verdict::Pass, "one in a thousand is allowed");
        attempts.baseline = vec![measured(&[(Metric::LatencyP50, 4.0)], 2)];
        assert_eq!(only_figure(&attempts, true).verdict, Verdict::Errors);
    }

    #[test]
    fn a_system_against_itself_is_not_judged() {
        assert_eq!(only_figure(&put_1(&[1.0], &[1.0]), false).verdict, Verdict::Shown);
    }

    #[test]
    fn the_share_of_errors() {
        assert_eq!(error_share(&[]), None);
        assert_eq!(error_share(&[measured(&[], 0)]), Some(0.0));
        assert_eq!(error_share(&[measured(&[], 1_000), measured(&[], 0)]), Some(1.0 / 3.0));
    }
}
