//! Combining repetitions: median and spread of one figure, and the ratio of two.

use serde::Serialize;

/// One figure over several repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` without any finite value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Self { median, min, max })
    }
}

/// `ours / theirs`, where that means something: both figures are finite and `theirs` is above zero.
pub fn ratio(ours: f64, theirs: f64) -> Option<f64> {
    (ours.is_finite() && theirs.is_finite() && theirs > 0.0).then_some(ours / theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], median: f64, min: f64, max: f64) {
        assert_eq!(Spread::of(values.iter().copied()), Some(Spread { median, min, max }), "{values:?}");
    }

    #[test]
    fn the_median_does_not_depend_on_order() {
        check(&[3.0, 1.0, 2.0], 2.0, 1.0, 3.0);
        check(&[2.0, 3.0, 1.0], 2.0, 1.0, 3.0);
        check(&[7.0], 7.0, 7.0, 7.0);
    }

    #[test]
    fn an_even_number_of_values_is_halved() {
        check(&[4.0, 1.0, 3.0, 2.0], 2.5, 1.0, 4.0);
    }

    #[test]
    fn what_is_not_a_number_does_not_count() {
        check(&[f64::NAN, 1.0, f64::INFINITY], 1.0, 1.0, 1.0);
        assert_eq!(Spread::of([f64::NAN]), None);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_ratio_needs_something_to_compare_with() {
        assert_eq!(ratio(1.0, 2.0), Some(0.5));
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, -4.0), None);
        assert_eq!(ratio(f64::NAN, 2.0), None);
    }
}
