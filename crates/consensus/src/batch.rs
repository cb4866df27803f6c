//! The payload of one log entry: independent commands that share one append, one fsync and one replication.
//!
//! Commands are opaque here; the state machine decodes them. Each has its own verdict, so batching is invisible to clients.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use setpoint_types::Timestamp;

/// Commands proposed together, stamped by the leader. Cheap to clone: one shared buffer.
///
/// Layout: stamp (u64 LE), then for each command its length (u32 LE) and its bytes.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Batch {
    bytes: Bytes,
}

/// The bytes of a log entry are not a batch: the log is damaged or from another version.
#[derive(Debug, thiserror::Error)]
#[error("a log entry's payload is not a command batch")]
pub struct MalformedBatch;

const STAMP: usize = 8;
const LENGTH: usize = 4;

impl Batch {
    pub fn new<'a>(stamp: Timestamp, commands: impl IntoIterator<Item = &'a Bytes> + Clone) -> Self {
        let size = commands.clone().into_iter().map(|command| LENGTH + command.len()).sum::<usize>();
        let mut bytes = BytesMut::with_capacity(STAMP + size);
        bytes.put_u64_le(stamp.0);
        for command in commands {
            bytes.put_u32_le(command.len() as u32);
            bytes.put_slice(command);
        }
        Self { bytes: bytes.freeze() }
    }

    /// Takes an encoded batch, checking its framing once so that `commands` cannot fail.
    pub fn decode(bytes: Bytes) -> Result<Self, MalformedBatch> {
        let mut rest = bytes.get(STAMP..).ok_or(MalformedBatch)?;
        while !rest.is_empty() {
            let (length, tail) = rest.split_first_chunk::<LENGTH>().ok_or(MalformedBatch)?;
            rest = tail.get(u32::from_le_bytes(*length) as usize..).ok_or(MalformedBatch)?;
        }
        Ok(Self { bytes })
    }

    pub fn encoded(&self) -> &Bytes {
        &self.bytes
    }

    pub fn stamp(&self) -> Timestamp {
        let stamp = self.bytes.first_chunk::<STAMP>().copied().unwrap_or_default();
        Timestamp(u64::from_le_bytes(stamp))
    }

    /// The commands in order, each a slice of the shared buffer.
    pub fn commands(&self) -> impl Iterator<Item = Bytes> + '_ {
        let mut at = STAMP;
        std::iter::from_fn(move || {
            let length = self.bytes.get(at..)?.first_chunk::<LENGTH>()?;
            let start = at + LENGTH;
            at = start + u32::from_le_bytes(*length) as usize;
            Some(self.bytes.slice(start..at))
        })
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} commands, {} bytes)", self.commands().count(), self.bytes.len())
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_encoding_in_order() {
        let commands = [Bytes::from_static(b"one"), Bytes::new(), Bytes::from_static(b"three")];
        let batch = Batch::new(Timestamp(7), &commands);
        let read = Batch::decode(batch.encoded().clone()).expect("what was encoded decodes");
        assert_eq!(read.stamp(), Timestamp(7));
        assert_eq!(read.commands().collect::<Vec<_>>(), commands);
    }

    #[test]
    fn a_cut_batch_is_refused_at_every_length() {
        let whole = Batch::new(Timestamp(1), &[Bytes::from_static(b"abc"), Bytes::from_static(b"de")]);
        let boundaries = [8, 8 + 4 + 3, whole.encoded().len()];
        for cut in 0..=whole.encoded().len() {
            let result = Batch::decode(whole.encoded().slice(..cut));
            assert_eq!(result.is_ok(), boundaries.contains(&cut), "cut at {cut}");
        }
    }
}
