//! Amounts of several resources: `{cpu: "500m", memory: "2Gi", gpu: 1}`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Unit;

/// An amount per dimension, in the unit of that dimension. As JSON the way people write them.
///
/// A dimension that is missing is zero where something is asked for or used, and unlimited where something is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    pub fn get(&self, dimension: &str) -> Option<i64> {
        self.0.get(dimension).copied()
    }

    pub fn insert(&mut self, dimension: impl Into<String>, amount: i64) {
        self.0.insert(dimension.into(), amount);
    }

    /// In the order of the dimensions' names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(dimension, amount)| (dimension.as_str(), *amount))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, i64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

/// `cpu=500m, memory=2Gi`
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (dimension, amount)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{dimension}={}", Unit::of_dimension(dimension).format(amount))?;
        }
        Ok(())
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.iter().map(|(dimension, amount)| (dimension, Unit::of_dimension(dimension).format(amount))),
        )
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AmountsVisitor)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

struct AmountsVisitor;

impl<'de> Visitor<'de> for AmountsVisitor {
    type Value = Amounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by dimension, such as {\"cpu\": \"500m\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amounts, A::Error> {
        let mut amounts = Amounts::default();
        while let Some((dimension, written)) = map.next_entry::<String, Written>()? {
            let unit = Unit::of_dimension(&dimension);
            let amount = match written {
                Written::Number(number) => unit.from_whole(number),
                Written::Text(text) => unit.parse(&text),
            };
            let amount = amount.map_err(|error| A::Error::custom(format!("{dimension} {error}")))?;
            amounts.insert(dimension, amount);
        }
        Ok(amounts)
    }
}

impl JsonSchema for Amounts {
    fn schema_name() -> Cow<'static, str> {
        "Amounts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "cpu": {
                    "type": ["integer", "string"],
                    "format": "quantity-milli",
                    "description": "Processors: 2, or \"500m\" for half a one.",
                },
                "memory": {
                    "type": ["integer", "string"],
                    "format": "quantity-byte",
                    "description": "Bytes: \"512Mi\", \"2Gi\".",
                },
                "storage": {
                    "type": ["integer", "string"],
                    "format": "quantity-byte",
                    "description": "Bytes of disk: \"10Gi\".",
                },
            },
            "propertyNames": {"format": "label-key"},
            "additionalProperties": {
                "type": ["integer", "string"],
                "format": "quantity-count",
                "description": "Any other resource that nodes offer by this name, such as gpu: a whole number.",
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dimension_is_read_in_its_unit_and_written_for_people() {
        let amounts: Amounts =
            serde_json::from_str(r#"{"memory": "2048Mi", "cpu": 2, "gpu": "1", "storage": 1024}"#).unwrap();
        assert_eq!(amounts.get("cpu"), Some(2000));
        assert_eq!(amounts.get("memory"), Some(2 << 30));
        assert_eq!(amounts.get("gpu"), Some(1));
        assert_eq!(amounts.get("fpga"), None);
        assert_eq!(
            serde_json::to_string(&amounts).unwrap(),
            r#"{"cpu":"2","gpu":"1","memory":"2Gi","storage":"1Ki"}"#
        );
        assert_eq!(amounts.to_string(), "cpu=2, gpu=1, memory=2Gi, storage=1Ki");
    }

    #[test]
    fn what_is_no_amount_is_refused_by_name() {
        for (text, word) in [
            (r#"{"gpu": "1.5"}"#, "gpu"),
            (r#"{"cpu": 1.5}"#, "did not match"),
            (r#"{"cpu": -1}"#, "did not match"),
        ] {
            let error = serde_json::from_str::<Amounts>(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
