//! The values that changes replaced, in memory, bounded by bytes.
//!
//! A replaced value is read once for all who ask at about the same time, which is when a change is new. Whoever asks later
//! reads it again: kept as long as its change is, it would cost memory that the ring does not count.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_store::KeyValue;

/// What each change of one revision replaced; none for a key that was created.
pub type Replaced = Arc<Vec<Option<KeyValue>>>;

pub struct Shelf {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    oldest_first: VecDeque<(Replaced, usize)>,
    bytes: usize,
}

impl Shelf {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// Keeps what was just read until newer reads need the room. The last one stays whatever its size: all of a
    /// revision's changes are asked for one by one.
    pub fn keep(&self, replaced: &Replaced) {
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

/// About how much memory they take.
fn bytes(replaced: &Replaced) -> usize {
    let sizes = replaced.iter().map(|kv| 128 + kv.as_ref().map_or(0, |kv| kv.key.len() + kv.value.len()));
    sizes.sum()
}
