//! The formats that texts in built-in kinds may have, by the name the schema gives them.

use serde_json::Value;

use crate::names;
use crate::quantity::{CountOrPercent, Unit};
use crate::selector::LabelSelector;

/// The formats of texts, which users' kinds may use, too.
pub const TEXT_FORMATS: &[&str] = &[
    "dns-label",
    "dns-subdomain",
    "env-name",
    "kind",
    "label-key",
    "label-selector",
    "label-value",
    "reason",
];

/// What is wrong with a text of one of the [`TEXT_FORMATS`], if anything. Other formats mean nothing here.
pub fn check_text(format: &str, text: &str) -> Result<(), String> {
    match Format::of(format) {
        Some(format @ (Format::Name(_) | Format::LabelSelector)) => format.check_text(text),
        _ => Ok(()),
    }
}

/// A format, found by its name once: every text of every write is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    Quantity(Unit),
    CountOrPercent,
    LabelSelector,
    Name(fn(&str) -> Result<(), &'static str>),
}

impl Format {
    /// None for formats that are not ours: they mean nothing here.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "quantity-milli" => Self::Quantity(Unit::Milli),
            "quantity-byte" => Self::Quantity(Unit::Byte),
            "quantity-count" => Self::Quantity(Unit::Count),
            "count-or-percent" => Self::CountOrPercent,
            "label-selector" => Self::LabelSelector,
            "dns-label" => Self::Name(names::check_dns_label),
            "dns-subdomain" => Self::Name(names::check_dns_subdomain),
            "label-key" => Self::Name(names::check_label_key),
            "label-value" => Self::Name(names::check_label_value),
            "kind" => Self::Name(names::check_kind),
            "env-name" => Self::Name(names::check_env_name),
            "reason" => Self::Name(names::check_reason),
            _ => return None,
        })
    }

    /// What is wrong with a value, if anything.
    pub fn check(self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (_, Value::String(text)) => self.check_text(text),
            (Self::Quantity(unit), Value::Number(number)) => match number.as_u64() {
                Some(number) => unit.from_whole(number).map(drop).map_err(|error| error.to_string()),
                None => Err("must not be negative".into()),
            },
            (Self::CountOrPercent, Value::Number(number)) => {
                let fits = number.as_u64().is_some_and(|number| u32::try_from(number).is_ok());
                if fits { Ok(()) } else { Err("must not be negative or larger than 4294967295".into()) }
            }
            _ => Ok(()),
        }
    }

    /// What is wrong with a text.
    pub fn check_text(self, text: &str) -> Result<(), String> {
        match self {
            Self::Name(check) => check(text).map_err(str::to_owned),
            Self::LabelSelector => {
                LabelSelector::parse(text).map(drop).map_err(|error| format!("is no label selector: {error}"))
            }
            Self::Quantity(unit) => unit.parse(text).map(drop).map_err(|error| error.to_string()),
            Self::CountOrPercent => text.parse::<CountOrPercent>().map(drop).map_err(str::to_owned),
        }
    }
}
