//! Server-side apply: a manager says which fields it has an opinion on, and gets all of it or a list of who disagrees.
//!
//! - A field with the value it already has is shared with its other owners.
//! - A field with another value, owned by somebody else, is a conflict; with `force` it is taken, and said from whom.
//! - A field this manager applied before and leaves out now is removed, unless somebody else owns it or something below it.
//! - Items of a list that is a map are merged by key, members of a set are joined, everything else is replaced whole.
//! - An apply that changes nothing changes nothing, not even the time.
//!
//! Expected flow: `config` has no defaults filled in and no `null` fields; the caller fills defaults into the result, and they
//! stay nobody's. Not here: uid and revision conditions, generation (`write`).

use serde_json::Value;

use crate::changes::Changes;
use crate::fields::{FieldSet, Step};
use crate::lists;
use crate::managed::{Writer, settle};
use crate::merge::{merge_documents, values_at};
use crate::object::{ManagedFields, Operation};
use crate::refusal::{FieldConflict, FieldProblem};
use crate::topology::Topology;
use crate::view::document_lines;

/// What an apply comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    pub document: Value,
    pub managed: Vec<ManagedFields>,
    /// What `force` took, and from whom.
    pub taken: Vec<FieldConflict>,
}

/// Why an apply is refused.
#[derive(Clone, Debug, PartialEq)]
pub enum NotApplied {
    /// Lists that break their own rules. What they would have come to, each as one value, has perhaps more problems.
    Invalid { problems: Vec<FieldProblem>, document: Value },
    /// Others own what would change.
    Conflicts(Vec<FieldConflict>),
}

/// Applies `config` to `live`, both documents `{"metadata": …, "spec": …}` of the sections in question; a new object is `{}`.
pub fn apply(
    topology: &Topology,
    live: &Value,
    managed: &[ManagedFields],
    config: Value,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Applied, NotApplied> {
    let writer = &Writer { operation: Operation::Apply, ..*writer };
    let problems = list_problems(topology, &config);
    let names = document_lines(topology, &config);
    let mut document = if live.is_object() { live.clone() } else { Value::Object(serde_json::Map::new()) };
    merge_documents(topology, &mut document, config);
    if !problems.is_empty() {
        return Err(NotApplied::Invalid { problems, document });
    }
    let touched = Changes::of_documents(topology, live, &document).touched();

    let own = managed.iter().find(|entry| writer.wrote(entry));
    let before: &[String] = own.map_or(&[], |own| &own.fields);
    if touched.is_empty() && before == names {
        return Ok(Applied { document, managed: managed.to_vec(), taken: Vec::new() });
    }
    let mut others: Vec<ManagedFields> =
        managed.iter().filter(|entry| !writer.wrote(entry)).cloned().collect();
    let disputed = conflicts(topology, live, &others, &touched, writer.manager);
    if !disputed.is_empty() && !force {
        return Err(NotApplied::Conflicts(disputed));
    }
    for entry in &mut others {
        entry.lose(&touched);
    }
    let dropped = before.iter().filter(|line| names.binary_search(line).is_err());
    let dropped = FieldSet::of_lines(dropped);
    if !dropped.is_empty() {
        remove_dropped(topology, &mut document, &dropped, FieldSet::of_lines(&names), &mut others);
    }
    others.push(writer.entry(names));
    Ok(Applied { document, managed: settle(others), taken: disputed })
}

/// Removes what the manager no longer names and nobody else owns. An item that stays, because others own something in it,
/// becomes theirs: what is there has an owner.
fn remove_dropped(
    topology: &Topology,
    document: &mut Value,
    dropped: &FieldSet,
    wanted: FieldSet,
    others: &mut [ManagedFields],
) {
    let sets: Vec<FieldSet> = others.iter().map(ManagedFields::set).collect();
    let keep = sets.iter().fold(wanted, |keep, set| keep.union(set));
    let free = dropped.free_of(&keep);
    free.remove_from(topology, document, &keep);
    let left = dropped.difference(&free).difference(&keep).paths();
    let items: Vec<_> = left.into_iter().filter(|path| matches!(path.last(), Some(Step::Item(_)))).collect();
    for (entry, set) in others.iter_mut().zip(&sets) {
        let inherited = items.iter().filter(|path| set.at(path).is_some());
        entry.gain(inherited.map(|path| Step::print(path)).collect());
    }
}

fn list_problems(topology: &Topology, config: &Value) -> Vec<FieldProblem> {
    let sections = config.as_object().into_iter().flatten();
    sections
        .flat_map(|(name, value)| {
            let path = Step::print(&[Step::field(name)]);
            lists::check(topology, topology.section(name), value, &path)
        })
        .collect()
}

/// What other managers own of what would change. With what it wrote by other ways itself, nobody is in conflict.
fn conflicts(
    topology: &Topology,
    live: &Value,
    others: &[ManagedFields],
    touched: &[String],
    manager: &str,
) -> Vec<FieldConflict> {
    let others = others.iter().filter(|entry| entry.manager != manager);
    let mut conflicts: Vec<FieldConflict> = others
        .flat_map(|entry| entry.below(touched).map(move |line| (line, entry)))
        .map(|(line, entry)| FieldConflict {
            path: line.clone(),
            manager: entry.manager.clone(),
            value: Value::Null,
        })
        .collect();
    if conflicts.is_empty() {
        return conflicts;
    }
    let paths = FieldSet::of_lines(conflicts.iter().map(|conflict| &conflict.path));
    let values = values_at(topology, live, &paths);
    for conflict in &mut conflicts {
        conflict.value = values.get(&conflict.path).map_or(Value::Null, |value| (*value).clone());
    }
    conflicts.sort_by(|a, b| (&a.path, &a.manager).cmp(&(&b.path, &b.manager)));
    // One manager may own a field by applying and by updating it.
    conflicts.dedup_by(|a, b| a.path == b.path && a.manager == b.manager);
    conflicts
}
