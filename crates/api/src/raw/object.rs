//! An object as it is stored, sent without being decoded.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::DecodeError;
use prost::encoding::{
    DecodeContext, WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, key_len,
};

use super::wire::{self, Malformed};

/// Stored bytes and a revision; on the wire an ordinary `Object` with that revision.
///
/// Protobuf merges what is there twice, so the revision goes behind the stored bytes as a second, small `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RawObject {
    /// The encoded `Object`, without its revision.
    pub stored: Bytes,
    /// Zero adds nothing.
    pub revision: u64,
}

/// Which part of an object is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    #[default]
    Whole,
    /// Without spec and status.
    Metadata,
}

/// Numbers of fields, as `object.proto` has them.
const METADATA: u32 = 2;
const SPEC: u32 = 3;
const STATUS: u32 = 4;
const REVISION: u32 = 5;

impl RawObject {
    pub fn new(stored: Bytes, revision: u64) -> Self {
        Self { stored, revision }
    }

    /// The part that is asked for. Bytes that are no object stay as they are.
    pub fn of(stored: Bytes, revision: u64, part: Part) -> Self {
        let stored = match part {
            Part::Whole => stored,
            Part::Metadata => without_content(&stored).unwrap_or(stored),
        };
        Self { stored, revision }
    }

    /// What is sent behind the stored bytes.
    fn metadata_len(&self) -> usize {
        if self.revision == 0 {
            return 0;
        }
        let inner = key_len(REVISION) + encoded_len_varint(self.revision);
        key_len(METADATA) + encoded_len_varint(inner as u64) + inner
    }
}

/// The same without the fields whose JSON is most of an object.
fn without_content(stored: &Bytes) -> Result<Bytes, Malformed> {
    let mut kept = BytesMut::new();
    for field in wire::fields(stored) {
        let field = field?;
        if !matches!(field.number, SPEC | STATUS) {
            kept.extend_from_slice(&field.raw);
        }
    }
    Ok(kept.freeze())
}

/// Only prost itself makes its errors, so this one is that of reading beyond an end.
fn truncated() -> Result<(), DecodeError> {
    decode_varint(&mut &b""[..]).map(drop)
}

impl prost::Message for RawObject {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.stored);
        if self.revision != 0 {
            encode_key(METADATA, WireType::LengthDelimited, buffer);
            encode_varint((key_len(REVISION) + encoded_len_varint(self.revision)) as u64, buffer);
            encode_key(REVISION, WireType::Varint, buffer);
            encode_varint(self.revision, buffer);
        }
    }

    /// The server never reads one; if somebody does, it holds what was read as if it were stored.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut stored = BytesMut::from(&self.stored[..]);
        encode_key(tag, wire_type, &mut stored);
        let length = match wire_type {
            WireType::Varint => {
                encode_varint(decode_varint(buffer)?, &mut stored);
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => {
                let length = decode_varint(buffer)?;
                encode_varint(length, &mut stored);
                length
            }
            WireType::StartGroup | WireType::EndGroup => return truncated(),
        };
        if length > buffer.remaining() as u64 {
            return truncated();
        }
        stored.put(buffer.take(length as usize));
        self.stored = stored.freeze();
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.stored.len() + self.metadata_len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
