//! Reads the tree of places off a schema, and finds everything in it that is not structural.

use serde_json::{Map, Value};
use setpoint_types::FieldProblem;
use setpoint_types::kinds::KindRule;

use super::keywords::{ALTERNATIVE, ALTERNATIVES, formats, refused};
use super::node::{ListType, Node, Types, Values};
use crate::limits::{PATTERNS_MAX, SCHEMA_ALTERNATIVES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX};
use crate::path::Path;

type Fields = Map<String, Value>;

/// The places of `schema`, which has no references, how many patterns it has, and what is wrong with it.
pub fn read(schema: &Value, at: Path) -> (Node, usize, Vec<FieldProblem>) {
    let mut reader = Reader { problems: Vec::new(), places: 0, alternatives: 0, patterns: 0 };
    let node = reader.place(schema, at, 0);
    (node, reader.patterns, reader.problems)
}

struct Reader {
    problems: Vec<FieldProblem>,
    places: usize,
    alternatives: usize,
    patterns: usize,
}

impl Reader {
    fn place(&mut self, schema: &Value, at: Path, depth: usize) -> Node {
        let Value::Object(schema) = schema else {
            self.problem(at, "must be an object");
            return Node::default();
        };
        self.places += 1;
        if self.places == SCHEMA_NODES_MAX + 1 {
            self.problem(at.clone(), format!("the schema has more than {SCHEMA_NODES_MAX} places"));
        }
        if depth > SCHEMA_DEPTH_MAX {
            self.problem(at, format!("nested deeper than {SCHEMA_DEPTH_MAX} levels"));
            return Node::default();
        }
        self.keywords(schema, &at, false);
        let mut node = Node {
            types: self.types(schema, &at),
            preserve_unknown: self.flag(schema, "x-setpoint-preserve-unknown", &at),
            immutable: self.flag(schema, "x-setpoint-immutable", &at),
            default: schema.get("default").cloned(),
            rules: self.rules(schema, &at),
            ..Node::default()
        };
        if node.types == Types::default() && !node.preserve_unknown && !schema.contains_key("type") {
            self.problem(at.clone(), "needs a \"type\", or \"x-setpoint-preserve-unknown\": true");
        }
        self.parts(schema, &at, depth, &mut node);
        self.list_type(schema, &at, &mut node);
        self.map_type(schema, &at);
        self.all_alternatives(schema, &at, Some(&node), depth);
        node
    }

