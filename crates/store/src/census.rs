//! All of a range at one revision, in the order of its last changes: for answers so large that what they cost is in how they are read.
//!
//! Values lie by revision, and neighbours by name far apart there. Read in the order of names, a block of values is fetched and
//! unpacked once for every value in it. So a window of names is put into the order of values first, and those are then read
//! one after the other, each block once.
//!
//! Not here: answers in the order of names (`pages`). `Store` opens a census and knows whether a compaction overtook it.

use std::ops::ControlFlow;
use std::sync::Arc;

use setpoint_types::{KeyRange, Revision};

use crate::encoding::{Damaged, Record, RecordId};
use crate::engine::{Engine, EngineFailure};
use crate::pages::{PageMax, after};
use crate::read::{self, ReadFailure};
use crate::store::Store;

/// Names in the first window, so that its values are there at once.
const WINDOW_FIRST: usize = 16;
const WINDOW_GROWTH: usize = 64;
/// And in the largest: 2 MiB of places.
const WINDOW_MOST: usize = 1 << 17;

pub struct Census {
    engine: Arc<dyn Engine>,
    at: Revision,
    /// Names that no window had yet.
    rest: Option<KeyRange>,
    /// Names in the next window.
    window: usize,
    /// What of the present window is left, in the order of values.
    left: std::vec::IntoIter<RecordId>,
}

/// A key and its value, as they lie in their row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub modified: Revision,
}

impl Store {
    /// Prepares to read everything of a range as it is now, in no order a client may rely on.
    pub fn open_census(&self, range: KeyRange) -> Census {
        let (engine, at) = self.look(|state, engine| (engine.clone(), state.revision));
        let left = Vec::new().into_iter();
        Census { engine, at, rest: Some(range), window: WINDOW_FIRST, left }
    }

    /// Visits some more of a census, of about so many keys and bytes, but one at least; false if there are no more. Refused
    /// if a compaction overtook its revision: what was visited may then be wrong.
    pub fn continue_census(
        &self,
        census: &mut Census,
        max: PageMax,
        visit: &mut dyn FnMut(Counted<'_>),
    ) -> Result<bool, ReadFailure> {
        let more = census.advance(max, visit);
        // Checked after the read: what was collected meanwhile may be missing from it.
        self.look(|state, _| match state.compacted > census.at.wire() {
            true => Err(state.compacted_rejection().into()),
            false => more,
        })
    }
}

impl Census {
    pub fn revision(&self) -> Revision {
        self.at
    }

