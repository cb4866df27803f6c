//! Walking over an encoded message field by field, without knowing or decoding it.
//!
//! Bytes that are no encoding end the walk with an error, never with a panic.

use bytes::{Buf, Bytes};

/// One field of an encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub number: u32,
    pub value: Value,
    /// The whole field as it was, with its number.
    pub raw: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Varint(u64),
    /// A message, a string or bytes.
    Bytes(Bytes),
    /// A number of fixed width.
    Fixed,
}

/// The bytes are not the encoding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no encoded message")]
pub struct Malformed;

/// The fields of an encoded message, in order. Ends after the first that cannot be read.
pub struct Fields {
    rest: Bytes,
}

pub fn fields(message: &Bytes) -> Fields {
    Fields { rest: message.clone() }
}

impl Iterator for Fields {
    type Item = Result<Field, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field().ok_or(Malformed);
        if field.is_err() {
            self.rest = Bytes::new();
        }
        Some(field)
    }
}

impl Fields {
    fn field(&mut self) -> Option<Field> {
        let whole = self.rest.clone();
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => self.skip(8)?,
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                Value::Bytes((length <= self.rest.len()).then(|| self.rest.split_to(length))?)
            }
            5 => self.skip(4)?,
            _ => return None,
        };
        Some(Field { number, value, raw: whole.slice(..whole.len() - self.rest.len()) })
    }

    fn skip(&mut self, bytes: usize) -> Option<Value> {
        (bytes <= self.rest.len()).then(|| self.rest.advance(bytes))?;
        Some(Value::Fixed)
    }
}

impl Field {
    /// Its bytes, if it has that many.
    pub fn bytes(self) -> Result<Bytes, Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Varint(_) | Value::Fixed => Err(Malformed),
        }
    }

    pub fn text(self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| Malformed)
    }
}

fn varint(rest: &mut Bytes) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = rest.try_get_u8().ok()?;
        // The tenth byte has room for one bit.
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
