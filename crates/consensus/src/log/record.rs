//! One record of a segment: its frame on disk, and what it says.
//!
//! ```text
//! 0        4        8        12     13      14       16       20        20 + length
//! │ mark   │ length │ epoch  │ kind │ flags │ zero   │ crc32c │ payload │ zeros to a multiple of 8 │
//! ```
//!
//! Segment files are reused without being cleared, so a record must not be mistaken for one of an earlier
//! life of its file: both `mark` and checksum depend on the segment's sequence number. The mark alone is not
//! proof, but it finds candidates quickly.
//!
//! `epoch` counts the syncs of the segment, and the last record before a sync says so in its flags. A record
//! of one epoch proves that all earlier epochs reached the disk; that is what tells a torn tail from damage
//! (`recovery`).

use bytes::{BufMut, Bytes};

use crate::codec::{self, CodecError, Wire};
use crate::raft::{Entry, LogId, Vote};

pub const HEAD: usize = 20;
pub const ALIGN: usize = 8;

/// No more than this fits between two power losses of a segment; it restarts at 1 with each segment.
pub type Epoch = u32;

/// Which segment a record belongs to. Never reused, whatever happens to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(pub u64);

/// Everything that a segment's predecessors said and that is not an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub vote: Option<Vote>,
    pub purged: Option<LogId>,
    pub committed: Option<LogId>,
    /// The last entry, or `purged` when there is none.
    pub last: Option<LogId>,
}

/// The first record of a segment: because of it, all earlier segments can go once their entries are purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub previous: Option<Previous>,
    pub checkpoint: Checkpoint,
}

/// Where the log was before this segment. The predecessor was synced up to `end` before this record was
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    pub sequence: Sequence,
    pub end: u32,
}

/// What to write; borrowed, because entries stay with the tail.
#[derive(Clone, Copy, Debug)]
pub enum RecordRef<'a> {
    Header(&'a Header),
    Append(&'a Entry),
    TruncateAfter(Option<LogId>),
    Purge(LogId),
    Vote(&'a Vote),
    Committed(Option<LogId>),
}

/// What was read.
#[derive(Debug)]
pub enum Record {
    Header(Header),
    Append(Entry),
    TruncateAfter(Option<LogId>),
    Purge(LogId),
    Vote(Vote),
    Committed(Option<LogId>),
}

mod kind {
    pub const HEADER: u8 = 1;
    pub const APPEND: u8 = 2;
    pub const TRUNCATE_AFTER: u8 = 3;
    pub const PURGE: u8 = 4;
    pub const VOTE: u8 = 5;
    pub const COMMITTED: u8 = 6;
}

const CLOSES_EPOCH: u8 = 1;

/// A record whose checksum holds.
#[derive(Debug)]
pub struct Frame {
    pub epoch: Epoch,
    pub closes_epoch: bool,
    kind: u8,
    payload: Bytes,
    /// Where the next frame begins.
    pub end: usize,
}

impl Sequence {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Begins every frame of this segment; zero is what fresh files are filled with, so never that. Not a
    /// CRC, which would cancel the sequence number out of the checksum that covers both.
    fn mark(self) -> u32 {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
    }
}

impl RecordRef<'_> {
    /// Exact, for the two kinds that can be large; an upper bound for the others.
    pub fn frame_len(&self) -> usize {
        let payload = match self {
            Self::Append(entry) => codec::encoded_len(entry),
            _ => 128,
        };
        (HEAD + payload).next_multiple_of(ALIGN)
    }

    /// Appends the frame to `out`, which must be aligned, all but its flags and checksum: see `seal`.
    pub fn put(&self, sequence: Sequence, epoch: Epoch, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32_le(sequence.mark());
        out.put_u32_le(0);
        out.put_u32_le(epoch);
        out.put_u8(self.kind());
        out.put_bytes(0, HEAD - 13);
        match self {
            Self::Header(header) => header.encode(out),
            Self::Append(entry) => entry.encode(out),
            Self::TruncateAfter(log_id) | Self::Committed(log_id) => log_id.encode(out),
            Self::Purge(log_id) => log_id.encode(out),
            Self::Vote(vote) => vote.encode(out),
        }
        let length = (out.len() - start - HEAD) as u32;
        out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        out.resize(out.len().next_multiple_of(ALIGN), 0);
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Header(_) => kind::HEADER,
            Self::Append(_) => kind::APPEND,
            Self::TruncateAfter(_) => kind::TRUNCATE_AFTER,
            Self::Purge(_) => kind::PURGE,
            Self::Vote(_) => kind::VOTE,
            Self::Committed(_) => kind::COMMITTED,
        }
    }
}

