//! Reads of keys that are named one by one: of one as it is now, which every write of an object begins with, and of many at
//! one revision, which an index has found.
//!
//! Not here: ranges (`read`).

use std::ops::ControlFlow;

use bytes::Bytes;
use setpoint_types::{KeyRange, Revision};

use crate::index::KeyState;
use crate::machine::Pending;
use crate::read::{Hit, ReadFailure, fetch, fetch_one, visit_at};
use crate::store::Store;
use crate::verdict::{KeyValue, Rejection};

impl Store {
    /// A key as it is now, if that can be had at once: none if it would have to wait for a chunk that is being applied.
    pub fn get_soon(&self, key: &Bytes) -> Option<Result<Option<KeyValue>, ReadFailure>> {
        let found = self.look_soon(|state, engine| Some((state.index.get(key).copied()?, engine.clone())))?;
        let Some((state, engine)) = found else { return Some(Ok(None)) };
        match fetch_one(&*engine, Hit { key: key.clone(), state }) {
            Err(ReadFailure::Overtaken) => None,
            read => Some(read.map(Some)),
        }
    }

    /// What keys were at a revision, each in its place; none for one that was not there. What lies together is read together.
    pub fn get_many(&self, keys: &[Bytes], at: Revision) -> Result<Vec<Option<KeyValue>>, ReadFailure> {
        match self.read_many(keys, at) {
            Err(ReadFailure::Overtaken) => Err(self.look(|state, _| state.compacted_rejection()).into()),
            read => read,
        }
    }

    fn read_many(&self, keys: &[Bytes], at: Revision) -> Result<Vec<Option<KeyValue>>, ReadFailure> {
        let looked = self.look(|state, engine| {
            state.readable(at.wire())?;
            let found = keys.iter().map(|key| Found::of(state.index.get(key), at, state.revision));
            Ok::<_, Rejection>((found.collect::<Vec<_>>(), engine.clone()))
        });
        let (found, engine) = looked?;
        let (mut hits, mut places) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for (place, (key, found)) in keys.iter().zip(found).enumerate() {
            let state = match found {
                Found::Then(state) => state,
                // Newer by now: its versions say what it was.
                Found::Since => {
                    let mut then = None;
                    visit_at(&*engine, &KeyRange::Single(key.clone()), at, |_, state| {
                        then = Some(state);
                        ControlFlow::Break(())
                    })?;
                    then
                }
            };
            if let Some(state) = state {
                hits.push(Hit { key: key.clone(), state });
                places.push(place);
            }
        }
        // Checked after the versions were looked at: what was collected meanwhile may be missing.
        if self.compacted() > at.wire() {
            return Err(ReadFailure::Overtaken);
        }
        let mut read = vec![None; keys.len()];
        for (place, kv) in places.into_iter().zip(fetch(&*engine, &Pending::new(), hits, false)?) {
            read[place] = Some(kv);
        }
        Ok(read)
    }
}

/// What the newest state says about a key at a revision.
enum Found {
    /// It was so then.
    Then(Option<KeyState>),
    /// It changed since.
    Since,
}

impl Found {
    fn of(now: Option<&KeyState>, at: Revision, newest: Revision) -> Self {
        match now {
            Some(state) if state.modified <= at => Self::Then(Some(*state)),
            None if at >= newest => Self::Then(None),
            _ => Self::Since,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use setpoint_types::{NodeId, Timestamp};

    use super::*;
    use crate::command::{Command, DeleteRange, Proposal, ProposalId, Put, Range};
    use crate::{Body, Entry, MemoryEngine, Position};

    fn key(name: &str) -> Bytes {
        Bytes::copy_from_slice(name.as_bytes())
    }

    fn put(name: &str, value: &str) -> Command {
        Command::Put(Put { key: key(name), value: key(value), ..Put::default() })
    }

    fn store(commands: Vec<Command>) -> Store {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("an empty store");
        let id = ProposalId { node: NodeId(1), sequence: 0 };
        let commands = commands.into_iter().map(|command| Proposal { id, command }.encode()).collect();
        let body = Body::Commands { stamp: Timestamp(0), commands };
        let entry = Entry { position: Position { term: 1, index: 1 }, body };
        store.apply(&[entry], NodeId(9)).expect("applies");
        store
    }

    #[test]
    fn keys_named_one_by_one_are_what_a_range_of_each_says() {
        let delete = DeleteRange { range: KeyRange::Single(key("b")), want_previous: false };
        let store = store(vec![
            put("a", "1"),
            put("b", "2"),
            put("a", "3"),
            Command::DeleteRange(delete),
            put("c", "4"),
            put("b", "5"),
        ]);
        let keys = ["c", "a", "none", "b", "a"].map(key);
        for revision in 2..=store.revision().get() {
            let at = Revision::new(revision);
            let ranges = keys.iter().map(|key| {
                let read = Range { revision: at.wire(), ..Range::latest(KeyRange::Single(key.clone())) };
                store.range(&read).expect("kept").kvs.pop()
            });
            assert_eq!(store.get_many(&keys, at).expect("kept"), ranges.collect::<Vec<_>>(), "{at}");
        }
        for key in &keys {
            let now = store.range(&Range::latest(KeyRange::Single(key.clone()))).expect("kept").kvs.pop();
            assert_eq!(store.get_soon(key).expect("nobody writes").expect("kept"), now);
        }
        assert!(store.get_many(&keys, store.revision().successor()).is_err(), "it is not there yet");
    }

    #[test]
    fn what_is_compacted_is_refused() {
        let store =
            store(vec![put("a", "1"), put("a", "2"), put("a", "3"), Command::Compact { revision: 3 }]);
        let read = |revision| store.get_many(&[key("a")], Revision::new(revision));
        let refused = read(2).expect_err("it is compacted");
        assert!(matches!(refused, ReadFailure::Rejected(Rejection::Compacted { .. })), "{refused}");
        assert_eq!(read(3).expect("kept")[0].as_ref().map(|kv| kv.value.clone()), Some(key("2")));
    }
}
