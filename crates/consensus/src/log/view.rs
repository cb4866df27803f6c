//! What readers see: the log as of the last operation accepted, whether or not it is on disk yet.
//!
//! One lock over the outline, the tail and the index, held for short moments and never across IO.

use std::ops::Range;

use parking_lot::Mutex;

use super::index::{Change, Index, Located, Segment};
use super::options::LogOptions;
use super::outline::{Hole, Outline};
use super::tail::Tail;
use crate::codec;
use crate::raft::{Entry, LogId, Vote};

pub struct View {
    state: Mutex<State>,
}

pub struct State {
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    outline: Outline,
    tail: Tail,
    index: Index,
    /// Entries below this index are on disk as the view has them.
    durable_below: u64,
    /// Counts truncations. A confirmation of the writer for an older generation says nothing about today's
    /// entries.
    generation: Generation,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation(u64);

/// The entries of a range: first those to be read from files, then those in memory.
pub struct Selection {
    /// What of the wanted range the log holds; less is selected only because of the bound on bytes.
    pub range: Range<u64>,
    pub located: Vec<Located>,
    pub cached: Vec<Entry>,
}

/// What the writer has brought to disk in one batch.
pub struct Progress {
    pub changes: Vec<Change>,
    /// The generation of the batch's last operation, and the index that follows the last entry written. Only
    /// of a batch that was synced.
    pub durable: Option<(Generation, u64)>,
}

impl View {
    pub fn new(
        vote: Option<Vote>,
        committed: Option<LogId>,
        outline: Outline,
        index: Index,
        options: &LogOptions,
    ) -> Self {
        let next = outline.range().end;
        let state = State {
            vote,
            committed,
            tail: Tail::new(next, options.tail_bytes_max, options.tail_entries_max),
            outline,
            index,
            durable_below: next,
            generation: Generation::default(),
        };
        Self { state: Mutex::new(state) }
    }

    pub fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the segments that hold nothing any more.
    pub fn advance(&self, progress: Progress) -> Vec<Segment> {
        let mut state = self.state.lock();
        for change in progress.changes {
            state.index.apply(change);
        }
        let Some((generation, next)) = progress.durable else { return Vec::new() };
        if generation == state.generation {
            state.durable_below = state.durable_below.max(next);
        }
        let durable_below = state.durable_below;
        let evicted = state.tail.evict(durable_below);
        let retired = state.index.retire();
        drop(state);
        drop(evicted);
        retired
    }
}

impl State {
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// All of the entries, or none.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), Hole> {
        for pair in entries.windows(2) {
            if pair[1].log_id.index != pair[0].log_id.index + 1 {
                return Err(Hole { index: pair[1].log_id.index, last: pair[0].log_id.index });
            }
        }
        for entry in entries {
            // Of consecutive entries only the first can be refused.
            self.outline.append(entry.log_id)?;
            self.tail.push(entry.clone());
        }
        Ok(())
    }

    pub fn truncate_after(&mut self, keep: Option<LogId>) {
        let next = self.outline.truncate_after(keep);
        self.tail.truncate(next);
        self.durable_below = self.durable_below.min(next);
        self.generation.0 += 1;
    }

    pub fn purge(&mut self, upto: LogId) {
        self.outline.purge(upto);
        self.tail.purge(upto.index);
    }

    /// What is held of `wanted`, until it exceeds `bytes_max`; at least one entry if there is any.
    pub fn select(&self, wanted: Range<u64>, bytes_max: usize) -> Selection {
        let held = self.outline.range();
        let range = wanted.start.max(held.start)..wanted.end.min(held.end);
        let from_files = range.start..range.end.min(self.tail.first());
        let located =
            if from_files.is_empty() { Vec::new() } else { self.index.locate(from_files, bytes_max) };
        let mut bytes: usize =
            located.iter().flat_map(|part| &part.places).map(|place| place.length as usize).sum();
        let from = located.last().map_or(range.start, |part| part.first + part.places.len() as u64);
        let cached = (from..range.end)
            .map_while(|index| self.tail.get(index))
            .take_while(|entry| {
                let first = bytes == 0;
                bytes += codec::encoded_len(entry);
                first || bytes <= bytes_max
            })
            .cloned()
            .collect();
        Selection { range, located, cached }
    }
}
