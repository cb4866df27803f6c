//! A number of replicas, or a share of them: `3`, `"25%"`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A count, or a percentage of a count that is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountOrPercent {
    Count(u32),
    Percent(u32),
}

impl CountOrPercent {
    /// How many of `total` that is, at least.
    pub fn rounded_up(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => clamp((u64::from(percent) * u64::from(total)).div_ceil(100)),
        }
    }

    /// How many of `total` that is, at most.
    pub fn rounded_down(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => clamp(u64::from(percent) * u64::from(total) / 100),
        }
    }

    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl FromStr for CountOrPercent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "must be a number such as 3, or a share such as \"25%\"";
        let (digits, make): (&str, fn(u32) -> Self) = match text.strip_suffix('%') {
            Some(digits) => (digits, Self::Percent),
            None => (text, Self::Count),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(EXPECTED);
        }
        digits.parse().map(make).map_err(|_| EXPECTED)
    }
}

impl fmt::Display for CountOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for CountOrPercent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for CountOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(count) => Ok(Self::Count(count)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for CountOrPercent {
    fn schema_name() -> Cow<'static, str> {
        "CountOrPercent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["integer", "string"], "format": "count-or-percent"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_the_way_the_caller_needs() {
        let quarter: CountOrPercent = "25%".parse().unwrap();
        assert_eq!((quarter.rounded_up(10), quarter.rounded_down(10)), (3, 2));
        assert_eq!((quarter.rounded_up(0), quarter.rounded_down(3)), (0, 0));
        assert_eq!(CountOrPercent::Count(3).rounded_up(1), 3);
        assert_eq!(CountOrPercent::Percent(u32::MAX).rounded_up(u32::MAX), u32::MAX);
    }

    #[test]
    fn both_forms_are_read_and_written() {
        for (json, value) in [("3", CountOrPercent::Count(3)), ("\"25%\"", CountOrPercent::Percent(25))] {
            assert_eq!(serde_json::from_str::<CountOrPercent>(json).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
        for bad in ["", "%", "-1", "1.5", "25 %", "+3", "99999999999"] {
            assert!(bad.parse::<CountOrPercent>().is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<CountOrPercent>("-1").is_err());
    }
}
