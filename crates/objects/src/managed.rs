//! Who owns which fields of one object: entries by manager, way of writing and subresource.
//!
//! Not here: when ownership changes (`apply`, `update`).

use crate::fields::{FieldSet, Step};
use crate::object::{ManagedFields, Operation, Subresource};

/// Update entries of one object. Every client that writes once would stay for ever otherwise.
pub const UPDATE_MANAGERS_MAX: usize = 10;

/// The entry that the oldest Update entries are merged into.
pub const EARLIER_MANAGERS: &str = "earlier-managers";

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    pub manager: String,
    pub operation: Operation,
    pub subresource: Subresource,
    pub time_ms: u64,
    pub fields: FieldSet,
}

/// Who writes, how and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    pub operation: Operation,
    pub subresource: Subresource,
    pub time_ms: u64,
}

impl Managed {
    /// From the stored form. A line that is no path is dropped: it owns nothing that exists.
    pub fn decode(stored: &ManagedFields) -> Self {
        let mut fields = FieldSet::new();
        for path in stored.fields.iter().filter_map(|line| Step::parse(line).ok()) {
            fields.insert(&path);
        }
        Self {
            manager: stored.manager.clone(),
            operation: stored.operation,
            subresource: stored.subresource,
            time_ms: stored.time_ms,
            fields,
        }
    }

    pub fn encode(&self) -> ManagedFields {
        ManagedFields {
            manager: self.manager.clone(),
            operation: self.operation,
            subresource: self.subresource,
            time_ms: self.time_ms,
            fields: self.fields.print(),
        }
    }

    pub(crate) fn is_of(&self, writer: &Writer<'_>) -> bool {
        self.manager == writer.manager
            && self.operation == writer.operation
            && self.subresource == writer.subresource
    }

    pub(crate) fn by(writer: &Writer<'_>, fields: FieldSet) -> Self {
        Self {
            manager: writer.manager.to_owned(),
            operation: writer.operation,
            subresource: writer.subresource,
            time_ms: writer.time_ms,
            fields,
        }
    }
}

/// Drops empty entries, merges the oldest Update entries, and sorts.
pub(crate) fn settle(mut entries: Vec<Managed>) -> Vec<Managed> {
    entries.retain(|entry| !entry.fields.is_empty());
    merge_oldest(&mut entries);
    entries.sort_by(|a, b| {
        (&a.manager, a.operation, a.subresource).cmp(&(&b.manager, b.operation, b.subresource))
    });
    entries
}

fn merge_oldest(entries: &mut Vec<Managed>) {
    let is_update = |entry: &&Managed| entry.operation == Operation::Update;
    while entries.iter().filter(is_update).count() > UPDATE_MANAGERS_MAX {
        let candidates = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.operation == Operation::Update && entry.manager != EARLIER_MANAGERS);
        let oldest = candidates.min_by_key(|(_, entry)| (entry.time_ms, &entry.manager)).map(|(at, _)| at);
        let Some(oldest) = oldest else { return };
        let old = entries.swap_remove(oldest);
        let earlier = Writer {
            manager: EARLIER_MANAGERS,
            operation: Operation::Update,
            subresource: old.subresource,
            time_ms: old.time_ms,
        };
        match entries.iter_mut().find(|entry| entry.is_of(&earlier)) {
            Some(entry) => {
                entry.time_ms = entry.time_ms.max(old.time_ms);
                entry.fields.add(old.fields);
            }
            None => entries.push(Managed::by(&earlier, old.fields)),
        }
    }
}
