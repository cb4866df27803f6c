//! The content of a cache: objects, indexes, how far it has come, and enough of the past for a joint snapshot. Pure.
//!
//! Every change is applied as a whole answer, so the content is always a state the store has had at some revision.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use setpoint_api::raw::{ReceivedEvent, ReceivedName};
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_types::Revision;

use super::Key;
use super::delta::{Cause, Delta};
use super::entry::Entry;
use super::index::{Index, Postings};
use super::pages::Pages;
use super::snapshot::Snapshot;
use super::transform::Transform;

/// Changes kept for joint snapshots, at most. Beyond it a snapshot has to wait for the slowest kind.
const HISTORY_MAX: usize = 65_536;

/// The bytes are no object with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event carries no object that can be read")]
pub struct Malformed;

/// What a key has in the cache.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub revision: Revision,
    pub encoded: Arc<[u8]>,
}

pub struct Store {
    objects: Pages<Key, Kept>,
    indexes: BTreeMap<&'static str, Postings>,
    transform: Option<Transform>,
    /// Everything up to here is in; none before the first state.
    position: Option<Revision>,
    /// The states from here to `position` can be had.
    floor: Revision,
    /// What was before each change after `floor`, oldest first.
    history: VecDeque<Undo>,
    /// The state that is being received.
    staged: Vec<Entry>,
    encoded_bytes: usize,
    unreadable: u64,
}

struct Undo {
    revision: Revision,
    key: Key,
    before: Option<Entry>,
}

impl Store {
    pub fn new(transform: Option<Transform>) -> Self {
        Self {
            objects: Pages::default(),
            indexes: BTreeMap::new(),
            transform,
            position: None,
            floor: Revision::NONE,
            history: VecDeque::new(),
            staged: Vec::new(),
            encoded_bytes: 0,
            unreadable: 0,
        }
    }

    pub fn position(&self) -> Option<Revision> {
        self.position
    }

    pub fn floor(&self) -> Revision {
        self.floor
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Of all objects together.
    pub fn encoded_bytes(&self) -> usize {
        self.encoded_bytes
    }

    /// How often an index or a transformation could not read an object.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.objects.get(key).map(entry)
    }

    /// Adds an index over what is there. One of the same name stays as it is.
    pub fn add_index(&mut self, index: Index) {
        if self.indexes.contains_key(index.name()) {
            return;
        }
        let mut postings = Postings::new(index);
        for kept in self.objects.iter() {
            self.unreadable += u64::from(!postings.change(None, Some(&entry(kept))));
        }
        self.indexes.insert(postings.index.name(), postings);
    }

    /// Begins to receive a whole state. What was received of another one is forgotten.
    pub fn begin(&mut self) {
        self.staged = Vec::new();
    }

    /// Receives a part of it.
    pub fn stage(&mut self, events: &[ReceivedEvent]) -> Result<(), Malformed> {
        for event in events.iter().filter(|event| event.kind() == Type::Added) {
            let (key, bytes) = named(event)?;
            let revision = Revision::new(event.revision);
            // What is here already need not be here twice while both states are.
            let same = self.objects.get(&key).filter(|(_, kept)| kept.revision == revision);
            let staged = match same {
                Some(kept) => entry(kept),
                None => self.kept(key, revision, bytes),
            };
            self.staged.push(staged);
        }
        Ok(())
    }

    /// All of it is received: it takes the place of what was here, at once.
    pub fn finish(&mut self, at: Revision) -> Vec<Delta> {
        let mut staged = std::mem::take(&mut self.staged);
        staged.sort_by(|one, other| one.key().cmp(other.key()));
        // The server sends each once; of two, the newer is the truth.
        staged.dedup_by(|later, earlier| {
            let same = later.key() == earlier.key();
            if same && later.revision() > earlier.revision() {
                std::mem::swap(later, earlier);
            }
            same
        });
        let cause = if self.position.is_none() { Cause::Initial } else { Cause::Relist };
        let deltas = self.differences(&staged, at, cause);
        self.encoded_bytes = staged.iter().map(Entry::encoded_len).sum();
        let kept = |entry: &Entry| {
            (entry.key().clone(), Kept { revision: entry.revision(), encoded: entry.encoded().clone() })
        };
        self.objects = Pages::from_sorted(staged.iter().map(kept).collect());
        for postings in self.indexes.values_mut() {
            if self.position.is_none() {
                postings.clear();
            }
            for delta in &deltas {
                self.unreadable += u64::from(!postings.change(delta.before.as_ref(), delta.after.as_ref()));
            }
        }
        self.history.clear();
        (self.position, self.floor) = (Some(at), at);
        deltas
    }

