//! One amount: what its integer counts, how it is read and how it is written.

use thiserror::Error;

/// What the integer of an amount counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Thousandths: "500m", "2", "0.25". Processors.
    Milli,
    /// Bytes: "2Gi", "500M", "1024". Memory and storage.
    Byte,
    /// Whole things: "8". Devices, replicas, and whatever else has a name.
    Count,
}

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    #[error("must be a number such as \"500m\" or \"2\"")]
    NotMilli,
    #[error("must be a number of bytes such as \"512Mi\", \"2Gi\" or \"1024\"")]
    NotBytes,
    #[error("must be a whole number such as \"8\"")]
    NotCount,
    #[error("is finer than can be counted: {0}")]
    TooFine(&'static str),
    #[error("is too large")]
    TooLarge,
}

const SUFFIXES: [(&str, i128); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// The finest fraction that is read: nothing needs more digits than a decimal byte suffix has zeros.
const FRACTION_DIGITS_MAX: usize = 18;

impl Unit {
    /// The unit of a dimension of resources, by its name.
    pub fn of_dimension(name: &str) -> Self {
        match name {
            "cpu" => Self::Milli,
            "memory" | "storage" => Self::Byte,
            _ => Self::Count,
        }
    }

    /// Reads what a person wrote. Never negative.
    pub fn parse(self, text: &str) -> Result<i64, QuantityError> {
        match self {
            Self::Milli => match text.strip_suffix('m') {
                Some(digits) => whole(digits).ok_or(QuantityError::NotMilli)?,
                None => scaled(text, 1_000).ok_or(QuantityError::NotMilli)?,
            },
            Self::Byte => {
                let suffix = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix));
                let (suffix, scale) = suffix.copied().unwrap_or(("", 1));
                scaled(&text[..text.len() - suffix.len()], scale).ok_or(QuantityError::NotBytes)?
            }
            Self::Count => whole(text).ok_or(QuantityError::NotCount)?,
        }
        .map_err(|fault| match (fault, self) {
            (Fault::TooLarge, _) => QuantityError::TooLarge,
            (Fault::TooFine, Self::Milli) => QuantityError::TooFine("the smallest step is \"1m\""),
            (Fault::TooFine, _) => QuantityError::TooFine("the smallest step is 1"),
        })
    }

    /// Reads a number of whole units: 2 processors, 1024 bytes, 8 devices.
    pub fn from_whole(self, number: u64) -> Result<i64, QuantityError> {
        let scale = if self == Self::Milli { 1_000 } else { 1 };
        let amount = i64::try_from(number).ok().and_then(|number| number.checked_mul(scale));
        amount.ok_or(QuantityError::TooLarge)
    }

    /// Writes an amount as briefly as it can be read back exactly. Negative ones, which no object contains, can be shown too.
    pub fn format(self, amount: i64) -> String {
        match self {
            Self::Milli if amount % 1_000 == 0 => (amount / 1_000).to_string(),
            Self::Milli => format!("{amount}m"),
            Self::Byte => {
                let fits = |(_, scale): &&(&str, i128)| amount != 0 && i128::from(amount) % scale == 0;
                match SUFFIXES[..6].iter().rev().find(fits) {
                    Some((suffix, scale)) => format!("{}{suffix}", i128::from(amount) / scale),
                    None => amount.to_string(),
                }
            }
            Self::Count => amount.to_string(),
        }
    }
}

enum Fault {
    TooFine,
    TooLarge,
}

/// Digits and nothing else. None if it is not that.
fn whole(text: &str) -> Option<Result<i64, Fault>> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().map_err(|_| Fault::TooLarge))
}

/// Digits, perhaps with a fraction, times `scale`. None if it is not that.
fn scaled(text: &str, scale: i128) -> Option<Result<i64, Fault>> {
    let (digits, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some((digits, fraction)) => (digits, fraction),
        None => (text, ""),
    };
    if digits.is_empty() || !digits.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Some(Err(Fault::TooFine));
    }
    let Some(Ok(integer)) = whole(digits) else { return Some(Err(Fault::TooLarge)) };
    // At most 18 digits times a scale of at most 2^60 stays below 2^127.
    let numerator = fraction.parse::<i128>().unwrap_or(0) * scale;
    let denominator = 10i128.pow(fraction.len() as u32);
    if numerator % denominator != 0 {
        return Some(Err(Fault::TooFine));
    }
    let total = i128::from(integer).checked_mul(scale)?.checked_add(numerator / denominator)?;
    Some(i64::try_from(total).map_err(|_| Fault::TooLarge))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(unit: Unit, good: &[(&str, i64)], bad: &[&str]) {
        for (text, amount) in good {
            assert_eq!(unit.parse(text), Ok(*amount), "{text:?}");
        }
        for text in bad {
            assert!(unit.parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn processors_are_counted_in_thousandths() {
        let good = [("500m", 500), ("2", 2000), ("0.25", 250), ("1.5", 1500), ("0", 0), ("0.1000", 100)];
        check(
            Unit::Milli,
            &good,
            &["", "m", "-1", "1.", ".5", "0.0001", "1.5m", "1k", "1e3", "1 ", "+1", "١"],
        );
    }

    #[test]
    fn bytes_have_decimal_and_binary_suffixes() {
        let good = [("1024", 1024), ("2Gi", 2 << 30), ("1.5Ki", 1536), ("500M", 500_000_000), ("1k", 1000)];
        check(Unit::Byte, &good, &["", "Gi", "2gi", "2GiB", "0.5", "1.0001k", "-1Gi", "1 Gi"]);
        assert_eq!(Unit::Byte.parse("8Ei"), Err(QuantityError::TooLarge));
        assert_eq!(Unit::Byte.parse("7.5Ei"), Ok(15 << 59));
        assert_eq!(Unit::Byte.parse(&"9".repeat(40)), Err(QuantityError::TooLarge));
        assert_eq!(
            Unit::Byte.parse(&format!("0.{}Ei", "3".repeat(40))),
            Err(QuantityError::TooFine("the smallest step is 1"))
        );
    }

    #[test]
    fn everything_else_is_counted_whole() {
        check(Unit::Count, &[("8", 8), ("0", 0)], &["", "1.5", "1k", "-1", "99999999999999999999"]);
        assert_eq!(Unit::of_dimension("gpu"), Unit::Count);
    }

    #[test]
    fn amounts_are_written_briefly() {
        assert_eq!(Unit::Milli.format(500), "500m");
        assert_eq!(Unit::Milli.format(2000), "2");
        assert_eq!(Unit::Byte.format(2 << 30), "2Gi");
        assert_eq!(Unit::Byte.format(1000), "1000");
        assert_eq!(Unit::Byte.format(0), "0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(amount in 0..=i64::MAX, shift in 0..63u32) {
            let amount = amount >> shift;
            for unit in [Unit::Milli, Unit::Byte, Unit::Count] {
                prop_assert_eq!(unit.parse(&unit.format(amount)), Ok(amount));
                prop_assert_eq!(unit.parse(&unit.format(amount >> 20 << 20)), Ok(amount >> 20 << 20));
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9.kKMmGiE -]{0,50}") {
            for unit in [Unit::Milli, Unit::Byte, Unit::Count] {
                if let Ok(amount) = unit.parse(&text) {
                    prop_assert!(amount >= 0);
                }
            }
        }
    }
}