    fn parts(&mut self, schema: &Fields, at: &Path, depth: usize, node: &mut Node) {
        if let Some(fields) = self.object(schema, "properties", at) {
            for (name, field) in fields {
                let below = self.place(field, at.clone().field("properties").field(name), depth + 1);
                node.fields.insert(name.clone(), below);
            }
        }
        let below = at.clone().field("additionalProperties");
        node.values = match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Values::None,
            Some(Value::Bool(true)) => Values::Any,
            Some(schema) => Values::Of(Box::new(self.place(schema, below, depth + 1))),
        };
        let items = schema.get("items");
        node.items = items.map(|schema| Box::new(self.place(schema, at.clone().field("items"), depth + 1)));
        if node.types.allows("array") && node.items.is_none() && !node.preserve_unknown {
            self.problem(at.clone(), "a list needs \"items\"");
        }
        let has_parts = !node.fields.is_empty() || !matches!(node.values, Values::None);
        if has_parts && !node.types.allows("object") {
            self.problem(at.clone(), "has fields, so its \"type\" must be \"object\"");
        }
    }

    fn types(&mut self, schema: &Fields, at: &Path) -> Types {
        let named = match schema.get("type") {
            None => return Types::default(),
            Some(Value::String(name)) => Types::named(name),
            Some(Value::Array(names)) => names
                .iter()
                .try_fold(Types::default(), |types, name| Some(types.and(Types::named(name.as_str()?)?))),
            Some(_) => None,
        };
        named.unwrap_or_else(|| {
            self.problem(at.clone().field("type"), "must be a type of JSON, or a list of them");
            Types::default()
        })
    }

    fn rules(&mut self, schema: &Fields, at: &Path) -> Vec<KindRule> {
        let Some(rules) = schema.get("x-setpoint-rules") else { return Vec::new() };
        serde_json::from_value(rules.clone()).unwrap_or_else(|error| {
            self.problem(at.clone().field("x-setpoint-rules"), format!("must be a list of rules: {error}"));
            Vec::new()
        })
    }

    fn list_type(&mut self, schema: &Fields, at: &Path, node: &mut Node) {
        let place = at.clone().field("x-setpoint-list-type");
        let keys = self.keys(schema, at);
        let list_type = schema.get("x-setpoint-list-type");
        if list_type.is_some() && !node.types.allows("array") {
            self.problem(place.clone(), "is for lists");
        }
        node.list_type = match list_type.map(|name| name.as_str()) {
            None | Some(Some("atomic")) => ListType::Atomic,
            Some(Some("set")) => {
                if node.item().is_some_and(|item| !item.is_scalar()) {
                    self.problem(place.clone(), "a set holds texts, numbers or truth values");
                }
                ListType::Set
            }
            Some(Some("map")) => {
                self.check_keys(&keys, at, node);
                ListType::Map(keys.clone())
            }
            Some(_) => {
                self.problem(place.clone(), "must be \"map\", \"set\" or \"atomic\"");
                ListType::Atomic
            }
        };
        if !keys.is_empty() && !matches!(node.list_type, ListType::Map(_)) {
            let place = at.clone().field("x-setpoint-list-map-keys");
            self.problem(place, "is for lists with \"x-setpoint-list-type\": \"map\"");
        }
    }

    fn keys(&mut self, schema: &Fields, at: &Path) -> Vec<String> {
        let Some(keys) = schema.get("x-setpoint-list-map-keys") else { return Vec::new() };
        serde_json::from_value(keys.clone()).unwrap_or_else(|_| {
            self.problem(at.clone().field("x-setpoint-list-map-keys"), "must be a list of names of fields");
            Vec::new()
        })
    }

    fn check_keys(&mut self, keys: &[String], at: &Path, node: &Node) {
        let place = at.clone().field("x-setpoint-list-map-keys");
        if keys.is_empty() {
            self.problem(place.clone(), "names the fields that tell the elements apart");
        }
        for key in keys {
            match node.item().and_then(|item| item.fields.get(key)) {
                Some(field) if field.is_scalar() => {}
                Some(_) => {
                    self.problem(place.clone(), format!("{key} must be a text, a number or a truth value"))
                }
                None => self.problem(place.clone(), format!("the elements have no field {key}")),
            }
        }
    }

    fn map_type(&mut self, schema: &Fields, at: &Path) {
        let known = |name: &Value| matches!(name.as_str(), Some("granular" | "atomic"));
        if schema.get("x-setpoint-map-type").is_some_and(|name| !known(name)) {
            self.problem(at.clone().field("x-setpoint-map-type"), "must be \"granular\" or \"atomic\"");
        }
    }

    /// Refuses keywords that may not be here, and conditions that would not be checked.
    fn keywords(&mut self, schema: &Fields, at: &Path, in_alternative: bool) {
        for keyword in schema.keys() {
            if let Some(message) = refused(keyword, in_alternative) {
                self.problem(at.clone().field(keyword), message);
            }
        }
        if let Some(format) = schema.get("format")
            && !formats().any(|known| format == known)
        {
            let known: Vec<&str> = formats().collect();
            self.problem(at.clone().field("format"), format!("must be one of {}", known.join(", ")));
        }
        if let Some(Value::String(pattern)) = schema.get("pattern") {
            self.pattern(pattern, at.clone().field("pattern"));
        }
    }

    /// Beyond the limit none is compiled: that is what the limit is for.
    fn pattern(&mut self, pattern: &str, at: Path) {
        self.patterns += 1;
        if self.patterns == PATTERNS_MAX + 1 {
            self.problem(at.clone(), format!("the schema has more than {PATTERNS_MAX} patterns"));
        }
        if self.patterns <= PATTERNS_MAX
            && let Err(problem) = crate::cel::usable_pattern(pattern)
        {
            self.problem(at, problem);
        }
    }

    fn all_alternatives(&mut self, schema: &Fields, at: &Path, beside: Option<&Node>, depth: usize) {
        for keyword in ALTERNATIVES {
            if let Some(Value::Array(schemas)) = schema.get(*keyword) {
                for (index, schema) in schemas.iter().enumerate() {
                    self.alternative(schema, at.clone().field(keyword).index(index), beside, depth + 1);
                }
            }
        }
        for keyword in ALTERNATIVE {
            if let Some(schema) = schema.get(*keyword) {
                // These two are about parts, whose places are known elsewhere or have no fields.
                let beside = match *keyword {
                    "contains" => beside.and_then(Node::item),
                    "propertyNames" => None,
                    _ => beside,
                };
                self.alternative(schema, at.clone().field(keyword), beside, depth + 1);
            }
        }
    }

    /// A schema that only sets conditions. The fields it names must be there in the structural part, `beside`.
    fn alternative(&mut self, schema: &Value, at: Path, beside: Option<&Node>, depth: usize) {
        let Value::Object(schema) = schema else { return self.problem(at, "must be an object") };
        self.alternatives += 1;
        if self.alternatives == SCHEMA_ALTERNATIVES_MAX + 1 {
            self.problem(
                at.clone(),
                format!("the schema has more than {SCHEMA_ALTERNATIVES_MAX} alternatives"),
            );
        }
        if depth > SCHEMA_DEPTH_MAX {
            return self.problem(at, format!("nested deeper than {SCHEMA_DEPTH_MAX} levels"));
        }
        self.keywords(schema, &at, true);
        if let Some(fields) = self.object(schema, "properties", &at) {
            for (name, field) in fields {
                let place = at.clone().field("properties").field(name);
                let below = beside.and_then(|node| node.field(name));
                if below.is_none() && beside.is_some_and(|node| !node.preserve_unknown) {
                    self.problem(
                        place.clone(),
                        "is not declared beside the alternatives, so no object may have it",
                    );
                }
                self.alternative(field, place, below, depth + 1);
            }
        }
        if let Some(items) = schema.get("items") {
            self.alternative(items, at.clone().field("items"), beside.and_then(Node::item), depth + 1);
        }
        self.all_alternatives(schema, &at, beside, depth);
    }

    fn object<'s>(&mut self, schema: &'s Fields, keyword: &str, at: &Path) -> Option<&'s Fields> {
        let value = schema.get(keyword)?;
        if value.as_object().is_none() {
            self.problem(at.clone().field(keyword), "must be an object");
        }
        value.as_object()
    }

    fn flag(&mut self, schema: &Fields, keyword: &str, at: &Path) -> bool {
        let value = schema.get(keyword);
        if value.is_some_and(|value| !value.is_boolean()) {
            self.problem(at.clone().field(keyword), "must be true or false");
        }
        value == Some(&Value::Bool(true))
    }

    fn problem(&mut self, at: Path, message: impl Into<String>) {
        self.problems.push(FieldProblem::new(at, message));
    }
}
