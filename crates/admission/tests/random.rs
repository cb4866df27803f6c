//! Whatever schemas, objects and expressions there are: nothing panics, and what was accepted keeps its promises.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use setpoint_admission::cel::{Bindings, Expression, Scope};
use setpoint_admission::kind::TakenNames;
use setpoint_admission::{Budget, CustomKind};
use setpoint_types::kinds::KindDefinitionSpec;

const NAMES: [&str; 5] = ["a", "b", "c", "spec", "x.y/z"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,4}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |below| {
        prop_oneof![
            prop::collection::vec(below.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(name(), below, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Schemas that are mostly good, so that what is behind the checks is reached.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(
            json!({"type": "string", "minLength": 2, "x-setpoint-rules": [{"rule": "self.startsWith('a')"}]})
        ),
        Just(json!({"type": "string", "pattern": "^[a-b]+$", "default": "ab"})),
        Just(json!({"type": "integer", "minimum": 0, "x-setpoint-rules": [{"rule": "self > oldSelf"}]})),
        Just(json!({"type": ["number", "null"], "x-setpoint-rules": [{"rule": "self * 2.0 < 8.0"}]})),
        Just(json!({"type": "boolean", "default": true, "x-setpoint-immutable": true})),
        Just(json!({"x-setpoint-preserve-unknown": true})),
        Just(json!({"type": "string", "format": "date-time"})),
    ];
    leaf.prop_recursive(4, 32, 4, |below| {
        let fields = prop::collection::btree_map(name(), below.clone(), 0..4);
        prop_oneof![
            fields.prop_map(object_schema),
            below
                .clone()
                .prop_map(|item| json!({"type": "array", "items": without_rules(item), "maxItems": 3})),
            below.clone().prop_map(|value| json!({"type": "object", "additionalProperties": value})),
            below.prop_map(|item| {
                let fields = json!({"a": {"type": "string"}, "b": item});
                json!({"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["a"],
                       "items": {"type": "object", "properties": fields, "required": ["a"]}})
            }),
        ]
    })
}

/// Rules with `oldSelf` are refused inside of lists without keys.
fn without_rules(mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema {
        fields.remove("x-setpoint-rules");
        for field in fields.values_mut() {
            *field = without_rules(field.take());
        }
    }
    schema
}

fn object_schema(fields: std::collections::BTreeMap<String, Value>) -> Value {
    let required: Vec<&String> = fields.keys().take(1).collect();
    let rules = json!([{"rule": "size(self) > 0", "messageExpression": "string(size(self))"},
                       {"rule": "self.all(k, k in oldSelf || k != 'b')"}]);
    json!({"type": "object", "required": required, "properties": fields, "x-setpoint-rules": rules})
}

fn define(schema: Value) -> Result<CustomKind, usize> {
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let definition = json!({"names": {"kind": "Any", "plural": "anys"}, "schema": schema});
    let definition: KindDefinitionSpec = serde_json::from_value(definition).expect("a definition");
    CustomKind::compile(&definition, &TakenNames::default()).map_err(|problems| problems.len())
}

/// An object that fits the schema here and there.
fn shaped(schema: &Value, seed: &Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            let mut made: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), shaped(field, seed))).collect();
            if let Some(value) = schema.get("additionalProperties") {
                made.insert("k".to_owned(), shaped(value, seed));
            }
            Value::Object(made)
        }
        Some("array") => json!([shaped(&schema["items"], seed), seed]),
        Some("string") => json!("ab"),
        Some("integer") => json!(3),
        _ => seed.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_json_as_a_schema_is_compiled_or_refused(schema in any_json(), object in any_json()) {
        if let Ok(kind) = define(schema) {
            kind.validate(None, &json!({"spec": object}), &mut Budget::for_request());
        }
    }

    #[test]
    fn validation_takes_any_object(schema in schema(), seed in any_json(), other in any_json()) {
        let kind = define(schema.clone()).expect("made to be good");
        for spec in [shaped(&schema, &seed), seed, Value::Null] {
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            let old = json!({"spec": other.clone()});
            kind.validate(None, &object, &mut Budget::for_request());
            kind.validate(Some(&old), &object, &mut Budget::for_request());
            // What changes nothing is never refused, whatever it is.
            prop_assert_eq!(kind.validate(Some(&object), &object, &mut Budget::for_request()), vec![]);
        }
    }

    #[test]
    fn any_text_as_an_expression_is_compiled_or_refused(text in any::<String>(), value in any_json()) {
        run(&text, &value);
    }

    #[test]
    fn expressions_put_together_at_random_come_to_an_end(parts in prop::collection::vec(part(), 1..24), value in any_json()) {
        run(&parts.concat(), &value);
        run(&parts.join(" "), &value);
    }
}

fn run(text: &str, value: &Value) {
    let Ok(expression) = Expression::compile(text, &Scope::of(&["self", "x"])) else { return };
    let mut bindings = Bindings::new();
    bindings.bind("self", value, None);
    bindings.bind("x", value, None);
    let _ = expression.evaluate(&bindings, &mut Budget::for_request());
}

fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "self",
        "x",
        ".a",
        "[0]",
        "['b']",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "&&",
        "||",
        "!",
        "1",
        "0",
        "-1",
        "9223372036854775807",
        "1u",
        "1.5",
        "1e308",
        "'a'",
        "\"b\"",
        "r'\\'",
        "b'\\xff'",
        "null",
        "true",
        "false",
        ".all(x,",
        ".map(x,",
        ".filter(x,",
        ".exists(x,",
        ".exists_one(x,",
        "has(self.a)",
        "size(",
        ".size()",
        ".matches('a')",
        ".split('')",
        ".join()",
        "duration('1h')",
        "timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z')",
        "duration('999999999h')",
        ".getFullYear()",
        "int(",
        "uint(",
        "double(",
        "string(",
        ".substring(1)",
        ".charAt(0)",
        "type(",
        "dyn(",
        "\n",
        " // c\n",
    ])
}