    fn advance(&mut self, max: PageMax, visit: &mut dyn FnMut(Counted<'_>)) -> Result<bool, ReadFailure> {
        if self.left.len() == 0 {
            self.next_window()?;
        }
        let (mut keys, mut bytes, mut failure) = (0, 0, None);
        let mut ids = self.left.as_slice().iter().copied();
        self.engine.visit_records(&mut ids, &mut |id, row| {
            // Nobody refers to a record that is gone but who was overtaken.
            let read = row.ok_or(ReadFailure::Overtaken).and_then(|row| Counted::of(id, row));
            match read {
                Ok(counted) => {
                    (keys, bytes) = (keys + 1, bytes + counted.key.len() + counted.value.len());
                    visit(counted);
                    let full = keys >= max.keys || bytes >= max.bytes;
                    if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                }
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.left.by_ref().take(keys).for_each(drop);
        Ok(self.left.len() > 0 || self.rest.is_some())
    }

    /// Takes the next names, and finds out where their values lie.
    fn next_window(&mut self) -> Result<(), EngineFailure> {
        let Some(range) = self.rest.take() else { return Ok(()) };
        let (mut ids, mut last) = (Vec::new(), None);
        read::visit_at(&*self.engine, &range, self.at, |key, state| {
            ids.push(RecordId { revision: state.modified, sub: state.sub });
            if ids.len() < self.window {
                return ControlFlow::Continue(());
            }
            last = Some(key);
            ControlFlow::Break(())
        })?;
        self.rest = last.and_then(|last| after(range, &last));
        self.window = (self.window * WINDOW_GROWTH).min(WINDOW_MOST);
        ids.sort_unstable();
        self.left = ids.into_iter();
        Ok(())
    }
}

impl<'a> Counted<'a> {
    fn of(id: RecordId, row: &'a [u8]) -> Result<Self, ReadFailure> {
        let damaged = || EngineFailure::from(Damaged { what: "record" });
        let key = Record::outline(row).map_err(EngineFailure::from)?.key;
        let value = Record::value_of(row).map_err(EngineFailure::from)?.ok_or_else(damaged)?;
        Ok(Self { key, value, modified: id.revision })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use setpoint_types::{NodeId, Timestamp};

    use super::*;
    use crate::command::{Command, DeleteRange, Proposal, ProposalId, Put, Range};
    use crate::{Body, Entry, MemoryEngine, Position, Rejection};

    fn apply(store: &Store, index: u64, commands: Vec<Command>) {
        let id = ProposalId { node: NodeId(1), sequence: index };
        let commands = commands.into_iter().map(|command| Proposal { id, command }.encode()).collect();
        let body = Body::Commands { stamp: Timestamp(0), commands };
        store.apply(&[Entry { position: Position { term: 1, index }, body }], NodeId(9)).expect("applies");
    }

    fn put(name: usize, value: &str) -> Command {
        let value = Bytes::copy_from_slice(value.as_bytes());
        Command::Put(Put { key: key(name), value, ..Put::default() })
    }

    /// Far from where the number before it is, as names are.
    fn key(name: usize) -> Bytes {
        format!("{:02}-{name}", name * 37 % 100).into()
    }

    /// 150 keys, every third written twice, every fifth deleted.
    fn store() -> Store {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("an empty store");
        let delete = |name| {
            Command::DeleteRange(DeleteRange { range: KeyRange::Single(key(name)), want_previous: false })
        };
        let commands = (0..150).map(|name| put(name, "first"));
        let again = (0..150).step_by(3).map(|name| put(name, "second"));
        apply(&store, 1, commands.chain(again).chain((0..150).step_by(5).map(delete)).collect());
        store
    }

    fn everything() -> KeyRange {
        KeyRange::From(Bytes::from_static(b"0"))
    }

    type Found = BTreeMap<Bytes, (Bytes, Revision)>;

    fn range(store: &Store) -> Found {
        let read = store.range(&Range::latest(everything())).expect("kept");
        read.kvs.into_iter().map(|kv| (kv.key, (kv.value, kv.modified))).collect()
    }

    fn take(found: &mut Found, counted: Counted<'_>) {
        let value = (Bytes::copy_from_slice(counted.value), counted.modified);
        assert_eq!(found.insert(Bytes::copy_from_slice(counted.key), value), None, "it came twice");
    }

    #[test]
    fn a_census_is_what_a_range_says_while_others_write() {
        let store = store();
        let expected = range(&store);
        for max in [PageMax { keys: 7, bytes: 1 << 20 }, PageMax { keys: 1_000, bytes: 40 }] {
            let store = self::store();
            let mut census = store.open_census(everything());
            let (mut found, mut index) = (Found::new(), 1);
            while store.continue_census(&mut census, max, &mut |it| take(&mut found, it)).expect("kept") {
                index += 1;
                apply(&store, index, vec![put(index as usize % 150, "later"), put(1_000, "new")]);
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_census_that_a_compaction_overtook_is_refused() {
        let store = store();
        let mut census = store.open_census(everything());
        let max = PageMax { keys: 10, bytes: 1 << 20 };
        assert!(store.continue_census(&mut census, max, &mut |_| ()).expect("kept"));
        let newest = census.revision().wire() + 1;
        apply(&store, 2, vec![put(1, "later"), Command::Compact { revision: newest }]);
        let refused = store.continue_census(&mut census, max, &mut |_| ()).expect_err("it is compacted");
        assert!(matches!(refused, ReadFailure::Rejected(Rejection::Compacted { .. })), "{refused}");
    }

    #[test]
    fn a_census_of_nothing_ends_at_once() {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("an empty store");
        let mut census = store.open_census(everything());
        let max = PageMax { keys: 10, bytes: 10 };
        assert!(!store.continue_census(&mut census, max, &mut |_| panic!("there is nothing")).expect("kept"));
    }
}
