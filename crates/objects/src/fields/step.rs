//! One step of a path: into a field, to the item of a list with these keys, to a member of a set.
//!
//! Not here: how they are written (`notation`).

use std::cmp::Ordering;

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Of an object: `.name`.
    Field(String),
    /// Of a list that is a map: `[port=80,protocol="TCP"]`. Sorted by key; see [`Step::item`].
    Item(Vec<(String, Scalar)>),
    /// Of a list that is a set: `["a"]`.
    Member(Scalar),
}

impl Step {
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// The item with these keys, in any order.
    pub fn item(mut keys: Vec<(String, Scalar)>) -> Self {
        keys.sort_unstable();
        Self::Item(keys)
    }
}

/// What can be a key or a member of a set. Ordered, which JSON's numbers are not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scalar {
    Bool(bool),
    Integer(i128),
    Float(Float),
    Text(String),
}

impl Scalar {
    /// Of lists, objects and `null` there is none.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(bool) => Some(Self::Bool(*bool)),
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Some(Self::Integer(integer.into())),
                (_, Some(integer)) => Some(Self::Integer(integer.into())),
                _ => number.as_f64().and_then(Float::new).map(Self::Float),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Bool(bool), Value::Bool(other)) => bool == other,
            (Self::Text(text), Value::String(other)) => text == other,
            (Self::Integer(_) | Self::Float(_), Value::Number(_)) => Self::of(value).as_ref() == Some(self),
            _ => false,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Bool(bool) => Value::Bool(*bool),
            Self::Text(text) => Value::String(text.clone()),
            Self::Float(float) => serde_json::Number::from_f64(float.0).map_or(Value::Null, Value::Number),
            Self::Integer(integer) => match (i64::try_from(*integer), u64::try_from(*integer)) {
                (Ok(integer), _) => integer.into(),
                (_, Ok(integer)) => integer.into(),
                _ => Value::Null,
            },
        }
    }
}

/// A finite number with a fraction or an exponent. Zero has one sign.
#[derive(Clone, Copy, Debug)]
pub struct Float(f64);

impl Float {
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(if number == 0.0 { 0.0 } else { number }))
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Float {}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
