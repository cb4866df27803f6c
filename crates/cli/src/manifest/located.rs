//! YAML or JSON with the place of everything in it, so that what is wrong can be pointed at.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// Line and column, counted from 1. Zeros if they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub line: u64,
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl From<serde_saphyr::Location> for Place {
    fn from(location: serde_saphyr::Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// A value, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub place: Place,
    pub node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Leaf(Value),
    List(Vec<Located>),
    Map(Vec<Entry>),
}

/// A field, and where its name is.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub place: Place,
    pub value: Located,
}

impl Located {
    /// Of text whose places are not known.
    pub fn nowhere(value: Value) -> Self {
        let node = match value {
            Value::Array(elements) => Node::List(elements.into_iter().map(Self::nowhere).collect()),
            Value::Object(fields) => Node::Map(
                fields
                    .into_iter()
                    .map(|(name, value)| Entry { name, place: Place::default(), value: Self::nowhere(value) })
                    .collect(),
            ),
            leaf => Node::Leaf(leaf),
        };
        Self { place: Place::default(), node }
    }

    pub fn field(&self, name: &str) -> Option<&Entry> {
        match &self.node {
            Node::Map(entries) => entries.iter().find(|entry| entry.name == name),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Leaf(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        self.node == Node::Leaf(Value::Null)
    }

    /// Without places, and without fields that have no value: `env:` with nothing after it says nothing.
    pub fn value(&self) -> Value {
        match &self.node {
            Node::Leaf(value) => value.clone(),
            Node::List(elements) => Value::Array(elements.iter().map(Self::value).collect()),
            Node::Map(entries) => {
                let said = entries.iter().filter(|entry| !entry.value.is_null());
                Value::Object(
                    said.map(|entry| (entry.name.clone(), entry.value.value())).collect::<Map<_, _>>(),
                )
            }
        }
    }

    /// What it is, for people.
    pub fn type_name(&self) -> &'static str {
        match &self.node {
            Node::List(_) => "a list",
            Node::Map(_) => "an object",
            Node::Leaf(Value::String(_)) => "a text",
            Node::Leaf(Value::Bool(_)) => "a boolean",
            Node::Leaf(Value::Number(_)) => "a number",
            Node::Leaf(_) => "nothing",
        }
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Self { place: spanned.referenced.into(), node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number must be finite"))?;
        Ok(Node::Leaf(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Node::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value()?;
            entries.push(Entry { name: name.value, place: name.referenced.into(), value });
        }
        Ok(Node::Map(entries))
    }
}