/// Completes a frame that `put` began, once it is known whether a sync follows it.
pub fn seal(frame: &mut [u8], sequence: Sequence, closes_epoch: bool) {
    frame[13] = if closes_epoch { CLOSES_EPOCH } else { 0 };
    let crc = checksum(frame, sequence);
    frame[16..HEAD].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(frame: &[u8], sequence: Sequence) -> u32 {
    let crc = crc32c::crc32c(&sequence.0.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &frame[..16]);
    crc32c::crc32c_append(crc, &frame[HEAD..])
}

/// Whether a frame of this segment might begin at `at`, and if so where it would end.
pub fn candidate(segment: &[u8], at: usize, sequence: Sequence) -> Option<usize> {
    let head = segment.get(at..at + HEAD)?;
    if u32_at(head, 0) != sequence.mark() {
        return None;
    }
    let end = at as u64 + (HEAD as u64 + u64::from(u32_at(head, 4))).next_multiple_of(ALIGN as u64);
    usize::try_from(end).ok()
}

/// The frame at `at`, if there is a whole and undamaged one of this segment.
pub fn frame(segment: &Bytes, at: usize, sequence: Sequence) -> Option<Frame> {
    let end = candidate(segment, at, sequence)?;
    let bytes = segment.get(at..end)?;
    if u32_at(bytes, 16) != checksum(bytes, sequence) {
        return None;
    }
    let length = u32_at(bytes, 4) as usize;
    Some(Frame {
        epoch: u32_at(bytes, 8),
        kind: bytes[12],
        closes_epoch: bytes[13] & CLOSES_EPOCH != 0,
        payload: segment.slice(at + HEAD..at + HEAD + length),
        end,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().copied().map_or(0, u32::from_le_bytes)
}

impl Frame {
    pub fn record(self) -> Result<Record, CodecError> {
        let payload = self.payload;
        Ok(match self.kind {
            kind::HEADER => Record::Header(Wire::decode_whole(payload)?),
            kind::APPEND => Record::Append(Wire::decode_whole(payload)?),
            kind::TRUNCATE_AFTER => Record::TruncateAfter(Wire::decode_whole(payload)?),
            kind::PURGE => Record::Purge(Wire::decode_whole(payload)?),
            kind::VOTE => Record::Vote(Wire::decode_whole(payload)?),
            kind::COMMITTED => Record::Committed(Wire::decode_whole(payload)?),
            tag => return Err(CodecError::UnknownTag { tag, expected: "a log record" }),
        })
    }
}

/// The layout of `Header`; the tags of `codec` begin at 0, so this does not collide with them when misread.
const HEADER_LAYOUT: u8 = 0x80;

impl Wire for Header {
    fn encode(&self, out: &mut impl BufMut) {
        out.put_u8(HEADER_LAYOUT);
        let Previous { sequence, end } = self.previous.unwrap_or(Previous { sequence: Sequence(0), end: 0 });
        out.put_u64_le(sequence.0);
        out.put_u32_le(end);
        let Checkpoint { vote, purged, committed, last } = &self.checkpoint;
        vote.encode(out);
        purged.encode(out);
        committed.encode(out);
        last.encode(out);
    }

    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError> {
        use bytes::Buf;
        match bytes.try_get_u8().map_err(|_| CodecError::Truncated)? {
            HEADER_LAYOUT => {}
            tag => return Err(CodecError::UnknownTag { tag, expected: "a segment header" }),
        }
        let sequence = bytes.try_get_u64_le().map_err(|_| CodecError::Truncated)?;
        let end = bytes.try_get_u32_le().map_err(|_| CodecError::Truncated)?;
        let previous = (sequence != 0).then_some(Previous { sequence: Sequence(sequence), end });
        let checkpoint = Checkpoint {
            vote: Wire::decode(bytes)?,
            purged: Wire::decode(bytes)?,
            committed: Wire::decode(bytes)?,
            last: Wire::decode(bytes)?,
        };
        Ok(Self { previous, checkpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: Sequence = Sequence(7);

    fn sealed(record: RecordRef<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.put(SEQUENCE, 3, &mut bytes);
        seal(&mut bytes, SEQUENCE, true);
        bytes
    }

    fn header() -> Header {
        let log_id = LogId { leader_id: 4.into(), index: 5 };
        let checkpoint = Checkpoint {
            vote: Some(Vote::new_committed(4, 2)),
            purged: Some(log_id),
            committed: Some(log_id),
            last: Some(log_id),
        };
        Header { previous: Some(Previous { sequence: Sequence(6), end: 99 }), checkpoint }
    }

    #[test]
    fn a_record_reads_back_with_its_epoch_and_flag() {
        let bytes = Bytes::from(sealed(RecordRef::Header(&header())));
        assert!(bytes.len() <= RecordRef::Header(&header()).frame_len());
        let frame = frame(&bytes, 0, SEQUENCE).expect("the frame is whole");
        assert_eq!((frame.epoch, frame.closes_epoch, frame.end), (3, true, bytes.len()));
        assert!(matches!(frame.record(), Ok(Record::Header(read)) if read == header()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = sealed(RecordRef::Vote(&Vote::new(9, 1)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(frame(&damaged.into(), 0, SEQUENCE).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_an_earlier_life_of_the_file_does_not_count() {
        let bytes = sealed(RecordRef::Vote(&Vote::new(9, 1)));
        assert!(frame(&bytes.into(), 0, Sequence(8)).is_none());
        let mut bytes = Vec::new();
        RecordRef::Vote(&Vote::new(9, 1)).put(Sequence(8), 3, &mut bytes);
        seal(&mut bytes, SEQUENCE, true);
        assert!(
            frame(&bytes.into(), 0, Sequence(8)).is_none(),
            "the checksum does not cover the sequence number"
        );
    }
}
