//! One watch of a stream: what it wants, and how far it has come.

use std::sync::Arc;

use setpoint_store::{Change, Record, Store};
use setpoint_types::{KeyRange, Revision};

use super::ring::{PreviousMissing, Published};
use super::stream::Event;

/// The number a watch has on its stream.
pub type WatchId = i64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    pub no_puts: bool,
    pub no_deletes: bool,
}

impl Filters {
    fn pass(self, record: &Record) -> bool {
        match record.change {
            Change::Put { .. } => !self.no_puts,
            Change::Delete => !self.no_deletes,
        }
    }
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct WatchSpec {
    pub range: KeyRange,
    /// The first revision to deliver; none means whatever comes after now.
    pub start: Option<Revision>,
    pub filters: Filters,
    pub previous: bool,
    pub progress: bool,
    pub fragment: bool,
}

/// Where a watch gets its changes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// From the hub, together with the rest of its stream: it was also sent everything that the stream has taken.
    Live,
    /// From the hub, from its own next revision on, which may lie before what the others were sent.
    Joining,
    /// From the history.
    Behind,
}

/// A watch that runs.
pub struct Watcher {
    pub spec: WatchSpec,
    /// The next revision to look at; everything below was delivered, or is none of its business. For a live watch see
    /// `next_after`.
    pub next: Revision,
    pub state: State,
    /// Something was sent since the last progress notification was due.
    pub active: bool,
}

impl Watcher {
    /// The next revision to look at if its stream has sent everything up to `sent`.
    pub fn next_after(&self, sent: Revision) -> Revision {
        match self.state {
            State::Live => self.next.max(sent.successor()),
            State::Joining | State::Behind => self.next,
        }
    }

    /// True if it has been sent everything up to `sent`, which is as far as its stream is, and that is not before it even
    /// starts.
    pub fn has_reached(&self, sent: Revision) -> bool {
        let started = self.spec.start.is_none_or(|start| start <= sent);
        self.state == State::Live && started && self.next <= sent.successor()
    }

    /// The events of one revision that this watch wants, and moves past it.
    pub fn events(
        &mut self,
        set: &Arc<Published>,
        store: &Store,
        events: &mut Vec<Event>,
    ) -> Result<(), PreviousMissing> {
        let revision = set.revision();
        if revision < self.next {
            return Ok(());
        }
        for (place, record) in set.changes.records.iter().enumerate() {
            if !self.spec.range.contains(&record.key) || !self.spec.filters.pass(record) {
                continue;
            }
            let replaced = if self.spec.previous { set.previous(place, store)? } else { None };
            let previous = replaced.map(|it| it.value.clone());
            let deleted = matches!(record.change, Change::Delete);
            events.push(Event { deleted, current: record.to_key_value(revision), previous });
        }
        self.next = revision.successor();
        Ok(())
    }
}
