//! Which keywords a schema may use, and where.
//!
//! The list names what is allowed, so that a keyword nobody honours is refused instead of being ignored.

use setpoint_types::schema::TEXT_FORMATS;

/// Descriptions. They mean nothing to a validation.
const ANNOTATIONS: &[&str] =
    &["$comment", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];

/// Conditions on a value, allowed everywhere.
const CONDITIONS: &[&str] = &[
    "const",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "type",
    "uniqueItems",
];

/// What gives an object its shape. Only outside of alternatives.
const SHAPE: &[&str] = &["additionalProperties", "default"];

/// Extensions of ours. Only outside of alternatives.
const EXTENSIONS: &[&str] = &[
    "x-setpoint-immutable",
    "x-setpoint-list-map-keys",
    "x-setpoint-list-type",
    "x-setpoint-map-type",
    "x-setpoint-preserve-unknown",
    "x-setpoint-rules",
];

/// Keywords that hold one schema tried on the same value, or on a part of it.
pub const ALTERNATIVE: &[&str] = &["contains", "else", "if", "not", "propertyNames", "then"];

/// Keywords that hold a list of those.
pub const ALTERNATIVES: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Keywords that hold schemas of parts.
const PARTS: &[&str] = &["items", "properties"];

/// Formats of JSON Schema that are checked.
const STANDARD_FORMATS: &[&str] =
    &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// Formats that are checked: JSON Schema's, and those of texts in built-in kinds. Another one would only look like a check.
pub fn formats() -> impl Iterator<Item = &'static str> {
    STANDARD_FORMATS.iter().chain(TEXT_FORMATS).copied()
}

/// What to say about a keyword, if it may not be here.
pub fn refused(keyword: &str, in_alternative: bool) -> Option<&'static str> {
    let known = |list: &[&str]| list.contains(&keyword);
    if known(ANNOTATIONS) || known(CONDITIONS) || known(ALTERNATIVE) || known(ALTERNATIVES) || known(PARTS) {
        return None;
    }
    if known(SHAPE) || known(EXTENSIONS) {
        return in_alternative.then_some("may not be inside of alternatives: write it beside them");
    }
    if keyword.starts_with("x-") && !keyword.starts_with("x-setpoint-") {
        return None;
    }
    Some(match keyword {
        "$ref" | "$dynamicRef" | "$recursiveRef" => "only references to \"#/$defs/NAME\" are resolved",
        "$schema" | "$defs" | "$id" => "belongs at the top of the schema",
        "patternProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "prefixItems"
        | "additionalItems" => "does not fit: which fields there are must not depend on values",
        "nullable" => "is not JSON Schema: write \"type\": [\"string\", \"null\"]",
        _ => "is not a keyword that is known here",
    })
}
