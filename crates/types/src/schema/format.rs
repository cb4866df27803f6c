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
    match format {
        "label-selector" => {
            LabelSelector::parse(text).map(drop).map_err(|error| format!("is no label selector: {error}"))
        }
        _ => check_name(format, text).map_err(str::to_owned),
    }
}

/// What is wrong with a value of this format, if anything. Formats that are not ours mean nothing here.
pub(super) fn check_format(format: &str, value: &Value) -> Result<(), String> {
    match (format, value) {
        ("quantity-milli", value) => check_quantity(Unit::Milli, value),
        ("quantity-byte", value) => check_quantity(Unit::Byte, value),
        ("quantity-count", value) => check_quantity(Unit::Count, value),
        ("count-or-percent", Value::String(text)) => {
            text.parse::<CountOrPercent>().map(drop).map_err(str::to_owned)
        }
        ("count-or-percent", Value::Number(number)) => {
            let fits = number.as_u64().is_some_and(|number| u32::try_from(number).is_ok());
            if fits { Ok(()) } else { Err("must not be negative or larger than 4294967295".into()) }
        }
        (format, Value::String(text)) => check_text(format, text),
        _ => Ok(()),
    }
}

fn check_name(format: &str, text: &str) -> Result<(), &'static str> {
    match format {
        "dns-label" => names::check_dns_label(text),
        "dns-subdomain" => names::check_dns_subdomain(text),
        "label-key" => names::check_label_key(text),
        "label-value" => names::check_label_value(text),
        "kind" => names::check_kind(text),
        "env-name" => names::check_env_name(text),
        "reason" => names::check_reason(text),
        _ => Ok(()),
    }
}

fn check_quantity(unit: Unit, value: &Value) -> Result<(), String> {
    let verdict = match value {
        Value::String(text) => unit.parse(text),
        Value::Number(number) => match number.as_u64() {
            Some(number) => unit.from_whole(number),
            None => return Err("must not be negative".into()),
        },
        _ => return Ok(()),
    };
    verdict.map(drop).map_err(|error| error.to_string())
}
