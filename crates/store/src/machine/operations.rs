//! Which operations were done: a window over the latest, so that a repetition answers instead of acting (invariant S20).
//!
//! Bounded by count and by age, and part of the state: in the tables, in snapshots, and the same on every replica. Only
//! commits that succeeded are here. A refused one changed nothing, so its repetition is decided anew.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, BufMut, Bytes};
use setpoint_types::{Revision, Timestamp};

use crate::codec::{put_bytes, read_bool, read_byte, read_bytes};
use crate::commit::Operation;
use crate::encoding::{Damaged, FORMAT, MetaKey};
use crate::engine::{Table, WriteBatch};
use crate::varint::{get_varint, put_varint};

/// How many are remembered. With ids of 128 bytes they take about 16 MiB.
const COUNT_MAX: usize = 65_536;
/// For how long, in milliseconds by the leaders' clocks: longer than anybody retries.
const AGE_MAX: u64 = 60 * 60 * 1000;
/// How many are forgotten per new one. More than one, so that the old ones go at all; few, so that no entry has to pay for a
/// whole window that has grown old.
const FORGOTTEN_TOGETHER: usize = 16;

/// What an operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub fingerprint: u64,
    pub revision: Revision,
    pub changed: bool,
    pub time: Timestamp,
}

#[derive(Debug, Default)]
pub struct Operations {
    by_id: BTreeMap<Bytes, (u64, Done)>,
    /// Oldest first. An id whose time was up may be here twice; `by_id` has its later place.
    order: VecDeque<Remembered>,
}

#[derive(Debug)]
struct Remembered {
    place: u64,
    id: Bytes,
    time: Timestamp,
}

impl Operations {
    /// What the operation did, if it was done no longer than `AGE_MAX` ago.
    pub fn get(&self, id: &[u8], now: Timestamp) -> Option<&Done> {
        self.by_id.get(id).map(|(_, done)| done).filter(|done| !is_old(done.time, now))
    }

    /// Remembers an operation that `get` does not know, and forgets some that are old or too many.
    pub fn insert(&mut self, operation: &Operation, done: Done, batch: &mut WriteBatch) {
        // S20: one id never owns two revisions.
        assert!(self.get(&operation.id, done.time).is_none(), "S20: an operation was done twice");
        // The newest is never forgotten, so places go on where they were, also after a restart.
        let place = self.order.back().map_or(0, |last| last.place + 1);
        batch.put(Table::Meta, MetaKey::Operation(place).encode(), encode(&operation.id, &done));
        // A copy: a slice would keep the whole log entry in memory.
        self.remember(place, Bytes::copy_from_slice(&operation.id), done);
        for _ in 0..FORGOTTEN_TOGETHER {
            let Some(oldest) = self.order.front() else { return };
            if self.order.len() <= COUNT_MAX && !is_old(oldest.time, done.time) {
                return;
            }
            batch.delete(Table::Meta, MetaKey::Operation(oldest.place).encode());
            self.forget_oldest();
        }
    }

    fn remember(&mut self, place: u64, id: Bytes, done: Done) {
        self.order.push_back(Remembered { place, id: id.clone(), time: done.time });
        self.by_id.insert(id, (place, done));
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.order.pop_front() else { return };
        if self.by_id.get(&oldest.id).is_some_and(|(place, _)| *place == oldest.place) {
            self.by_id.remove(&oldest.id);
        }
    }

    /// Takes a row of `Meta`. They come in the order of their places.
    pub fn load(&mut self, place: u64, row: Bytes) -> Result<(), Damaged> {
        let (id, done) = decode(row).ok_or(Damaged { what: "operation" })?;
        self.remember(place, id, done);
        Ok(())
    }
}

fn is_old(time: Timestamp, now: Timestamp) -> bool {
    now.0.saturating_sub(time.0) > AGE_MAX
}

fn encode(id: &[u8], done: &Done) -> Vec<u8> {
    let mut row = Vec::with_capacity(id.len() + 40);
    row.put_u8(FORMAT);
    put_bytes(&mut row, id);
    row.put_u64_le(done.fingerprint);
    put_varint(&mut row, done.revision.get());
    row.put_u8(done.changed.into());
    put_varint(&mut row, done.time.0);
    row
}

fn decode(mut row: Bytes) -> Option<(Bytes, Done)> {
    (read_byte(&mut row)? == FORMAT).then_some(())?;
    let id = read_bytes(&mut row)?;
    let done = Done {
        fingerprint: row.try_get_u64_le().ok()?,
        revision: Revision::new(get_varint(&mut row)?),
        changed: read_bool(&mut row)?,
        time: Timestamp(get_varint(&mut row)?),
    };
    row.is_empty().then_some((id, done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, MemoryEngine};
    use crate::machine::State;

    struct Fixture {
        operations: Operations,
        engine: MemoryEngine,
    }

    fn id(number: u64) -> Bytes {
        number.to_string().into()
    }

    impl Fixture {
        fn new() -> Self {
            Self { operations: Operations::default(), engine: MemoryEngine::new() }
        }

        fn insert(&mut self, number: u64, time: u64) {
            let mut batch = WriteBatch::default();
            let operation = Operation { id: id(number), fingerprint: number };
            let (revision, time) = (Revision::new(number + 2), Timestamp(time));
            let done = Done { fingerprint: number, revision, changed: true, time };
            self.operations.insert(&operation, done, &mut batch);
            assert!(batch.operations.len() <= 1 + FORGOTTEN_TOGETHER);
            self.engine.write(batch).expect("the batch is written");
        }

        fn knows(&self, number: u64, now: u64) -> bool {
            self.operations.get(&id(number), Timestamp(now)).is_some()
        }

        /// The window as a restart finds it.
        fn restart(&mut self) {
            self.operations = State::load(&self.engine).expect("the state loads").operations;
        }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let mut window = Fixture::new();
        for number in 0..COUNT_MAX as u64 + 10 {
            window.insert(number, 0);
        }
        for _ in 0..2 {
            assert!(!window.knows(9, 0) && window.knows(10, 0) && window.knows(COUNT_MAX as u64 + 9, 0));
            assert_eq!(window.operations.order.len(), COUNT_MAX);
            assert_eq!(window.operations.by_id.len(), COUNT_MAX);
            window.restart();
        }
    }

    #[test]
    fn an_old_one_is_not_known_any_more_and_its_id_is_free() {
        let mut window = Fixture::new();
        (0..40).for_each(|number| window.insert(number, 5));
        assert!(window.knows(39, 5 + AGE_MAX) && !window.knows(39, 6 + AGE_MAX));
        let later = 6 + AGE_MAX;
        window.insert(39, later);
        // Its first place is still there, and does not take the second one with it.
        assert_eq!(window.operations.order.len(), 41 - FORGOTTEN_TOGETHER);
        for number in 100..110 {
            window.restart();
            window.insert(number, later);
            assert!(window.knows(39, later) && window.knows(number, later) && !window.knows(38, later));
        }
        assert_eq!(window.operations.order.len(), 11);
    }

    #[test]
    #[should_panic(expected = "S20")]
    fn an_operation_done_twice_stops_the_replica() {
        let mut window = Fixture::new();
        window.insert(1, 0);
        window.insert(1, 0);
    }
}
