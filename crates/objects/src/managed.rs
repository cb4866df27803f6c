//! Who owns which fields of one object: entries by manager, way of writing and subresource.
//!
//! Entries stay as they are stored, as sorted lines: most writes change a few fields of one manager, and an object may have many
//! of both, so reading all of them into sets would cost more than the rest of a write. Not here: when ownership changes
//! (`apply`, `update`).

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

    pub(crate) fn entry(&self, fields: Vec<String>) -> ManagedFields {
        ManagedFields {
            manager: self.manager.to_owned(),
            operation: self.operation,
            subresource: self.subresource,
            time_ms: self.time_ms,
            fields,
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

    /// The lines at or below `roots`, which are sorted.
    pub(crate) fn below<'e>(&'e self, roots: &'e [String]) -> impl Iterator<Item = &'e String> {
        self.fields.iter().filter(|line| is_below(line, roots))
    }

    /// Takes away everything at or below `roots`, which are sorted.
    pub(crate) fn lose(&mut self, roots: &[String]) {
        self.fields.retain(|line| !is_below(line, roots));
    }

    pub(crate) fn gain(&mut self, lines: Vec<String>) {
        self.fields.extend(lines);
        self.fields.sort_unstable();
        self.fields.dedup();
    }
}

/// Whether a path is at or below one of `roots`, which are sorted. Each has one notation only, so that text can be compared: a
/// part that ends inside a quoted name is no path, and is therefore none of the roots.
fn is_below(line: &str, roots: &[String]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    // Only where a step begins: a quoted name may be long and full of dots, and each prefix is compared in its whole length.
    let begins = |(_, byte): &(usize, u8)| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ => {}
        }
        !quoted && matches!(byte, b'.' | b'[')
    };
    let ends = line.bytes().enumerate().skip(1).filter(begins);
    let mut prefixes = ends.filter_map(|(end, _)| line.get(..end)).chain([line]);
    prefixes.any(|prefix| roots.binary_search_by(|root| root.as_str().cmp(prefix)).is_ok())
}

/// The owners after `writer` has written fields that are known beforehand: `set` are its own from then on, and whoever owned them or
/// something at or below `gone` does so no longer. Both are sorted. The same as comparing both versions, without doing so.
pub fn take_over(
    mut entries: Vec<ManagedFields>,
    gone: &[&str],
    set: &[&str],
    writer: &Writer<'_>,
) -> Vec<ManagedFields> {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let (mut touched, set) = (lines(gone), lines(set));
    touched.extend_from_slice(&set);
    touched.sort_unstable();
    entries.iter_mut().for_each(|entry| entry.lose(&touched));
    match entries.iter_mut().find(|entry| writer.wrote(entry)) {
        Some(own) => {
            own.gain(set);
            own.time_ms = writer.time_ms;
        }
        None if set.is_empty() => {}
        None => entries.push(writer.entry(set)),
    }
    settle(entries)
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
                entry.gain(old.fields);
            }
            None => entries.push(ManagedFields { manager: EARLIER_MANAGERS.to_owned(), ..old }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_by_step_and_not_by_letter() {
        let roots = [".spec.a", ".spec.b[\"x\"]", ".spec.c.\"d.e\""].map(str::to_owned);
        for line in
            [".spec.a", ".spec.a.b", ".spec.a[1]", ".spec.b[\"x\"]", ".spec.c.\"d.e\"", ".spec.c.\"d.e\".f"]
        {
            assert!(is_below(line, &roots), "{line}");
        }
        // A quote inside a quoted name does not end it.
        assert!(is_below(r#".spec."a\".b".c"#, &[r#".spec."a\".b""#.to_owned()]));
        for line in [
            ".spec",
            ".spec.ab",
            ".spec.a-b",
            ".spec.b",
            ".spec.b[\"xy\"]",
            ".spec.c.\"d.ef\"",
            ".spec.c.\"d\"",
        ] {
            assert!(!is_below(line, &roots), "{line}");
        }
    }

    #[test]
    fn what_is_taken_over_was_somebody_elses_and_is_the_writers() {
        let by = |manager: &str, fields: &[&str]| ManagedFields {
            manager: manager.to_owned(),
            operation: Operation::Update,
            subresource: Subresource::Status,
            time_ms: 1,
            fields: fields.iter().map(|it| it.to_string()).collect(),
        };
        let subresource = Subresource::Status;
        let writer = Writer { manager: "server", operation: Operation::Update, subresource, time_ms: 2 };
        let entries = vec![by("alice", &[".status.blocked.reason", ".status.other", ".status.stage"])];
        let after = take_over(entries, &[".status.blocked"], &[".status.node", ".status.stage"], &writer);
        let mine = ManagedFields { time_ms: 2, ..by("server", &[".status.node", ".status.stage"]) };
        assert_eq!(after, [by("alice", &[".status.other"]), mine.clone()]);
        assert_eq!(take_over(after.clone(), &[], &[".status.node"], &writer), after);
        assert_eq!(take_over(vec![mine], &[".status"], &[], &writer), []);
    }

    #[test]
    fn a_long_name_full_of_dots_is_compared_once() {
        let line = format!(".spec.zones[\"{}\"]", ".".repeat(1 << 20));
        let mut entry = ManagedFields {
            manager: "alice".to_owned(),
            operation: Operation::Update,
            subresource: Subresource::Main,
            time_ms: 0,
            fields: vec![line.clone()],
        };
        entry.lose(&[line]);
        assert!(entry.fields.is_empty());
    }
}
