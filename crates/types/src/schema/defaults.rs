//! Fills in what a writer left out.

use serde_json::Value;

use super::PRESERVE_UNKNOWN;

/// Writes the schema's defaults where a field is missing, and takes away fields that are null: null means left out.
///
/// A default inside an object that is itself missing is not filled in, unless the object has a default too.
pub fn fill_defaults(schema: &Value, value: &mut Value) {
    if schema[PRESERVE_UNKNOWN] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            let properties = schema["properties"].as_object();
            for (name, property) in properties.into_iter().flatten() {
                if !fields.contains_key(name)
                    && let Some(default) = property.get("default")
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields {
                let property = properties.and_then(|properties| properties.get(name));
                fill_defaults(property.unwrap_or(&schema["additionalProperties"]), field);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|it| fill_defaults(&schema["items"], it)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: Value) {
        let part = json!({"properties": {"a": {"default": 1}, "b": {}}});
        let schema = json!({
            "properties": {
                "with": {"properties": part["properties"], "default": {"b": 2}},
                "without": part,
                "list": {"items": part},
                "map": {"additionalProperties": part},
                "free": {"x-setpoint-preserve-unknown": true},
            },
        });
        let mut filled = value;
        fill_defaults(&schema, &mut filled);
        assert_eq!(filled, expected);
    }

    #[test]
    fn missing_fields_get_their_default_and_given_ones_stay() {
        check(json!({}), json!({"with": {"a": 1, "b": 2}}));
        check(json!({"with": {"a": 5}}), json!({"with": {"a": 5}}));
        check(
            json!({"with": {}, "without": {}, "list": [{}, {"a": 2}], "map": {"k": {}}}),
            json!({
                "with": {"a": 1}, "without": {"a": 1}, "list": [{"a": 1}, {"a": 2}], "map": {"k": {"a": 1}},
            }),
        );
    }

    #[test]
    fn null_means_left_out_except_where_anything_goes() {
        check(
            json!({"with": null, "without": {"a": null, "b": null}, "free": {"x": null}}),
            json!({"with": {"a": 1, "b": 2}, "without": {"a": 1}, "free": {"x": null}}),
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_left_for_the_check() {
        check(json!({"with": 3, "list": {"a": 1}}), json!({"with": 3, "list": {"a": 1}}));
    }
}
