//! What a field is when nobody says: the schema's `default`, put where the field is absent or `null`.
//!
//! A default inside an absent object is not used: the object stays absent, unless it has a default itself. Also here: `null`
//! means absent wherever the schema names a field, so nobody has to tell the two apart afterwards; in parts whose shape is
//! free, and in lists, `null` stays a value.

use serde_json::Value;

use crate::DEFAULTED_BYTES_MAX;
use crate::decode::size;
use crate::fields::push_field;
use crate::refusal::FieldProblem;
use crate::topology::{ListMerge, NodeId, Rest, Shape, Topology};
use crate::view::{Place, is_deep};

/// Fills in defaults, and says which of them may differ from what `before` has, as sorted paths below `at`; or where they
/// would become too much. Most defaults of most updates were filled in before, and nobody has to know of those.
pub fn fill(
    value: &mut Value,
    topology: &Topology,
    node: NodeId,
    before: &Value,
    at: &str,
) -> Result<Vec<String>, TooMuch> {
    let (mut filled, mut at) = (Vec::new(), at.to_owned());
    let news = News { filled: &mut filled, at: &mut at, before: Some(before) };
    // Defaults of a compiled schema are whole, so the recursion is that of the value.
    walk(value, Place::new(topology, node), &mut Bounds::of_object(), Some(news))?;
    filled.sort_unstable();
    Ok(filled)
}

/// As [`fill`], where nobody asks which fields they are.
pub(crate) fn fill_silently(value: &mut Value, topology: &Topology, node: NodeId) -> Result<(), TooMuch> {
    walk(value, Place::new(topology, node), &mut Bounds::of_object(), None)
}

/// As [`fill`], where defaults may have gaps themselves, which may not end within bounds.
pub(crate) fn fill_within(
    value: &mut Value,
    topology: &Topology,
    node: NodeId,
    bounds: &mut Bounds,
) -> Result<(), TooMuch> {
    walk(value, Place::new(topology, node), bounds, None)
}

/// Defaults that would make an object too large: where that was noticed, seen from where they were filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuch {
    pub path: String,
}

impl TooMuch {
    fn within_field(self, name: &str) -> Self {
        let mut path = String::new();
        push_field(&mut path, name);
        Self { path: path + &self.path }
    }

    fn within_item(self, index: usize) -> Self {
        Self { path: format!("[{index}]{}", self.path) }
    }

    /// As a problem of the object, with `section` being where they were filled in.
    pub(crate) fn problem(&self, section: &str) -> FieldProblem {
        let message = format!(
            "would make the object too large: its defaults add more than {DEFAULTED_BYTES_MAX} bytes with those before it"
        );
        FieldProblem::new(format!("{section}{}", self.path), message)
    }
}

pub(crate) struct Bounds {
    pub depth: usize,
    pub values: usize,
    /// Of JSON, that defaults add.
    pub bytes: usize,
}

impl Bounds {
    fn of_object() -> Self {
        Self { depth: usize::MAX, values: usize::MAX, bytes: DEFAULTED_BYTES_MAX }
    }

    fn enter(&mut self) -> Result<(), TooMuch> {
        let (depth, values) = (self.depth.checked_sub(1), self.values.checked_sub(1));
        let (Some(depth), Some(values)) = (depth, values) else {
            return Err(TooMuch { path: String::new() });
        };
        (self.depth, self.values) = (depth, values);
        Ok(())
    }

    /// Before the default is copied.
    fn make_room(&mut self, name: &str, default: &Value) -> Result<(), TooMuch> {
        let bytes = name.len() + size(default).0;
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| TooMuch { path: String::new() }.within_field(name))?;
        Ok(())
    }
}

/// The defaults that are told, where the walk is, and what was there before.
struct News<'a> {
    filled: &'a mut Vec<String>,
    at: &'a mut String,
    before: Option<&'a Value>,
}

impl News<'_> {
    /// A default that was not there before, or about which that is not known.
    fn tell(&mut self, topology: &Topology, name: &str, field: NodeId, default: &Value) {
        if self.before.and_then(|before| before.get(name)) != Some(default) {
            let back = self.at.len();
            push_field(self.at, name);
            Place::new(topology, field).print_paths(default, self.at, self.filled);
            self.at.truncate(back);
        }
    }
}

