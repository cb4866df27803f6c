//! Changing single keys: the record, the version row, the index and the lease's key set, together.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{LeaseId, Revision};

use super::state::State;
use super::{ChangeSet, Pending};
use crate::author::Author;
use crate::encoding::{self, Change, KeyVersion, Record, RecordId};
use crate::engine::{Table, WriteBatch};
use crate::index::KeyState;

/// The changes of one command, all at one revision.
pub(super) struct Write {
    /// The revision this command gets if it changes anything.
    pub revision: Revision,
    records: Vec<Record>,
    author: Option<Arc<Author>>,
}

impl Write {
    pub fn after(state: &State) -> Self {
        Self { revision: state.revision.successor(), records: Vec::new(), author: None }
    }

    pub fn by(self, author: Option<Arc<Author>>) -> Self {
        Self { author, ..self }
    }

    pub fn changed(&self) -> bool {
        !self.records.is_empty()
    }

    /// The revision as a reader inside the command sees it: it moves with the first change.
    pub fn visible(&self) -> Revision {
        if self.changed() { self.revision } else { self.revision.predecessor() }
    }

    fn next(&self) -> RecordId {
        RecordId { revision: self.revision, sub: self.records.len() as u32 }
    }

    pub fn into_changes(self) -> Option<ChangeSet> {
        self.changed().then_some(ChangeSet { revision: self.revision, records: self.records })
    }
}

/// What a mutation writes to.
pub(super) struct Target<'a> {
    pub state: &'a mut State,
    pub batch: &'a mut WriteBatch,
    pub pending: &'a mut Pending,
}

impl Target<'_> {
    pub fn put(&mut self, write: &mut Write, key: &Bytes, value: Bytes, lease: LeaseId) {
        let id = write.next();
        let next = |existing: Option<KeyState>| KeyState {
            modified: id.revision,
            created: existing.map_or(id.revision, |state| state.created),
            version: existing.map_or(1, |state| state.version + 1),
            lease,
            sub: id.sub,
        };
        let existing = self.state.index.update(key, next);
        let state = next(existing);
        let previous_lease = existing.map_or(LeaseId::NONE, |state| state.lease);
        if previous_lease != lease {
            self.detach(previous_lease, key);
            if let Some(lease) = self.state.leases.get_mut(&lease) {
                // A copy: a slice would keep the whole log entry in memory for as long as the lease lives.
                lease.keys.insert(Bytes::copy_from_slice(key));
            }
        }
        let change = Change::Put { value, created: state.created, version: state.version, lease };
        self.record(write, id, key, existing, change, KeyVersion { state, deleted: false });
    }

    /// Deletes a live key.
    pub fn delete(&mut self, write: &mut Write, key: &Bytes, existing: KeyState) {
        let id = write.next();
        self.detach(existing.lease, key);
        self.state.index.remove(key);
        let state = KeyState {
            modified: id.revision,
            created: Revision::NONE,
            version: 0,
            lease: LeaseId::NONE,
            sub: id.sub,
        };
        self.record(write, id, key, Some(existing), Change::Delete, KeyVersion { state, deleted: true });
    }

    fn record(
        &mut self,
        write: &mut Write,
        id: RecordId,
        key: &Bytes,
        existing: Option<KeyState>,
        change: Change,
        version: KeyVersion,
    ) {
        let replaced = existing.map(|state| RecordId { revision: state.modified, sub: state.sub });
        let record = Record { key: key.clone(), replaced, change, author: write.author.clone() };
        self.batch.put(Table::Records, id.encode(), record.encode());
        self.batch.put(Table::Keys, encoding::key_version(key, id), version.encode());
        self.pending.insert(id, record.clone());
        write.records.push(record);
    }

    fn detach(&mut self, lease: LeaseId, key: &Bytes) {
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            lease.keys.remove(key);
        }
    }
}
