//! What happened to one object, as observers of a cache are told.

use bytes::Bytes;
use setpoint_api::raw::ReceivedEvent;
use setpoint_client::author_of;
use setpoint_types::Revision;
use setpoint_types::object::Author;

use super::Key;
use super::entry::Entry;

/// Why observers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was there when the cache, or the observer, began. Nothing may have happened to it.
    Initial,
    /// It changed just now.
    Event,
    /// The cache missed some time and found it changed: what is told may sum up several changes.
    Relist,
}

/// One object, before and after.
///
/// **Guarantees**: the cache has `after` when observers are told; deltas of one object come in the order of its revisions. **Does not
/// promise** every state in between, an order between objects of two caches, or who made the change where several are summed up.
///
/// Deletion: `after` is none. `last` is then its final state, if the cache was told; found gone by a relist, it is not known,
/// and `before` is only the last state the cache had seen. An object that was deleted and made again between two looks is told
/// as two deltas, because it is two objects.
#[derive(Clone, Debug)]
pub struct Delta {
    pub key: Key,
    /// Of the change; where several are summed up, one not before the last of them.
    pub revision: Revision,
    pub cause: Cause,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
    pub last: Option<Entry>,
    pub(crate) author: Option<Bytes>,
}

impl Delta {
    /// Who made the change, if this is one change.
    pub fn author(&self) -> Option<Author> {
        self.author.as_ref().and_then(author_of)
    }

    /// The state to map to other objects by: what it is now, and what it was if it is gone.
    pub fn subject(&self) -> Option<&Entry> {
        self.after.as_ref().or(self.last.as_ref()).or(self.before.as_ref())
    }

    /// Every state of it that is known, the newest first: what to map by if a change may lead away from an object.
    pub fn states(&self) -> impl Iterator<Item = &Entry> {
        [&self.after, &self.last, &self.before].into_iter().flatten()
    }

    /// It is there.
    pub(crate) fn initial(entry: Entry) -> Self {
        Self {
            key: entry.key().clone(),
            revision: entry.revision(),
            cause: Cause::Initial,
            before: None,
            after: Some(entry),
            last: None,
            author: None,
        }
    }

    pub(super) fn of_event(key: Key, event: &ReceivedEvent) -> Self {
        Self {
            key,
            revision: Revision::new(event.revision),
            cause: Cause::Event,
            before: None,
            after: None,
            last: None,
            author: event.author.clone(),
        }
    }
}