    /// What is different in a new state. Both are in order.
    fn differences(&self, staged: &[Entry], at: Revision, cause: Cause) -> Vec<Delta> {
        let delta = |key: &Key, before: Option<Entry>, after: Option<Entry>| {
            let revision = after.as_ref().map_or(at, Entry::revision);
            Delta { key: key.clone(), revision, cause, before, after, last: None, author: None }
        };
        let mut deltas = Vec::new();
        let mut old = self.objects.iter().map(entry).peekable();
        for new in staged {
            while let Some(gone) = old.next_if(|old| old.key() < new.key()) {
                deltas.push(delta(&gone.key().clone(), Some(gone), None));
            }
            match old.next_if(|old| old.key() == new.key()) {
                Some(before) if before.revision() == new.revision() => {}
                Some(before) if before.uid() == new.uid() => {
                    deltas.push(delta(new.key(), Some(before), Some(new.clone())));
                }
                Some(before) => {
                    deltas.push(delta(new.key(), Some(before), None));
                    deltas.push(delta(new.key(), None, Some(new.clone())));
                }
                None => deltas.push(delta(new.key(), None, Some(new.clone()))),
            }
        }
        deltas.extend(old.map(|gone| delta(&gone.key().clone(), Some(gone), None)));
        deltas
    }

    /// Takes in one answer; afterwards everything up to `position` is in. What was in before is left out. `low` is what all
    /// kinds have come to that may be asked for together: nobody needs the past before it.
    pub fn apply(
        &mut self,
        events: &[ReceivedEvent],
        position: Revision,
        low: Revision,
    ) -> Result<Vec<Delta>, Malformed> {
        let done = self.position.unwrap_or_default();
        let mut deltas = Vec::with_capacity(events.len());
        let is_change = |event: &&ReceivedEvent| {
            matches!(event.kind(), Type::Added | Type::Modified | Type::Deleted)
                && Revision::new(event.revision) > done
        };
        for event in events.iter().filter(is_change) {
            let (key, bytes) = named(event)?;
            let mut delta = Delta::of_event(key.clone(), event);
            let state = self.kept(key.clone(), delta.revision, bytes);
            if event.kind() == Type::Deleted {
                delta.last = Some(state);
            } else {
                delta.after = Some(state);
            }
            delta.before = self.put(&key, delta.after.as_ref());
            self.history.push_back(Undo { revision: delta.revision, key, before: delta.before.clone() });
            deltas.push(delta);
        }
        self.position = Some(done.max(position));
        self.forget(low);
        Ok(deltas)
    }

    /// Puts a state in place of another, and tells what it was.
    fn put(&mut self, key: &Key, after: Option<&Entry>) -> Option<Entry> {
        let before = match after {
            Some(after) => {
                let kept = Kept { revision: after.revision(), encoded: after.encoded().clone() };
                self.encoded_bytes += after.encoded_len();
                self.objects.insert(key.clone(), kept)
            }
            None => self.objects.remove(key),
        };
        let before = before.map(|kept| entry(&(key.clone(), kept)));
        self.encoded_bytes -= before.as_ref().map_or(0, Entry::encoded_len);
        for postings in self.indexes.values_mut() {
            self.unreadable += u64::from(!postings.change(before.as_ref(), after));
        }
        before
    }

    fn forget(&mut self, low: Revision) {
        let low = low.min(self.position.unwrap_or_default());
        self.floor = self.floor.max(low);
        while let Some(oldest) = self.history.front()
            && (oldest.revision <= self.floor || self.history.len() > HISTORY_MAX)
        {
            self.floor = self.floor.max(oldest.revision);
            self.history.pop_front();
        }
    }

    /// What is kept of the bytes that came: a copy of its own, because they are a part of something larger.
    fn kept(&mut self, key: Key, revision: Revision, bytes: &[u8]) -> Entry {
        let Some(transform) = &self.transform else { return Entry::new(key, revision, bytes.into()) };
        let whole = Entry::new(key, revision, bytes.into());
        match transform.apply(&whole) {
            Ok(transformed) => transformed,
            Err(_) => {
                self.unreadable += 1;
                whole
            }
        }
    }

    /// The state at a revision between `floor` and `position`.
    pub fn snapshot(&self, at: Revision) -> Option<Snapshot> {
        let position = self.position?;
        if at < self.floor || at > position {
            return None;
        }
        let mut overlay = BTreeMap::new();
        for undo in self.history.iter().rev().take_while(|undo| undo.revision > at) {
            overlay.insert(undo.key.clone(), undo.before.clone());
        }
        Some(Snapshot::new(at, self.objects.clone(), self.indexes.clone(), overlay))
    }
}

pub(super) fn entry((key, kept): &(Key, Kept)) -> Entry {
    Entry::new(key.clone(), kept.revision, kept.encoded.clone())
}

/// The key of an event's object, and its bytes.
fn named(event: &ReceivedEvent) -> Result<(Key, &[u8]), Malformed> {
    let object = event.object.as_ref().ok_or(Malformed)?;
    let name = ReceivedName::read(object).map_err(|_| Malformed)?;
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Malformed);
    let (namespace, name) = (text(&name.namespace)?, text(&name.name)?);
    if name.is_empty() {
        return Err(Malformed);
    }
    Ok((Key::new(namespace, name), object))
}
