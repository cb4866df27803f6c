//! The values that changes replaced, in memory, bounded by bytes.
//!
//! A replaced value is read once for all who ask at about the same time, which is when a change is new. Whoever asks later
//! reads it again: kept as long as its change is, it would cost memory that the ring does not count. The same goes for
//! events that tell of a replaced value.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::raw::{Part, RawEvent};
use setpoint_store::KeyValue;

/// The events that tell of one change, whole and without spec and status, each made when it is first asked for.
type ByPart = [OnceLock<Arc<RawEvent>>; 2];

/// What one change replaced.
pub struct Replaced {
    pub value: KeyValue,
    /// The events that tell of it, by part. They share the value's bytes.
    events: ByPart,
}

impl Replaced {
    pub fn new(value: KeyValue) -> Self {
        Self { value, events: ByPart::default() }
    }

    /// The event that tells of it, made for the first who asks.
    pub fn event(&self, part: Part, make: impl FnOnce(Bytes) -> RawEvent) -> Arc<RawEvent> {
        self.events[part as usize].get_or_init(|| Arc::new(make(self.value.value.clone()))).clone()
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

    /// Keeps what was just read until newer reads need the room. The last one stays whatever its size: others are about to ask
    /// for it, too.
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

/// About how much memory it takes, with its events.
fn bytes(Replaced { value, .. }: &Replaced) -> usize {
    256 + value.key.len() + value.value.len()
}
