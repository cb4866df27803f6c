//! A range read in pieces, all of one revision, so that an answer of any size takes little memory.
//!
//! Natural order only. `Store` opens the pages and turns them, because it knows whether a compaction overtook them.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{KeyRange, Revision};

use crate::command::Range;
use crate::engine::Engine;
use crate::machine::Pending;
use crate::read::{self, Hit, ReadFailure};
use crate::verdict::{KeyValue, RangeResult};

pub struct Pages {
    engine: Arc<dyn Engine>,
    /// What is left to read; none when the end was reached.
    rest: Option<KeyRange>,
    at: Revision,
    keys_only: bool,
    left: usize,
    /// Describes the whole answer; without keys.
    whole: RangeResult,
}

/// The most one piece may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMax {
    pub keys: usize,
    /// Of keys and values; the last value may go beyond.
    pub bytes: usize,
}

/// Values read at a time: what a page may hold in memory beyond its bytes is so many values.
const FETCHED_TOGETHER: usize = 16;

pub struct Page {
    pub kvs: Vec<KeyValue>,
    pub last: bool,
}

impl Pages {
    pub(crate) fn new(engine: Arc<dyn Engine>, read: &Range, at: Revision, mut whole: RangeResult) -> Self {
        let limit = usize::try_from(read.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        whole.more = !read.count_only && whole.count > limit as u64;
        let rest = (!read.count_only).then(|| read.range.clone());
        Self { engine, rest, at, keys_only: read.keys_only, left: limit, whole }
    }

    pub fn whole(&self) -> &RangeResult {
        &self.whole
    }

    pub(crate) fn at(&self) -> Revision {
        self.at
    }

    /// The next piece, of at most `max.keys` keys and about `max.bytes`, but one key at least. The caller checks that no
    /// compaction overtook it.
    pub(crate) fn next(&mut self, max: PageMax) -> Result<Page, ReadFailure> {
        let Some(range) = self.rest.take() else { return Ok(Page { kvs: Vec::new(), last: true }) };
        let wanted = max.keys.max(1).min(self.left);
        let mut hits = Vec::new();
        read::visit_at(&*self.engine, &range, self.at, |key, state| {
            if hits.len() == wanted {
                return ControlFlow::Break(());
            }
            hits.push(Hit { key, state });
            ControlFlow::Continue(())
        })?;
        let found = hits.len();
        let kvs = self.fetch(hits, max.bytes)?;
        self.left -= kvs.len();
        let complete = kvs.len() == found && (found < wanted || self.left == 0);
        if !complete && let Some(last) = kvs.last() {
            self.rest = after(range, &last.key);
        }
        Ok(Page { kvs, last: self.rest.is_none() })
    }

    /// Reads the values of the first hits, a few at a time, until there are enough bytes.
    fn fetch(&self, hits: Vec<Hit>, bytes_max: usize) -> Result<Vec<KeyValue>, ReadFailure> {
        let bytes_max = bytes_max.max(1);
        let (mut kvs, mut bytes) = (Vec::new(), 0);
        let mut rest = hits.into_iter();
        while rest.len() > 0 && bytes < bytes_max {
            let few: Vec<Hit> = rest.by_ref().take(FETCHED_TOGETHER).collect();
            let read = read::fetch(&*self.engine, &Pending::new(), few, self.keys_only)?;
            for kv in read {
                // The rest of what was read together comes again with the next page.
                if bytes >= bytes_max {
                    return Ok(kvs);
                }
                bytes += kv.key.len() + kv.value.len();
                kvs.push(kv);
            }
        }
        Ok(kvs)
    }
}

/// What of a range lies behind a key.
pub(crate) fn after(range: KeyRange, key: &[u8]) -> Option<KeyRange> {
    let mut start = Vec::with_capacity(key.len() + 1);
    start.extend_from_slice(key);
    start.push(0);
    let start = Bytes::from(start);
    match range {
        KeyRange::Single(_) => None,
        KeyRange::Span { end, .. } => Some(KeyRange::Span { start, end }),
        KeyRange::From(_) => Some(KeyRange::From(start)),
    }
}
