//! Walking over an encoded message field by field, without knowing or decoding it.
//!
//! Bytes that are no encoding end the walk with an error, never with a panic.

use std::ops::Range;

use bytes::Bytes;

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
        let Place { number, value, end } = place(&self.rest)?;
        let value = match value {
            PlaceOf::Varint(value) => Value::Varint(value),
            PlaceOf::Bytes(range) => Value::Bytes(self.rest.slice(range)),
            PlaceOf::Fixed => Value::Fixed,
        };
        Some(Field { number, value, raw: self.rest.split_to(end) })
    }
}

/// The fields of an encoded message that are messages, strings or bytes, borrowed: for whoever looks at many and keeps none.
/// Ends after the first field that cannot be read.
pub struct Pieces<'a> {
    rest: &'a [u8],
}

pub fn pieces(message: &[u8]) -> Pieces<'_> {
    Pieces { rest: message }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<(u32, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let Some(Place { number, value, end }) = place(self.rest) else {
                self.rest = &[];
                return Some(Err(Malformed));
            };
            let (field, rest) = self.rest.split_at(end);
            self.rest = rest;
            if let PlaceOf::Bytes(range) = value {
                return Some(Ok((number, &field[range])));
            }
        }
        None
    }
}

/// Where the first field of a message is.
struct Place {
    number: u32,
    value: PlaceOf,
    end: usize,
}

enum PlaceOf {
    Varint(u64),
    Bytes(Range<usize>),
    Fixed,
}

fn place(message: &[u8]) -> Option<Place> {
    let mut at = 0;
    let key = varint(message, &mut at)?;
    let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
    let (value, end) = match key & 7 {
        0 => (PlaceOf::Varint(varint(message, &mut at)?), at),
        1 => (PlaceOf::Fixed, at.checked_add(8)?),
        2 => {
            let length = usize::try_from(varint(message, &mut at)?).ok()?;
            let end = at.checked_add(length)?;
            (PlaceOf::Bytes(at..end), end)
        }
        5 => (PlaceOf::Fixed, at.checked_add(4)?),
        _ => return None,
    };
    (end <= message.len()).then_some(Place { number, value, end })
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

fn varint(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
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
