//! JSON into CEL and back.
//!
//! Going in, text is borrowed. A whole number is an `int` and any other a `double`, unless the schema says `number`: then
//! a rule that says `* 1.5` would fail on the objects that happen to hold whole ones. Going out, only what JSON has is
//! taken.

use std::collections::HashMap;

use cel::Value as CelValue;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use cel::objects::Key;
use serde_json::{Number, Value};

use crate::schema::Node;

/// `value` as CEL sees it, guided by its schema where there is one.
pub fn to_cel<'v>(value: &'v Value, node: Option<&Node>) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(truth) => Box::new(CelBool::from(*truth)),
        Value::Number(number) => number_to_cel(number, node),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => {
            let node = node.and_then(Node::item);
            Box::new(CelList::from(items.iter().map(|item| to_cel(item, node)).collect::<Vec<_>>()))
        }
        Value::Object(fields) => {
            let entries = fields.iter().map(|(name, field)| {
                let key = CelMapKey::String(CelString::from(name.as_str()));
                (key, to_cel(field, node.and_then(|node| node.field(name))))
            });
            Box::new(CelMap::from(entries.collect::<HashMap<_, _>>()))
        }
    }
}

fn number_to_cel<'v>(number: &Number, node: Option<&Node>) -> Box<dyn Val + 'v> {
    let fraction = number.as_f64().unwrap_or(f64::NAN);
    let wants = |wanted: fn(&Node) -> bool| node.is_some_and(wanted);
    if wants(Node::is_number) {
        return Box::new(CelDouble::from(fraction));
    }
    if let Some(whole) = number.as_i64() {
        return Box::new(CelInt::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Box::new(CelUInt::from(whole));
    }
    // `3.0` is an integer by JSON Schema; the cast is exact below 2^53 and saturates above.
    if wants(Node::is_integer) && fraction.fract() == 0.0 {
        return Box::new(CelInt::from(fraction as i64));
    }
    Box::new(CelDouble::from(fraction))
}

/// What an expression yielded, as JSON; or the name of what JSON does not have.
pub fn to_json(value: &CelValue) -> Result<Value, &'static str> {
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(truth) => Value::Bool(*truth),
        CelValue::Int(whole) => Value::from(*whole),
        CelValue::UInt(whole) => Value::from(*whole),
        CelValue::Float(fraction) => {
            Number::from_f64(*fraction).map(Value::Number).ok_or("a number that is not finite")?
        }
        CelValue::String(text) => Value::String(text.as_str().to_owned()),
        CelValue::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        CelValue::Map(map) => {
            let entry = |(key, item): (&Key, &CelValue)| match key {
                Key::String(name) => Ok((name.as_str().to_owned(), to_json(item)?)),
                _ => Err("a map whose keys are not strings"),
            };
            Value::Object(map.map.iter().map(entry).collect::<Result<_, _>>()?)
        }
        CelValue::Bytes(_) => return Err("bytes"),
        _ => return Err("a value that JSON does not have"),
    })
}
