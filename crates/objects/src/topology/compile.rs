//! From a JSON Schema to the graph of shapes.
//!
//! A node is known by the subschemas it stands for. They are found by address, so that a recursive type leads back to its
//! own node; the number of nodes is bounded, because combinations of subschemas could be many.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ListMerge, Node, NodeId, Rest, Shape, Topology, Within};
use crate::DEPTH_MAX;
use crate::fields::push_field;
use crate::metadata;
use crate::refusal::FieldProblem;

/// Of one kind. The largest built-in kind has some hundred.
const NODES_MAX: usize = 10_000;
/// Subschemas that speak of one place.
const PARTS_MAX: usize = 256;

/// Keywords that hold further subschemas about the same place.
const LISTS_OF_PARTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const PARTS: [&str; 2] = ["then", "else"];

pub(super) fn kind(schema: &Value) -> Result<Topology, Vec<FieldProblem>> {
    let metadata_schema = metadata::schema();
    let mut nodes = vec![Node::ANY];
    let mut problems = Vec::new();
    let mut of = |root: &Value, name: Option<&str>| {
        let mut compiler = Compiler {
            root,
            nodes: std::mem::take(&mut nodes),
            known: BTreeMap::new(),
            problems: Vec::new(),
            depth: 0,
        };
        let parts = compiler.section(name);
        let node =
            parts.map(|parts| compiler.node(parts, &name.map_or(String::new(), |name| format!(".{name}"))));
        nodes = compiler.nodes;
        problems.append(&mut compiler.problems);
        node
    };
    let metadata = of(&metadata_schema, None).unwrap_or(NodeId::ANY);
    let spec = of(schema, Some("spec"));
    let status = of(schema, Some("status"));
    note_what_is_within(&mut nodes);
    let mut topology = Topology { nodes, metadata, spec, status };
    super::defaults::settle(&mut topology, &mut problems);
    if problems.is_empty() { Ok(topology) } else { Err(problems) }
}

/// Notes for every node what is at or below it, so that walks pass over what has nothing for them.
fn note_what_is_within(nodes: &mut [Node]) {
    let is_keyed =
        |node: &Node| matches!(node.shape, Shape::List { merge: ListMerge::Set | ListMerge::Map(_), .. });
    let immutable = within(nodes, |node| node.immutable);
    let default = within(nodes, |node| node.default.is_some());
    let keyed = within(nodes, is_keyed);
    for (index, node) in nodes.iter_mut().enumerate() {
        node.within =
            Within { immutable: immutable[index], default: default[index], keyed_list: keyed[index] };
    }
}

/// For every node whether it, or something below it, is like that. Types may be recursive, so nodes are followed upwards from
/// what is.
fn within(nodes: &[Node], is: impl Fn(&Node) -> bool) -> Vec<bool> {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        node.shape.below().for_each(|NodeId(below)| above[below].push(index));
    }
    let mut found = vec![false; nodes.len()];
    let mut left: Vec<usize> = (0..nodes.len()).filter(|index| is(&nodes[*index])).collect();
    while let Some(index) = left.pop() {
        if !std::mem::replace(&mut found[index], true) {
            left.extend(&above[index]);
        }
    }
    found
}

struct Compiler<'s> {
    root: &'s Value,
    nodes: Vec<Node>,
    /// By the addresses of the subschemas they stand for.
    known: BTreeMap<Vec<usize>, NodeId>,
    problems: Vec<FieldProblem>,
    depth: usize,
}

impl<'s> Compiler<'s> {
    fn wrong(&mut self, path: &str, message: impl Into<String>) {
        let path = if path.is_empty() { "." } else { path };
        self.problems.push(FieldProblem::new(path, message));
    }

