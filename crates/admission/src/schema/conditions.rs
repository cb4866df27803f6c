//! Conditions on values: `minimum`, `pattern`, `anyOf` and the rest, by the `jsonschema` crate.
//!
//! It is built without its resolvers of files and addresses, with the regular expressions that cannot backtrack, and is
//! given a schema without references, so that its time is bounded by the sizes of schema and object.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use setpoint_types::schema::{TEXT_FORMATS, check_text};

use crate::limits::{MESSAGE_BYTES_MAX, PROBLEMS_MAX, REGEX_BYTES_MAX};
use crate::path::Path;
use crate::problem::Finding;

/// The conditions of a schema, ready to be checked.
#[derive(Debug)]
pub struct Conditions {
    validator: Validator,
}

impl Conditions {
    /// Of a schema that was read without problems.
    pub fn new(schema: &Value) -> Result<Self, Finding> {
        let patterns = PatternOptions::regex().size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX);
        let mut options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(true);
        for &format in TEXT_FORMATS {
            options = options.with_format(format, move |text: &str| check_text(format, text).is_ok());
        }
        let validator = options.build(&conditions_of(schema)).map_err(|error| {
            let parts = pointer(error.instance_path().as_str());
            let path = Path::in_value(parts.iter().map(String::as_str), schema);
            Finding { path, message: message(&error) }
        })?;
        Ok(Self { validator })
    }

    /// What does not hold for `value`, up to a limit.
    pub fn check(&self, value: &Value) -> Vec<Finding> {
        let check = || {
            self.validator.iter_errors(value).take(PROBLEMS_MAX).map(|error| unmet(&error, value)).collect()
        };
        // Regular expressions are known to panic on rare patterns. A value that cannot be checked is not let through.
        catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| {
            vec![Finding {
                path: Path::root(),
                message: "could not be checked against its schema".to_owned(),
            }]
        })
    }
}

/// The schema without what others take care of: our extensions, defaults, and closed objects, whose unknown fields are a
/// question of the request.
fn conditions_of(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut kept = Map::new();
    for (keyword, value) in fields {
        let value = match keyword.as_str() {
            "additionalProperties" if value.is_boolean() => continue,
            keyword if keyword.starts_with("x-") => continue,
            "default" | "examples" => continue,
            "const" | "enum" | "required" | "type" | "dependentRequired" => value.clone(),
            "properties" => match value {
                Value::Object(fields) => Value::Object(
                    fields.iter().map(|(name, field)| (name.clone(), conditions_of(field))).collect(),
                ),
                other => other.clone(),
            },
            _ => match value {
                Value::Array(schemas) => Value::Array(schemas.iter().map(conditions_of).collect()),
                value => conditions_of(value),
            },
        };
        kept.insert(keyword.clone(), value);
    }
    Value::Object(kept)
}

fn unmet(error: &ValidationError<'_>, value: &Value) -> Finding {
    let parts = pointer(error.instance_path().as_str());
    let mut path = Path::in_value(parts.iter().map(String::as_str), value);
    if let ValidationErrorKind::Required { property } = error.kind()
        && let Some(name) = property.as_str()
    {
        path = path.field(name);
    }
    Finding { path, message: message(error) }
}

/// In words that follow a field's path. The value is left out: it is in the request, and may be long or secret.
fn message(error: &ValidationError<'_>) -> String {
    let text = match error.kind() {
        ValidationErrorKind::Required { .. } => "is required".to_owned(),
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => {
            format!("must be of type {kind}, not {}", type_of(error.instance()))
        }
        ValidationErrorKind::Minimum { limit } => format!("must be at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("must be at most {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("must have at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("must have at most {limit} characters"),
        ValidationErrorKind::MinItems { limit } => format!("must have at least {limit} elements"),
        ValidationErrorKind::MaxItems { limit } => format!("must have at most {limit} elements"),
        ValidationErrorKind::MinProperties { limit } => format!("must have at least {limit} fields"),
        ValidationErrorKind::MaxProperties { limit } => format!("must have at most {limit} fields"),
        ValidationErrorKind::Pattern { pattern } => format!("must match {pattern:?}"),
        ValidationErrorKind::Format { format } => format!("must be a valid {format}"),
        ValidationErrorKind::Enum { options } => format!("must be one of {options}"),
        ValidationErrorKind::Constant { expected_value } => format!("must be {expected_value}"),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(kinds) } => {
            let kinds: Vec<String> = kinds.into_iter().map(|kind| kind.to_string()).collect();
            format!("must be of type {}, not {}", kinds.join(" or "), type_of(error.instance()))
        }
        ValidationErrorKind::Not { .. } => "must not fit the schema in \"not\", but does".to_owned(),
        ValidationErrorKind::AnyOf { .. } => "must fit an alternative of \"anyOf\", but fits none".to_owned(),
        ValidationErrorKind::OneOfNotValid { .. } => {
            "must fit an alternative of \"oneOf\", but fits none".to_owned()
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "must fit one alternative of \"oneOf\", but fits several".to_owned()
        }
        ValidationErrorKind::UniqueItems => "must not have the same element twice".to_owned(),
        _ => error.masked().to_string(),
    };
    match text.char_indices().nth(MESSAGE_BYTES_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The parts of a JSON pointer.
fn pointer(text: &str) -> Vec<String> {
    text.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}
