//! Who owns which fields of one object: entries by manager, way of writing and subresource.
//!
//! Entries are kept as they are stored, as sorted lines, and read into sets only where a write touches them: most writes change
//! a few fields of one manager, and an object may have many of both. Not here: when ownership changes (`apply`, `update`).

use crate::fields::{FieldSet, Step};
use crate::object::{ManagedFields, Operation, Subresource};

/// Update entries of one object. Every client that writes once would stay for ever otherwise.
pub const UPDATE_MANAGERS_MAX: usize = 10;

/// The entry that the oldest Update entries are merged into.
pub const EARLIER_MANAGERS: &str = "earlier-managers";

/// Who writes, how and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    pub operation: Operation,
    pub subresource: Subresource,
    pub time_ms: u64,
}

impl Writer<'_> {
    pub(crate) fn wrote(&self, entry: &ManagedFields) -> bool {
        self.manager == entry.manager
            && self.operation == entry.operation
            && self.subresource == entry.subresource
    }

    pub(crate) fn entry(&self, fields: &FieldSet) -> ManagedFields {
        ManagedFields {
            manager: self.manager.to_owned(),
            operation: self.operation,
            subresource: self.subresource,
            time_ms: self.time_ms,
            fields: fields.print(),
        }
    }
}

impl ManagedFields {
    /// What it owns. A line that is no path is passed over: it owns nothing that exists.
    pub fn set(&self) -> FieldSet {
        let mut set = FieldSet::new();
        for path in self.fields.iter().filter_map(|line| Step::parse(line).ok()) {
            set.insert(&path);
        }
        set
    }

    /// Takes away everything at or below `roots`, whose lines are `lines`.
    pub(crate) fn lose(&mut self, roots: &FieldSet, lines: &[String]) {
        if lines.iter().any(|root| self.has_below(root)) {
            self.fields = self.set().without_below(roots).print();
        }
    }

    fn has_below(&self, root: &str) -> bool {
        let first = self.fields.partition_point(|line| line.as_str() < root);
        let mut below = self.fields[first..].iter().map_while(|line| line.strip_prefix(root));
        below.any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// Drops empty entries, merges the oldest Update entries, and sorts.
pub(crate) fn settle(mut entries: Vec<ManagedFields>) -> Vec<ManagedFields> {
    entries.retain(|entry| !entry.fields.is_empty());
    merge_oldest(&mut entries);
    entries.sort_by(|a, b| {
        (&a.manager, a.operation, a.subresource).cmp(&(&b.manager, b.operation, b.subresource))
    });
    entries
}

fn merge_oldest(entries: &mut Vec<ManagedFields>) {
    let is_update = |entry: &&ManagedFields| entry.operation == Operation::Update;
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
        match entries.iter_mut().find(|entry| earlier.wrote(entry)) {
            Some(entry) => {
                entry.time_ms = entry.time_ms.max(old.time_ms);
                entry.fields = entry.set().union(&old.set()).print();
            }
            None => entries.push(ManagedFields { manager: EARLIER_MANAGERS.to_owned(), ..old }),
        }
    }
}
