//! What a kind's JSON Schema says about the *shape* of its objects: which lists are maps or sets, which objects are one
//! value, which fields exist, what they are when nobody says, and which never change.
//!
//! A schema is compiled once into a graph of nodes. A node stands for every subschema that speaks of the same place (`$ref`,
//! `allOf`, `anyOf`, `oneOf`, `then`, `else`), so recursive types are cycles of the graph and need no expansion.
//!
//! | the schema says | then |
//! |---|---|
//! | `properties`, no `additionalProperties` | other fields are unknown |
//! | an object with neither | any field, all granular |
//! | `x-setpoint-preserve-unknown: true`, `additionalProperties: true` | other fields are kept as they come |
//! | `additionalProperties: {…}` | a map; granular, unless `x-setpoint-map-type: atomic` |
//! | an array | one value, unless `x-setpoint-list-type: set` or `map` with `x-setpoint-list-map-keys` |
//! | nothing | any value: objects granular, arrays one value |
//!
//! Not here: whether values are valid (`setpoint-admission`).

mod compile;
mod defaults;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::refusal::FieldProblem;

/// The shape of the objects of one kind.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
    metadata: NodeId,
    spec: Option<NodeId>,
    status: Option<NodeId>,
}

/// A place in the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(usize);

impl NodeId {
    /// Of what no schema speaks: anything goes.
    pub const ANY: Self = Self(0);
}

#[derive(Clone, Debug)]
struct Node {
    shape: Shape,
    /// With the defaults of its own fields filled in.
    default: Option<Value>,
    immutable: bool,
    within: Within,
}

/// What it or something below it is or has. Most places have none of it, and then nobody has to look.
#[derive(Clone, Copy, Debug, Default)]
struct Within {
    immutable: bool,
    default: bool,
    /// A list that is a map or a set.
    keyed_list: bool,
}

impl Node {
    /// Of what nothing is said.
    const ANY: Self = Self {
        shape: Shape::Any,
        default: None,
        immutable: false,
        within: Within { immutable: false, default: false, keyed_list: false },
    };
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Nothing is said.
    Any,
    /// Neither an object nor a list.
    Scalar,
    Object {
        fields: BTreeMap<String, NodeId>,
        rest: Rest,
        /// One value, owned and replaced as a whole.
        atomic: bool,
    },
    List {
        items: NodeId,
        merge: ListMerge,
    },
}

impl Shape {
    /// The nodes of what is in it.
    fn below(&self) -> impl Iterator<Item = NodeId> {
        let (named, other) = match self {
            Self::Any | Self::Scalar => (None, None),
            Self::Object { fields, rest: Rest::Unknown, .. } => (Some(fields), None),
            Self::Object { fields, rest: Rest::Each(each), .. } => (Some(fields), Some(*each)),
            Self::List { items, .. } => (None, Some(*items)),
        };
        named.into_iter().flat_map(|fields| fields.values().copied()).chain(other)
    }
}

/// Fields beside the named ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Unknown,
    Each(NodeId),
}

/// How two lists are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// One value.
    Atomic,
    /// Members, each at most once.
    Set,
    /// Items, told apart by these fields.
    Map(Vec<String>),
}

impl Topology {
    /// Compiles a kind's schema, `{"properties": {"spec": …, "status": …}}`; or says all that is wrong with it.
    pub fn of_kind(schema: &Value) -> Result<Self, Vec<FieldProblem>> {
        compile::kind(schema)
    }

    /// Of a kind without a schema: anything goes in spec and status.
    pub fn any() -> Self {
        Self::of_kind(&serde_json::json!({"properties": {"spec": true, "status": true}}))
            .expect("nothing in this schema can be wrong")
    }

    pub fn metadata(&self) -> NodeId {
        self.metadata
    }

    pub fn spec(&self) -> NodeId {
        self.spec.unwrap_or(NodeId::ANY)
    }

    pub fn status(&self) -> NodeId {
        self.status.unwrap_or(NodeId::ANY)
    }

    /// Whether the kind's objects have one.
    pub fn has_status(&self) -> bool {
        self.status.is_some()
    }

    pub fn has_spec(&self) -> bool {
        self.spec.is_some()
    }

    /// Of the document `{"metadata": …, "spec": …, "status": …}`.
    pub fn section(&self, name: &str) -> NodeId {
        match name {
            "metadata" => self.metadata,
            "spec" => self.spec(),
            "status" => self.status(),
            _ => NodeId::ANY,
        }
    }

    pub fn shape(&self, node: NodeId) -> &Shape {
        self.nodes.get(node.0).map_or(&Shape::Any, |node| &node.shape)
    }

    /// What a field is, or `None` if it is unknown.
    pub fn field(&self, node: NodeId, name: &str) -> Option<NodeId> {
        match self.shape(node) {
            Shape::Object { fields, rest, .. } => match (fields.get(name), rest) {
                (Some(field), _) => Some(*field),
                (None, Rest::Each(field)) => Some(*field),
                (None, Rest::Unknown) => None,
            },
            Shape::Any | Shape::Scalar | Shape::List { .. } => Some(NodeId::ANY),
        }
    }

    /// What the items of a list are.
    pub fn items(&self, node: NodeId) -> NodeId {
        match self.shape(node) {
            Shape::List { items, .. } => *items,
            Shape::Any | Shape::Scalar | Shape::Object { .. } => NodeId::ANY,
        }
    }

    pub fn default(&self, node: NodeId) -> Option<&Value> {
        self.nodes.get(node.0)?.default.as_ref()
    }

    pub fn is_immutable(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(|node| node.immutable)
    }

    /// Whether something here or below never changes.
    pub fn has_immutable(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(|node| node.within.immutable)
    }

    /// Whether something here or below has a default.
    pub fn has_default(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(|node| node.within.default)
    }

    /// Whether there is a list here or below that is a map or a set.
    pub fn has_keyed_list(&self, node: NodeId) -> bool {
        self.nodes.get(node.0).is_some_and(|node| node.within.keyed_list)
    }
}
