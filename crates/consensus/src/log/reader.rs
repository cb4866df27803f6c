//! The log as replication and apply read it: from memory where possible, from segment files otherwise.
//!
//! What to read is decided under one lock, so a read sees one moment of the log. The files it needs stay
//! readable even if they are purged before it gets to them. Every record read is checked again.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds, RangeInclusive};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::stream;
use openraft::{OptionalSend, RaftLogReader};

use super::index::Located;
use super::record::{self, Record};
use super::segment::{Place, file_name};
use super::view::{Selection, View};
use crate::raft::{Entry, LogId, TypeConfig, Vote};

/// Cheap to clone; all clones see every entry as soon as it was appended.
#[derive(Clone)]
pub struct LogReader {
    view: Arc<View>,
    bytes_max: usize,
}

/// One read of a file takes at most this much, unless one entry alone is larger.
const SPAN_BYTES_MAX: usize = 1 << 20;

impl LogReader {
    pub(super) fn new(view: Arc<View>, bytes_max: usize) -> Self {
        Self { view, bytes_max }
    }

    /// The entries of `range` that the log holds, from the first one on until they exceed `bytes_max`.
    async fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let selection = self.view.lock().select(range, bytes_max);
        let Selection { range, located, cached } = selection;
        if located.is_empty() {
            check_whole(&range, &cached, bytes_max)?;
            return Ok(cached);
        }
        let mut entries = if located.iter().any(|part| part.file.reads_block()) {
            tokio::task::spawn_blocking(move || read_located(located)).await.map_err(io::Error::other)??
        } else {
            read_located(located)?
        };
        entries.extend(cached);
        check_whole(&range, &entries, bytes_max)?;
        Ok(entries)
    }
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(half_open(&range), usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start..end, self.bytes_max).await
    }

    /// Piece by piece, so that catching up after a restart does not hold the whole log in memory.
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let held = self.view.lock().outline().range();
        let wanted = half_open(&range);
        let range = wanted.start.max(held.start)..wanted.end.min(held.end);
        let pieces = stream::try_unfold((self.clone(), range), |(reader, range)| async move {
            if range.is_empty() {
                return Ok(None);
            }
            let entries = reader.read(range.clone(), reader.bytes_max).await?;
            let first = entries.first().map(|entry| entry.log_id.index);
            if first != Some(range.start) {
                return Err(io::Error::other(format!(
                    "entry {} was removed while it was being read",
                    range.start
                )));
            }
            let rest = range.start + entries.len() as u64..range.end;
            Ok(Some((stream::iter(entries.into_iter().map(Ok)), (reader, rest))))
        });
        futures::TryStreamExt::try_flatten(pieces)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.view.lock().vote)
    }

    /// From memory. As in openraft's own version, and unlike its description: the last log id of each leader.
    async fn get_key_log_ids(&mut self, range: RangeInclusive<LogId>) -> Result<Vec<LogId>, io::Error> {
        Ok(self.view.lock().outline().last_of_each_leader(&range))
    }
}

fn half_open(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

/// Short only because of the bound on bytes; anything else would be a hole.
fn check_whole(range: &Range<u64>, entries: &[Entry], bytes_max: usize) -> io::Result<()> {
    let wanted = range.end.saturating_sub(range.start);
    let found = entries.len() as u64;
    if found == wanted || (bytes_max != usize::MAX && found > 0) {
        return Ok(());
    }
    Err(io::Error::other(format!("of {wanted} entries from index {} only {found} were found", range.start)))
}

fn read_located(located: Vec<Located>) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(located.iter().map(|part| part.places.len()).sum());
    for part in located {
        let mut index = part.first;
        let mut rest = &part.places[..];
        while let Some(first) = rest.first() {
            let end_of = |place: &Place| place.offset as usize + place.length as usize;
            let near = |place: &Place| end_of(place) - first.offset as usize <= SPAN_BYTES_MAX;
            let count = rest.iter().take_while(|place| near(place)).count().max(1);
            let mut span = BytesMut::zeroed(end_of(&rest[count - 1]) - first.offset as usize);
            part.file.read_at(&mut span, u64::from(first.offset))?;
            let span = span.freeze();
            for place in &rest[..count] {
                let at = (place.offset - first.offset) as usize;
                entries.push(decode(&part, &span, at, index).ok_or_else(|| damaged(&part, place))?);
                index += 1;
            }
            rest = &rest[count..];
        }
    }
    Ok(entries)
}

fn decode(part: &Located, span: &Bytes, at: usize, index: u64) -> Option<Entry> {
    match record::frame(span, at, part.sequence)?.record() {
        Ok(Record::Append(entry)) if entry.log_id.index == index => Some(entry),
        _ => None,
    }
}

fn damaged(part: &Located, place: &Place) -> io::Error {
    let message = format!("raft log file {} is damaged at offset {}", file_name(part.sequence), place.offset);
    io::Error::new(io::ErrorKind::InvalidData, message)
}