fn walk(
    value: &mut Value,
    place: Place<'_>,
    bounds: &mut Bounds,
    mut news: Option<News<'_>>,
) -> Result<(), TooMuch> {
    if !place.topology.has_default(place.node) {
        return Ok(());
    }
    bounds.enter()?;
    let topology = place.topology;
    match (value, topology.shape(place.node)) {
        (Value::Object(object), Shape::Object { fields, .. }) => {
            for (name, field) in fields {
                let Some(default) = topology.default(*field) else { continue };
                if object.get(name).is_none_or(Value::is_null) {
                    bounds.make_room(name, default)?;
                    if let Some(news) = &mut news {
                        news.tell(topology, name, *field, default);
                    }
                    object.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in object.iter_mut().filter(|(_, value)| is_deep(value)) {
                let walked = match &mut news {
                    Some(News { filled, at, before }) => {
                        let back = at.len();
                        push_field(at, name);
                        let before = before.and_then(|before| before.get(name));
                        let walked =
                            walk(value, place.field(name), bounds, Some(News { filled, at, before }));
                        at.truncate(back);
                        walked
                    }
                    None => walk(value, place.field(name), bounds, None),
                };
                walked.map_err(|error| error.within_field(name))?;
            }
        }
        (Value::Array(array), Shape::List { merge, .. }) => {
            let news = news.filter(|_| matches!(merge, ListMerge::Map(_)));
            walk_items(array, place, bounds, news)?;
        }
        _ => {}
    }
    bounds.depth += 1;
    Ok(())
}

fn walk_items(
    array: &mut [Value],
    place: Place<'_>,
    bounds: &mut Bounds,
    mut news: Option<News<'_>>,
) -> Result<(), TooMuch> {
    for (index, item) in array.iter_mut().enumerate().filter(|(_, item)| is_deep(item)) {
        // Where the item is, is only written down if there is something to tell about it.
        let (mut below, mut at) = (Vec::new(), String::new());
        let before = news.as_ref().and_then(|news| same_item(place, news.before?.get(index)?, item));
        let told = news.is_some().then_some(News { filled: &mut below, at: &mut at, before });
        let walked = walk(item, place.item(), bounds, told);
        walked.map_err(|error| error.within_item(index))?;
        if let Some(news) = &mut news
            && !below.is_empty()
            && let Ok(step) = place.step_to(item)
        {
            let back = news.at.len();
            step.write(news.at);
            news.filled.extend(below.iter().map(|line| format!("{}{line}", news.at)));
            news.at.truncate(back);
        }
    }
    Ok(())
}

/// What the item was before, if that is at the same place.
fn same_item<'b>(place: Place<'_>, before: &'b Value, item: &Value) -> Option<&'b Value> {
    let same = |key: &String| before.get(key).is_some_and(|value| item.get(key) == Some(value));
    place.item().keys.iter().all(same).then_some(before)
}

/// Drops named fields that are `null`.
pub fn drop_nulls(value: &mut Value, topology: &Topology, node: NodeId) {
    match (value, topology.shape(node)) {
        (Value::Object(object), Shape::Object { fields, rest, .. }) => {
            let typed = |name: &str| match (fields.get(name), rest) {
                (Some(field), _) | (None, Rest::Each(field)) => Some(*field),
                (None, Rest::Unknown) => None,
            };
            let is_free =
                |name: &str| typed(name).is_none_or(|field| matches!(topology.shape(field), Shape::Any));
            if object.values().any(Value::is_null) {
                object.retain(|name, value| !value.is_null() || is_free(name));
            }
            for (name, value) in object.iter_mut().filter(|(_, value)| is_deep(value)) {
                drop_nulls(value, topology, typed(name).unwrap_or(NodeId::ANY));
            }
        }
        (Value::Array(array), Shape::List { items, .. }) => {
            for item in array {
                drop_nulls(item, topology, *items);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(spec: Value, given: Value, filled: Value) {
        let topology = Topology::of_kind(&json!({"properties": {"spec": spec}})).expect("a schema");
        let mut value = given;
        drop_nulls(&mut value, &topology, topology.spec());
        fill(&mut value, &topology, topology.spec(), &Value::Null, ".spec").expect("little");
        assert_eq!(value, filled);
    }

    #[test]
    fn absent_and_null_fields_get_their_default_and_others_stay() {
        let spec = json!({"properties": {
            "replicas": {"type": "integer", "default": 1},
            "paused": {"type": "boolean"},
        }});
        check(spec.clone(), json!({}), json!({"replicas": 1}));
        check(spec.clone(), json!({"replicas": null, "paused": null}), json!({"replicas": 1}));
        check(spec.clone(), json!({"replicas": 0}), json!({"replicas": 0}));
        check(spec, json!({"replicas": "x"}), json!({"replicas": "x"}));
    }

    #[test]
    fn only_defaults_that_were_not_there_before_are_told() {
        let inner = json!({"properties": {"a": {"default": 1}, "b": {"default": 2}}, "default": {}});
        let port = json!({"properties": {"name": {}, "protocol": {"default": "TCP"}}});
        let ports = json!({
            "items": port, "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["name"],
        });
        let spec = json!({"properties": {"inner": inner, "ports": ports, "c": {"default": 3}}});
        let topology = Topology::of_kind(&json!({"properties": {"spec": spec}})).expect("a schema");
        let told = |before: Value, mut value: Value| {
            fill(&mut value, &topology, topology.spec(), &before, "").expect("little")
        };
        let before = json!({"inner": {"a": 1, "b": 7}, "c": 3, "ports": []});
        assert_eq!(told(Value::Null, json!({})), [".c", ".inner.a", ".inner.b"]);
        assert_eq!(told(before.clone(), json!({"inner": {}})), [".inner.b"]);
        assert_eq!(told(before.clone(), json!({})), [".inner.a", ".inner.b"], "one default as a whole");
        let ports = json!({"inner": {"a": 1, "b": 7}, "ports": [{"name": "x"}]});
        assert_eq!(told(before, ports.clone()), [".ports[name=\"x\"].protocol"]);
        let filled = json!({"inner": {"a": 1, "b": 7}, "ports": [{"name": "x", "protocol": "TCP"}], "c": 3});
        assert_eq!(told(filled.clone(), ports), [""; 0], "the same item as before");
        let other = json!({"inner": {"a": 1, "b": 7}, "ports": [{"name": "y"}]});
        assert_eq!(told(filled, other), [".ports[name=\"y\"].protocol"], "another item in its place");
    }

    #[test]
    fn a_default_inside_an_absent_object_is_not_used() {
        let inner = json!({"properties": {"a": {"default": 1}}});
        check(json!({"properties": {"inner": inner}}), json!({}), json!({}));
        check(json!({"properties": {"inner": inner}}), json!({"inner": {}}), json!({"inner": {"a": 1}}));
        let mut with_default = inner;
        with_default["default"] = json!({});
        check(json!({"properties": {"inner": with_default}}), json!({}), json!({"inner": {"a": 1}}));
    }

    #[test]
    fn items_and_entries_of_maps_are_filled() {
        let item = json!({"properties": {"a": {"default": 1}}});
        let spec = json!({"properties": {"list": {"items": item}, "map": {"additionalProperties": item}}});
        check(
            spec,
            json!({"list": [{}, {"a": 2}, 3], "map": {"x": {}}}),
            json!({"list": [{"a": 1}, {"a": 2}, 3], "map": {"x": {"a": 1}}}),
        );
    }

    #[test]
    fn null_stays_where_the_shape_is_free() {
        let spec =
            json!({"properties": {"free": true, "known": {"type": "string"}, "list": {"type": "array"}}});
        check(
            spec,
            json!({"free": {"a": null}, "known": null, "list": [null]}),
            json!({"free": {"a": null}, "list": [null]}),
        );
    }

    #[test]
    fn defaults_cannot_blow_up_an_object() {
        let default = "x".repeat(100_000);
        let item = json!({"properties": {"a": {"default": default}}});
        let topology =
            Topology::of_kind(&json!({"properties": {"spec": {"properties": {"l": {"items": item}}}}}));
        let topology = topology.expect("a schema");
        // All of it would be ten gigabytes.
        let mut value = json!({"l": vec![json!({}); 100_000]});
        let refused = fill(&mut value, &topology, topology.spec(), &Value::Null, "").expect_err("too much");
        assert_eq!(refused.path, ".l[10].a");
        let mut value = json!({"l": vec![json!({}); 10]});
        assert!(fill_silently(&mut value, &topology, topology.spec()).is_ok());
    }

    #[test]
    fn defaults_inside_defaults_cannot_blow_up_a_schema() {
        let item = json!({"properties": {"a": {"default": "x".repeat(100_000)}}});
        let list = json!({"items": item, "default": vec![json!({}); 50_000]});
        let schema = json!({"properties": {"spec": {"properties": {"l": list}}}});
        let problems = Topology::of_kind(&schema).expect_err("too much");
        assert!(problems[0].message.contains("too large"), "{problems:?}");
    }

    #[test]
    fn a_default_that_contains_itself_is_refused() {
        let schema = json!({
            "properties": {"spec": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": {"properties": {
                "left": {"$ref": "#/$defs/tree", "default": {}}, "right": {"$ref": "#/$defs/tree", "default": {}},
            }}},
        });
        let problems = Topology::of_kind(&schema).expect_err("a problem");
        assert!(problems[0].message.contains("contains itself"), "{problems:?}");
    }
}
