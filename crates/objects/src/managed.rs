//! Who owns which fields of one object: entries by manager, way of writing and subresource.
//!
//! Entries stay as they are stored, as sorted lines: most writes change a few fields of one manager, and an object may have many
//! of both, so reading all of them into sets would cost more than the rest of a write. Not here: when ownership changes
//! (`apply`, `update`).

use crate::fields::FieldSet;
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
        FieldSet::of_lines(&self.fields)
    }

    /// The lines at or below `roots`, which are sorted. Each is named once, however many of them it is below.
    pub(crate) fn below<'e>(&'e self, roots: &[String]) -> impl Iterator<Item = &'e String> {
        let below = self.places_below(roots);
        self.fields.iter().zip(below).filter_map(|(line, below)| below.then_some(line))
    }

    /// Takes away everything at or below `roots`, which are sorted.
    pub(crate) fn lose(&mut self, roots: &[String]) {
        if roots.iter().any(|root| !lines_below(&self.fields, root).is_empty()) {
            let mut below = self.places_below(roots).into_iter();
            self.fields.retain(|_| !below.next().unwrap_or_default());
        }
    }

    /// Adds lines, which are sorted.
    pub(crate) fn gain(&mut self, lines: Vec<String>) {
        if self.fields.is_empty() {
            self.fields = lines;
            return;
        }
        self.fields.extend(lines);
        // Of what is two sorted parts it makes one in a single pass.
        self.fields.sort();
        self.fields.dedup();
    }

    /// For each line, whether it is at or below one of `roots`.
    fn places_below(&self, roots: &[String]) -> Vec<bool> {
        let mut places = vec![false; self.fields.len()];
        for root in roots {
            for at in lines_below(&self.fields, root) {
                places[at] |= is_below(&self.fields[at], root);
            }
        }
        places
    }
}

/// Where among sorted lines those are that begin with a root: they are neighbours. Some of them may be no path below it.
fn lines_below(lines: &[String], root: &str) -> std::ops::Range<usize> {
    let from = lines.partition_point(|line| line.as_str() < root);
    let count = lines[from..].iter().take_while(|line| line.starts_with(root)).count();
    from..from + count
}

/// Whether a line is at or below a root that it begins with. A path has one notation only and does not end inside a quoted
/// name, so a step begins behind it, or nothing.
fn is_below(line: &str, root: &str) -> bool {
    line.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
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

    fn entry(mut fields: Vec<String>) -> ManagedFields {
        fields.sort();
        let (manager, operation) = ("alice".to_owned(), Operation::Update);
        ManagedFields { manager, operation, subresource: Subresource::Main, time_ms: 0, fields }
    }

    #[test]
    fn below_is_by_step_and_not_by_letter() {
        let roots = [".spec.a", ".spec.b[\"x\"]", ".spec.c.\"d.e\""].map(str::to_owned);
        let below =
            [".spec.a", ".spec.a.b", ".spec.a[1]", ".spec.b[\"x\"]", ".spec.c.\"d.e\"", ".spec.c.\"d.e\".f"];
        let beside = [
            ".spec",
            ".spec.ab",
            ".spec.a-b",
            ".spec.b",
            ".spec.b[\"xy\"]",
            ".spec.c.\"d.ef\"",
            ".spec.c.\"d\"",
        ];
        let mut mixed = entry(below.iter().chain(&beside).map(|line| (*line).to_owned()).collect());
        let mut found: Vec<_> = mixed.below(&roots).cloned().collect();
        found.sort();
        assert_eq!(found, entry(below.map(str::to_owned).to_vec()).fields);
        mixed.lose(&roots);
        assert_eq!(mixed.fields, entry(beside.map(str::to_owned).to_vec()).fields);
        // A quote inside a quoted name does not end it.
        let mut quoted = entry(vec![r#".spec."a\".b".c"#.to_owned()]);
        quoted.lose(&[r#".spec."a\"#.to_owned()]);
        assert_eq!(quoted.fields.len(), 1);
        quoted.lose(&[r#".spec."a\".b""#.to_owned()]);
        assert!(quoted.fields.is_empty());
    }

    #[test]
    fn what_is_gained_is_there_once_and_in_order() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let mut entry = entry(lines(&[".a", ".c"]));
        entry.gain(lines(&[".b", ".c", ".d"]));
        assert_eq!(entry.fields, [".a", ".b", ".c", ".d"]);
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
        let mut entry = entry(vec![line.clone()]);
        entry.lose(&[line]);
        assert!(entry.fields.is_empty());
    }
}