    /// The subschemas of a section, if the kind has it; of the whole schema without a name.
    fn section(&mut self, name: Option<&str>) -> Option<Vec<&'s Value>> {
        let Some(name) = name else { return Some(vec![self.root]) };
        let mut whole = Vec::new();
        self.gather(self.root, "", 0, &mut whole);
        let parts: Vec<&Value> = whole.iter().filter_map(|part| part.get("properties")?.get(name)).collect();
        (!parts.is_empty()).then_some(parts)
    }

    /// The node of some subschemas about one place.
    fn node(&mut self, schemas: Vec<&'s Value>, path: &str) -> NodeId {
        let mut parts = Vec::new();
        for schema in schemas {
            self.gather(schema, path, 0, &mut parts);
        }
        if parts.is_empty() {
            return NodeId::ANY;
        }
        let mut identity: Vec<usize> = parts.iter().map(|part| std::ptr::from_ref(*part).addr()).collect();
        identity.sort_unstable();
        if let Some(node) = self.known.get(&identity) {
            return *node;
        }
        if self.nodes.len() >= NODES_MAX {
            if self.nodes.len() == NODES_MAX {
                self.wrong(path, format!("is one place too many for a schema: at most {NODES_MAX}"));
                self.nodes.push(Node::ANY);
            }
            return NodeId::ANY;
        }
        let node = NodeId(self.nodes.len());
        let immutable = parts.iter().any(|part| flag(part, "x-setpoint-immutable"));
        let default = parts.iter().find_map(|part| part.get("default")).filter(|value| !value.is_null());
        self.nodes.push(Node { default: default.cloned(), immutable, ..Node::ANY });
        self.known.insert(identity, node);
        let shape = self.shape(&parts, path);
        self.nodes[node.0].shape = shape;
        node
    }

    /// A subschema and all it refers to for the same place. A `$ref` that comes back to itself says nothing new.
    fn gather(
        &mut self,
        schema: &'s Value,
        path: &str,
        depth: usize,
        parts: &mut Vec<&'s Map<String, Value>>,
    ) {
        let Value::Object(part) = schema else { return };
        if parts.iter().any(|known| std::ptr::eq(*known, part)) {
            return;
        }
        if parts.len() >= PARTS_MAX || depth >= DEPTH_MAX {
            return self.wrong(path, "has too many or too deeply nested subschemas");
        }
        parts.push(part);
        if let Some(reference) = part.get("$ref") {
            match reference.as_str().and_then(|reference| resolve(self.root, reference)) {
                Some(target) => self.gather(target, path, depth + 1, parts),
                None => self.wrong(
                    path,
                    format!("refers to {reference}, which is not in this schema; only `#/…` can be followed"),
                ),
            }
        }
        let listed = LISTS_OF_PARTS.iter().filter_map(|keyword| part.get(*keyword)?.as_array()).flatten();
        for schema in listed.chain(PARTS.iter().filter_map(|keyword| part.get(*keyword))) {
            self.gather(schema, path, depth + 1, parts);
        }
    }

    fn shape(&mut self, parts: &[&'s Map<String, Value>], path: &str) -> Shape {
        // References can nest deeper than the schema's own JSON, and the compiler is recursive.
        if self.depth >= 2 * DEPTH_MAX {
            self.wrong(path, "is nested too deeply");
            return Shape::Any;
        }
        self.depth += 1;
        let shape = self.shape_below(parts, path);
        self.depth -= 1;
        shape
    }

    fn shape_below(&mut self, parts: &[&'s Map<String, Value>], path: &str) -> Shape {
        let object = parts.iter().any(|part| {
            is_type(part, "object")
                || part.contains_key("properties")
                || part.contains_key("additionalProperties")
        });
        let list = parts.iter().any(|part| is_type(part, "array") || part.contains_key("items"));
        match (object, list) {
            (true, false) => self.object(parts, path),
            (false, true) => self.list(parts, path),
            // Sometimes one, sometimes the other: no shape to rely on.
            (true, true) => Shape::Any,
            (false, false) if parts.iter().any(|part| is_scalar(part)) => Shape::Scalar,
            (false, false) => Shape::Any,
        }
    }

    fn object(&mut self, parts: &[&'s Map<String, Value>], path: &str) -> Shape {
        let mut named: BTreeMap<&str, Vec<&'s Value>> = BTreeMap::new();
        let mut others: Vec<&'s Value> = Vec::new();
        let (mut keeps_unknown, mut says_rest) = (false, false);
        for part in parts {
            for (name, schema) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                named.entry(name).or_default().push(schema);
                says_rest = true;
            }
            keeps_unknown |= flag(part, "x-setpoint-preserve-unknown");
            match part.get("additionalProperties").or_else(|| part.get("unevaluatedProperties")) {
                Some(Value::Bool(true)) => keeps_unknown = true,
                Some(schema @ Value::Object(_)) => others.push(schema),
                Some(_) => says_rest = true,
                None => {}
            }
            others.extend(
                part.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values),
            );
        }
        let mut fields = BTreeMap::new();
        for (name, schemas) in named {
            let mut below = path.to_owned();
            push_field(&mut below, name);
            fields.insert(name.to_owned(), self.node(schemas, &below));
        }
        let rest = match (others.is_empty(), keeps_unknown || !says_rest) {
            (false, _) => Rest::Each(self.node(others, &format!("{path}.*"))),
            (true, true) => Rest::Each(NodeId::ANY),
            (true, false) => Rest::Unknown,
        };
        Shape::Object { fields, rest, atomic: self.is_atomic(parts, path) }
    }

    fn is_atomic(&mut self, parts: &[&'s Map<String, Value>], path: &str) -> bool {
        let said = parts.iter().find_map(|part| part.get("x-setpoint-map-type"));
        match said.map(Value::as_str) {
            None | Some(Some("granular")) => false,
            Some(Some("atomic")) => true,
            Some(_) => {
                self.wrong(path, "has an x-setpoint-map-type that is neither granular nor atomic");
                false
            }
        }
    }

    fn list(&mut self, parts: &[&'s Map<String, Value>], path: &str) -> Shape {
        let items: Vec<&'s Value> = parts.iter().filter_map(|part| part.get("items")).collect();
        let items = if items.is_empty() { NodeId::ANY } else { self.node(items, &format!("{path}[*]")) };
        let said = parts.iter().find_map(|part| part.get("x-setpoint-list-type"));
        let merge = match said.map(Value::as_str) {
            None | Some(Some("atomic")) => ListMerge::Atomic,
            Some(Some("set")) => ListMerge::Set,
            Some(Some("map")) => self.keys(parts, items, path),
            Some(_) => {
                self.wrong(path, "has an x-setpoint-list-type that is none of map, set and atomic");
                ListMerge::Atomic
            }
        };
        Shape::List { items, merge }
    }

    /// The keys of a list that is a map: at least one, each a field of the items.
    fn keys(&mut self, parts: &[&'s Map<String, Value>], items: NodeId, path: &str) -> ListMerge {
        let listed = parts.iter().find_map(|part| part.get("x-setpoint-list-map-keys"));
        let texts = |keys: &Vec<Value>| keys.iter().map(|key| key.as_str().map(str::to_owned)).collect();
        let keys: Option<Vec<String>> = listed.and_then(Value::as_array).and_then(texts);
        let Some(keys) = keys.filter(|keys| !keys.is_empty()) else {
            self.wrong(
                path,
                "is a list of type map and needs x-setpoint-list-map-keys, a list of field names",
            );
            return ListMerge::Atomic;
        };
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                self.wrong(path, format!("has the list map key {key:?} twice"));
            }
            // An item type that is still being compiled is recursive; its fields cannot be looked at yet.
            let known = match &self.nodes.get(items.0).map(|node| &node.shape) {
                Some(Shape::Object { fields, rest, .. }) => {
                    fields.contains_key(key) || matches!(rest, Rest::Each(_))
                }
                Some(Shape::Scalar | Shape::List { .. }) => false,
                Some(Shape::Any) | None => true,
            };
            if !known {
                self.wrong(path, format!("has the list map key {key:?}, which is no field of its items"));
            }
        }
        ListMerge::Map(keys)
    }
}

fn flag(part: &Map<String, Value>, keyword: &str) -> bool {
    part.get(keyword) == Some(&Value::Bool(true))
}

fn is_type(part: &Map<String, Value>, name: &str) -> bool {
    match part.get("type") {
        Some(Value::String(said)) => said == name,
        Some(Value::Array(said)) => said.iter().any(|said| said == name),
        _ => false,
    }
}

fn is_scalar(part: &Map<String, Value>) -> bool {
    ["string", "integer", "number", "boolean"].iter().any(|name| is_type(part, name))
        || part.contains_key("enum")
        || part.contains_key("const")
}

/// What `#/$defs/Name` points to.
fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(spec: Value) -> Topology {
        of_schema(&json!({"properties": {"spec": spec}})).expect("a schema")
    }

    fn of_schema(schema: &Value) -> Result<Topology, Vec<FieldProblem>> {
        Topology::of_kind(schema)
    }

    #[test]
    fn a_recursive_type_leads_back_to_itself() {
        let schema = json!({
            "properties": {"spec": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": {"type": "object", "properties": {
                "name": {"type": "string"},
                "left": {"$ref": "#/$defs/tree"},
                "right": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            }}},
        });
        let topology = of_schema(&schema).expect("a schema");
        let left = topology.field(topology.spec(), "left").expect("a field");
        let again = topology.field(left, "left").expect("a field");
        assert_eq!(left, again);
        assert_eq!(topology.field(left, "other"), None);
        let right = topology.field(left, "right").expect("a field");
        assert!(topology.field(right, "name").is_some());
        assert_eq!(topology.field(right, "right"), Some(right));
    }

    #[test]
    fn references_in_a_circle_say_nothing() {
        let schema = json!({
            "properties": {"spec": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        });
        let topology = of_schema(&schema).expect("a schema");
        assert_eq!(topology.shape(topology.spec()), &Shape::Any);
    }

    #[test]
    fn variants_are_joined() {
        let topology = of(json!({"oneOf": [
            {"type": "object", "properties": {"type": {"const": "a"}, "x": {"type": "integer"}}},
            {"type": "object", "properties": {"type": {"const": "b"}, "y": {"type": "integer"}}},
        ]}));
        for name in ["type", "x", "y"] {
            let field = topology.field(topology.spec(), name).expect(name);
            assert_eq!(topology.shape(field), &Shape::Scalar);
        }
        assert_eq!(topology.field(topology.spec(), "z"), None);
    }

    #[test]
    fn what_is_unknown_depends_on_what_is_said() {
        let knows = |spec: Value| {
            let topology = of(spec);
            topology.field(topology.spec(), "other").is_some()
        };
        assert!(knows(json!({"type": "object"})));
        assert!(knows(json!(true)));
        assert!(knows(json!({"type": "object", "additionalProperties": {"type": "string"}})));
        assert!(knows(json!({"properties": {"a": {}}, "additionalProperties": true})));
        assert!(knows(json!({"properties": {"a": {}}, "x-setpoint-preserve-unknown": true})));
        assert!(!knows(json!({"properties": {"a": {}}})));
        assert!(!knows(json!({"type": "object", "additionalProperties": false})));
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let schema = json!({"properties": {"spec": {"properties": {
            "a": {"type": "array", "x-setpoint-list-type": "map"},
            "b": {"type": "array", "x-setpoint-list-type": "bag"},
            "c": {"type": "object", "x-setpoint-map-type": 7},
            "d": {"$ref": "https://example.com/x"},
            "e": {"$ref": "#/$defs/missing"},
            "g": {"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["a", "a"]},
            "f": {"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["port"],
                  "items": {"properties": {"name": {"type": "string"}}}},
        }}}});
        let problems = of_schema(&schema).expect_err("problems");
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, [".spec.a", ".spec.b", ".spec.c", ".spec.d", ".spec.e", ".spec.f", ".spec.g"]);
    }

    #[test]
    fn combinations_do_not_explode() {
        // Each level doubles the combinations of what could be meant.
        let schema = json!({
            "properties": {"spec": {"$ref": "#/$defs/a"}},
            "$defs": {
                "a": {"properties": {"x": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}, "y": {"$ref": "#/$defs/b"}}},
                "b": {"properties": {"x": {"$ref": "#/$defs/a"}, "y": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}}},
            },
        });
        assert!(of_schema(&schema).expect("a schema").nodes.len() < 64);
    }
}
