//! The values that changes replaced, in memory, bounded by bytes.
//!
//! A replaced value is read once for all who ask at about the same time, which is when a change is new. Whoever asks later
//! reads it again: kept as long as its change is, it would cost memory that the ring does not count. The same goes for
//! events that tell of a replaced value.

use std::collections::VecDeque;
use std::ops::Index;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use setpoint_api::raw::{Part, RawEvent};
use setpoint_store::KeyValue;

/// The events that tell of one change, whole and without spec and status, each made when it is first asked for.
type ByPart = [OnceLock<Arc<RawEvent>>; 2];

/// What each change of one revision replaced; none for a key that was created.
pub struct Replaced {
    values: Vec<Option<KeyValue>>,
    /// The events that tell of them, by part. They share the values' bytes.
    events: OnceLock<Box<[ByPart]>>,
}

impl Replaced {
    pub fn new(values: Vec<Option<KeyValue>>) -> Self {
        Self { values, events: OnceLock::new() }
    }

    /// The event that tells of the value at a place, made for the first who asks.
    pub fn event(&self, place: usize, part: Part, make: impl FnOnce() -> RawEvent) -> Arc<RawEvent> {
        let events = self.events.get_or_init(|| self.values.iter().map(|_| Default::default()).collect());
        events[place][part as usize].get_or_init(|| Arc::new(make())).clone()
    }
}

impl Index<usize> for Replaced {
    type Output = Option<KeyValue>;

    fn index(&self, place: usize) -> &Option<KeyValue> {
        &self.values[place]
    }
}

pub struct Shelf {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    oldest_first: VecDeque<(Arc<Replaced>, usize)>,
    bytes: usize,
}

impl Shelf {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// Keeps what was just read until newer reads need the room. The last one stays whatever its size: all of a
    /// revision's changes are asked for one by one.
    pub fn keep(&self, replaced: &Arc<Replaced>) {
        let bytes = bytes(replaced);
        let mut kept = self.kept.lock();
        kept.bytes += bytes;
        kept.oldest_first.push_back((replaced.clone(), bytes));
        while kept.bytes > self.bytes_max
            && kept.oldest_first.len() > 1
            && let Some((_, bytes)) = kept.oldest_first.pop_front()
        {
            kept.bytes -= bytes;
        }
    }

    /// Lets go of everything.
    pub fn clear(&self) {
        *self.kept.lock() = Kept::default();
    }
}

/// About how much memory they take, with their events.
fn bytes(replaced: &Replaced) -> usize {
    let one = |kv: &Option<KeyValue>| kv.as_ref().map_or(0, |kv| kv.key.len() + kv.value.len());
    replaced.values.iter().map(|kv| 256 + one(kv)).sum()
}
