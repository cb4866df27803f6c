//! One place of a schema: what may be there.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use setpoint_types::kinds::KindRule;

/// Which types a value may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// A type by its name in JSON Schema.
    pub fn named(name: &str) -> Option<Self> {
        let names = ["null", "boolean", "integer", "number", "string", "array", "object"];
        names.iter().position(|known| *known == name).map(|at| Self(1 << at))
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn allows(self, name: &str) -> bool {
        Self::named(name).is_some_and(|one| self.0 & one.0 != 0)
    }

    /// Nothing but this type, and perhaps null.
    pub fn is(self, name: &str) -> bool {
        Self::named(name).is_some_and(|one| self.0 & !1 == one.0)
    }
}

/// How the elements of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// They are not: the list is one value.
    #[default]
    Atomic,
    /// Each is itself.
    Set,
    /// By these fields.
    Map(Vec<String>),
}

/// What an object may hold besides its named fields.
#[derive(Clone, Debug, Default)]
pub enum Values {
    #[default]
    None,
    Any,
    Of(Box<Node>),
}

/// One place.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub types: Types,
    pub fields: BTreeMap<String, Node>,
    pub values: Values,
    pub items: Option<Box<Node>>,
    pub list_type: ListType,
    /// Unknown fields are kept here, and below where there is no schema.
    pub preserve_unknown: bool,
    pub immutable: bool,
    pub default: Option<Value>,
    pub rules: Vec<KindRule>,
}

impl Node {
    /// The place of a field.
    pub fn field(&self, name: &str) -> Option<&Node> {
        self.fields.get(name).or(match &self.values {
            Values::Of(node) => Some(node),
            Values::Any | Values::None => None,
        })
    }

    /// The place of every element.
    pub fn item(&self) -> Option<&Node> {
        self.items.as_deref()
    }

    pub fn is_number(&self) -> bool {
        self.types.is("number")
    }

    pub fn is_integer(&self) -> bool {
        self.types.is("integer")
    }

    /// A text, a number or a truth value, and nothing else.
    pub fn is_scalar(&self) -> bool {
        ["boolean", "integer", "number", "string"].iter().any(|name| self.types.is(name))
    }

    /// The elements of a list as it was, to be found again by what tells them apart.
    pub fn counterparts<'v>(&self, others: &'v [Value]) -> Counterparts<'_, 'v> {
        let mut found = Counterparts { list_type: &self.list_type, by_identity: HashMap::new() };
        for other in others {
            if let Some(identity) = found.identity(other) {
                found.by_identity.entry(identity).or_insert(other);
            }
        }
        found
    }
}

/// See [`Node::counterparts`]. Looking each element of a long list up in another would take the square of its length.
pub struct Counterparts<'n, 'v> {
    list_type: &'n ListType,
    by_identity: HashMap<Vec<Option<String>>, &'v Value>,
}

impl<'v> Counterparts<'_, 'v> {
    /// The one that is the same as `item`.
    pub fn of(&self, item: &Value) -> Option<&'v Value> {
        self.by_identity.get(&self.identity(item)?).copied()
    }

    fn identity(&self, item: &Value) -> Option<Vec<Option<String>>> {
        match self.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(vec![Some(item.to_string())]),
            ListType::Map(keys) => Some(keys.iter().map(|key| item.get(key).map(Value::to_string)).collect()),
        }
    }
}
