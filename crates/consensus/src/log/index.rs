//! Where each durable entry lies: eight bytes per entry, grouped by segment.
//!
//! It trails the store's view: the writer changes it after it has written. Entries whose place is asked for
//! have left the tail, hence are durable, hence are here.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::fs::LogFile;
use super::record::Sequence;
use super::segment::Place;

#[derive(Default)]
pub struct Index {
    /// In order; the last one is being written. Never empty once the log is open.
    segments: VecDeque<Segment>,
}

pub struct Segment {
    pub sequence: Sequence,
    pub file: Arc<dyn LogFile>,
    /// The log index of the first place.
    first: u64,
    places: VecDeque<Place>,
}

/// A change that the writer has brought to disk, in the order of its records.
pub enum Change {
    /// A new segment: the places that follow are in it.
    Begin {
        sequence: Sequence,
        file: Arc<dyn LogFile>,
    },
    Place {
        index: u64,
        place: Place,
    },
    /// Entries from this index on are gone.
    Truncate {
        next: u64,
    },
    /// Entries up to this index are gone.
    Purge {
        upto: u64,
    },
}

/// Some consecutive entries of one segment, and the file to read them from even if it is purged meanwhile.
#[derive(Clone)]
pub struct Located {
    pub sequence: Sequence,
    pub file: Arc<dyn LogFile>,
    pub first: u64,
    pub places: Vec<Place>,
}

impl Index {
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Begin { sequence, file } => {
                self.segments.push_back(Segment { sequence, file, first: 0, places: VecDeque::new() });
            }
            Change::Place { index, place } => {
                let segment = self.segments.back_mut().expect("a record was written, so there is a segment");
                if segment.places.is_empty() {
                    segment.first = index;
                }
                debug_assert_eq!(index, segment.first + segment.places.len() as u64);
                segment.places.push_back(place);
            }
            Change::Truncate { next } => {
                for segment in self.segments.iter_mut().rev() {
                    segment.places.truncate(next.saturating_sub(segment.first) as usize);
                }
            }
            Change::Purge { upto } => {
                for segment in &mut self.segments {
                    let gone = (upto + 1).saturating_sub(segment.first).min(segment.places.len() as u64);
                    segment.places.drain(..gone as usize);
                    segment.first += gone;
                }
            }
        }
    }

    /// Removes the oldest segments that hold nothing any more. Only after a sync: until then, the record that
    /// emptied them may be lost.
    pub fn retire(&mut self) -> Vec<Segment> {
        let mut retired = Vec::new();
        while self.segments.len() > 1 && self.segments[0].places.is_empty() {
            retired.extend(self.segments.pop_front());
        }
        retired
    }

    /// The places of `range`, as far as they are known and until they exceed `bytes_max`; at least one.
    pub fn locate(&self, range: Range<u64>, bytes_max: usize) -> Vec<Located> {
        let mut located = Vec::new();
        let mut bytes = 0;
        for segment in &self.segments {
            let held = segment.first..segment.first + segment.places.len() as u64;
            let (from, to) = (range.start.max(held.start), range.end.min(held.end));
            if from >= to {
                continue;
            }
            let wanted = (from - held.start) as usize..(to - held.start) as usize;
            let places: Vec<Place> = segment
                .places
                .range(wanted)
                .copied()
                .take_while(|place| {
                    let first = bytes == 0;
                    bytes += place.length as usize;
                    first || bytes <= bytes_max
                })
                .collect();
            let cut = (places.len() as u64) < to - from;
            if !places.is_empty() {
                located.push(Located {
                    sequence: segment.sequence,
                    file: segment.file.clone(),
                    first: from,
                    places,
                });
            }
            if cut {
                break;
            }
        }
        located
    }
}
