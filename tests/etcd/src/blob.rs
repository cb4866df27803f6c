//! Bytes with a text form, for keys and values in step files and in recorded answers.
//!
//! Printable ASCII stands for itself, other bytes are written `\xNN`. Long values, which only the fragmenting
//! scenarios use, are written by length and content, so that a report or a stored corpus stays readable:
//! `\*400000:61` is the byte 0x61 four hundred thousand times, `\#5000:1a2b3c4d` is 5000 bytes with that CRC-32C.
//! The second form cannot be read back; it occurs only in answers, which are compared as text.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Values longer than this are written by length and content.
const VERBATIM_BYTES_MAX: usize = 256;

/// A key or a value of a step.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blob(Bytes);

impl Blob {
    pub const fn fixed(bytes: &'static [u8]) -> Self {
        Self(Bytes::from_static(bytes))
    }

    /// `len` times the same byte.
    pub fn filled(len: usize, byte: u8) -> Self {
        Self(Bytes::from(vec![byte; len]))
    }

    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::from(bytes))
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", text(&self.0))
    }
}

/// The text form of any bytes.
pub fn text(bytes: &[u8]) -> String {
    if bytes.len() > VERBATIM_BYTES_MAX {
        let first = bytes[0];
        return if bytes.iter().all(|byte| *byte == first) {
            format!("\\*{}:{first:02x}", bytes.len())
        } else {
            format!("\\#{}:{:08x}", bytes.len(), crc32c::crc32c(bytes))
        };
    }
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}

/// Reads the text form back. `None` if it is not one, or one of those that cannot be read back.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    if let Some(filled) = text.strip_prefix("\\*") {
        let (len, byte) = filled.split_once(':')?;
        return Some(vec![u8::from_str_radix(byte, 16).ok()?; len.parse().ok()?]);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (kind, after) = rest.split_first()?;
        rest = after;
        match kind {
            b'\\' => out.push(b'\\'),
            b'x' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            _ => return None,
        }
    }
    Some(out)
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        parse(&written).map(Self::from).ok_or_else(|| de::Error::custom(format!("not bytes: {written}")))
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, text};

    #[test]
    fn every_byte_survives_the_text_form() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(parse(&text(&all)).as_deref(), Some(all.as_slice()));
        let long = vec![7_u8; 100_000];
        assert_eq!(text(&long), "\\*100000:07");
        assert_eq!(parse(&text(&long)), Some(long));
    }

    #[test]
    fn different_long_values_have_different_texts() {
        let mut one = vec![1_u8; 1000];
        one[999] = 2;
        let mut other = one.clone();
        other[998] = 2;
        assert_ne!(text(&one), text(&other));
        assert_eq!(parse(&text(&one)), None);
    }
}
