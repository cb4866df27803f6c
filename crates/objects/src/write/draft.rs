//! A write that is decided but not yet final: policies may still change or refuse it.

use serde_json::Value;

use super::Kind;
use crate::changes::Changes;
use crate::decode::{depth, settle_numbers};
use crate::deletion::check_finalizers;
use crate::managed::Writer;
use crate::object::{ManagedFields, Object, Operation, Subresource};
use crate::owners::{self, OwnerLookup};
use crate::refusal::{FieldConflict, FieldProblem, Refusal};
use crate::unknown::{FieldValidation, prune};
use crate::view::print_section;
use crate::{DEPTH_MAX, default, immutable, lists, metadata, update};

/// A write before policies have looked at it.
#[derive(Clone)]
pub struct Draft<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) before: Option<&'a Object>,
    pub(super) object: Object,
    pub(super) subresource: Subresource,
    pub(super) warnings: Vec<String>,
    /// What is wrong already. The write goes on as if it were not, so that everything else is found, too.
    pub(super) found: Vec<FieldProblem>,
    pub(super) taken: Vec<FieldConflict>,
    pub(super) owners: OwnerLookup<'a>,
    pub(super) manager: &'a str,
    pub(super) time_ms: u64,
}

/// What has to be committed.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Store this.
    Put(Object),
    /// The object already is as asked: store nothing.
    Unchanged(Object),
    /// Delete the key; this was its last state.
    Gone(Object),
}

impl Outcome {
    pub fn object(&self) -> &Object {
        match self {
            Self::Put(object) | Self::Unchanged(object) | Self::Gone(object) => object,
        }
    }

    pub fn object_mut(&mut self) -> &mut Object {
        match self {
            Self::Put(object) | Self::Unchanged(object) | Self::Gone(object) => object,
        }
    }
}

/// A finished write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub outcome: Outcome,
    /// Sentences for people.
    pub warnings: Vec<String>,
    /// What a forced apply took, and from whom.
    pub taken: Vec<FieldConflict>,
}

impl Draft<'_> {
    /// The object as it was, `None` if it is new.
    pub fn before(&self) -> Option<&Object> {
        self.before
    }

    /// The object as it would be stored, but for its generation.
    pub fn object(&self) -> &Object {
        &self.object
    }

    pub fn subresource(&self) -> Subresource {
        self.subresource
    }

    /// Lets policies change the object. What they change is recorded as an update by the manager of the write: it asked for
    /// it, and must not find itself in conflict with a policy the next time. Identity and what the server writes are put back,
    /// and so is the part of the object that this write is not about. What they leave is settled as what a client sends is:
    /// what they null gets its default again, and a field that no object of the kind has is a problem. `by` are their names.
    pub fn mutate(&mut self, by: &[String], change: impl FnOnce(&mut Object)) -> Result<(), Refusal> {
        let old = self.object.clone();
        change(&mut self.object);
        self.object.kind.clone_from(&old.kind);
        match self.subresource {
            Subresource::Main => self.object.status.clone_from(&old.status),
            Subresource::Status => {
                self.object.spec.clone_from(&old.spec);
                self.object.metadata.clone_from(&old.metadata);
            }
        }
        keep_servers_metadata(&old, &mut self.object);
        self.settle_mutated(by, &old);
        let filled = fill_defaults(&self.kind, &mut self.object, self.subresource, &old)?;
        let writer = Writer {
            manager: self.manager,
            operation: Operation::Update,
            subresource: self.subresource,
            time_ms: self.time_ms,
        };
        let changes = between(&self.kind, Some(&old), &self.object, self.subresource);
        own(&mut self.object, undecided(changes, &filled), &writer);
        Ok(())
    }

    fn settle_mutated(&mut self, by: &[String], old: &Object) {
        let topology = self.kind.topology;
        let (section, value, old, node) = match self.subresource {
            Subresource::Main => (".spec", &mut self.object.spec, &old.spec, topology.spec()),
            Subresource::Status => (".status", &mut self.object.status, &old.status, topology.status()),
        };
        settle_numbers(value);
        let mut unknown = prune(value, topology, node, section);
        if !unknown.is_empty() {
            // What the schema has forgotten since it was stored was not put in by a policy.
            let forgotten = prune(&mut old.clone(), topology, node, section);
            unknown.retain(|problem| !forgotten.contains(problem));
        }
        let names = by.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        self.found.extend(unknown.into_iter().map(|problem| {
            let message = format!("is no field of this kind, and a policy put it there: correct {names}");
            FieldProblem::new(problem.path, message)
        }));
        default::drop_nulls(value, topology, node);
        super::settle_sections(&mut self.object);
    }

    /// What is wrong already, before the last checks.
    pub fn found(&self) -> &[FieldProblem] {
        &self.found
    }

    /// The last checks, the generation, and what has to be committed.
    pub fn finish(self) -> Result<Written, Refusal> {
        self.finish_or(|_| Vec::new())
    }

    /// As [`Self::finish`]. If something is wrong, `rest` finds what else is wrong with the object, so that a refusal names
    /// everything at once; if nothing is, it is not called.
    pub fn finish_or(mut self, rest: impl FnOnce(&Object) -> Vec<FieldProblem>) -> Result<Written, Refusal> {
        let mut problems = std::mem::take(&mut self.found);
        problems.extend(self.problems());
        if !problems.is_empty() {
            problems.extend(rest(&self.object));
            return Err(Refusal::invalid(problems));
        }
        let deleting = self.object.metadata.deleted_ms.is_some();
        let outcome = match self.before {
            None => Outcome::Put(self.object),
            Some(_) if deleting && self.object.metadata.finalizers.is_empty() => Outcome::Gone(self.object),
            Some(before) if is_same(before, &self.object) => Outcome::Unchanged(before.clone()),
            Some(before) => {
                if before.spec != self.object.spec {
                    self.object.metadata.generation = before.metadata.generation.saturating_add(1);
                }
                Outcome::Put(self.object)
            }
        };
        Ok(Written { outcome, warnings: self.warnings, taken: self.taken })
    }

    fn problems(&self) -> Vec<FieldProblem> {
        let (topology, object) = (self.kind.topology, &self.object);
        // What came in is not too deep, but defaults and policies add to it, and what is stored has to be read again.
        let (section, value) = match self.subresource {
            Subresource::Main => (".spec", &object.spec),
            Subresource::Status => (".status", &object.status),
        };
        if depth(value) > DEPTH_MAX {
            return vec![FieldProblem::new(section, format!("is nested more than {DEPTH_MAX} deep"))];
        }
        match self.subresource {
            Subresource::Status => {
                let mut problems = lists::check(topology, topology.status(), &object.status, ".status");
                if let Some(before) = self.before {
                    let (old, new) = (&before.status, &object.status);
                    problems.extend(immutable::check(topology, topology.status(), old, new, ".status"));
                }
                problems
            }
            Subresource::Main => {
                let mut problems = lists::check(topology, topology.spec(), &object.spec, ".spec");
                let before = self.before.map(|before| &before.metadata);
                problems.extend(check_finalizers(before, &object.metadata));
                if before.is_none_or(|before| before.owners != object.metadata.owners) {
                    problems.extend(owners::check(object, self.owners));
                }
                if let Some(before) = self.before {
                    let (old, new) = (&before.spec, &object.spec);
                    problems.extend(immutable::check(topology, topology.spec(), old, new, ".spec"));
                }
                problems
            }
        }
    }
}

/// Whether nothing differs but when something was written. A policy that undoes a change leaves that behind, and would
/// make every repetition of the write another revision.
fn is_same(before: &Object, after: &Object) -> bool {
    let same_entry = |(old, new): (&ManagedFields, &ManagedFields)| {
        (&old.manager, old.operation, old.subresource, &old.fields)
            == (&new.manager, new.operation, new.subresource, &new.fields)
    };
    let (old, new) = (&before.metadata, &after.metadata);
    before.spec == after.spec
        && before.status == after.status
        && old.managed_fields.len() == new.managed_fields.len()
        && old.managed_fields.iter().zip(&new.managed_fields).all(same_entry)
        && metadata::is_same_ownable(old, new)
}

/// What the server writes, and what an object is known by, cannot be changed by anybody.
pub(super) fn keep_servers_metadata(stored: &Object, object: &mut Object) {
    let (from, to) = (&stored.metadata, &mut object.metadata);
    to.namespace.clone_from(&from.namespace);
    to.name.clone_from(&from.name);
    to.generate_name.clone_from(&from.generate_name);
    to.uid.clone_from(&from.uid);
    to.revision = from.revision;
    to.generation = from.generation;
    to.created_ms = from.created_ms;
    to.deleted_ms = from.deleted_ms;
    to.managed_fields.clone_from(&from.managed_fields);
}

/// Drops what the schema does not know and what is `null` from one part of an object; gives warnings, or problems.
pub(super) fn settle_fields(
    kind: &Kind<'_>,
    object: &mut Object,
    subresource: Subresource,
    mut found: Vec<FieldProblem>,
    validation: FieldValidation,
) -> Settled {
    let topology = kind.topology;
    let (section, value, node, exists) = match subresource {
        Subresource::Main => (".spec", &mut object.spec, topology.spec(), topology.has_spec()),
        Subresource::Status => (".status", &mut object.status, topology.status(), topology.has_status()),
    };
    found.retain(|problem| {
        !problem.path.starts_with(match subresource {
            Subresource::Main => ".status",
            Subresource::Status => ".spec",
        })
    });
    let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    if !exists && !empty {
        found.push(FieldProblem::new(section, format!("is no part of the kind {}: remove it", kind.name)));
        *value = Value::Null;
    }
    found.extend(prune(value, topology, node, section));
    default::drop_nulls(value, topology, node);
    super::settle_sections(object);
    match validation.judge(found) {
        Ok(warnings) => Settled { warnings, found: Vec::new() },
        Err(found) => Settled { warnings: Vec::new(), found },
    }
}

/// What was found about fields that no object of the kind has.
pub(super) struct Settled {
    pub warnings: Vec<String>,
    pub found: Vec<FieldProblem>,
}

/// Fills defaults into one part of an object, where nobody has to know which fields they are.
pub(super) fn fill_silently(
    kind: &Kind<'_>,
    object: &mut Object,
    subresource: Subresource,
) -> Result<(), Refusal> {
    let topology = kind.topology;
    let (section, value, node) = match subresource {
        Subresource::Main => (".spec", &mut object.spec, topology.spec()),
        Subresource::Status if object.status.is_null() => return Ok(()),
        Subresource::Status => (".status", &mut object.status, topology.status()),
    };
    let filled = default::fill_silently(value, topology, node);
    filled.map_err(|error| Refusal::invalid(vec![error.problem(section)]))
}

/// Fills defaults into one part of an object, and says which of them may differ from what was there before.
pub(super) fn fill_defaults(
    kind: &Kind<'_>,
    object: &mut Object,
    subresource: Subresource,
    before: &Object,
) -> Result<Vec<String>, Refusal> {
    let topology = kind.topology;
    let (section, value, before, node) = match subresource {
        Subresource::Main => (".spec", &mut object.spec, &before.spec, topology.spec()),
        Subresource::Status if object.status.is_null() => return Ok(Vec::new()),
        Subresource::Status => (".status", &mut object.status, &before.status, topology.status()),
    };
    let filled = default::fill(value, topology, node, before, section);
    filled.map_err(|error| Refusal::invalid(vec![error.problem(section)]))
}

/// A field that fell back to its default is no longer its owner's, but not the writer's either.
pub(super) fn undecided(mut changes: Changes, filled: &[String]) -> Changes {
    if filled.is_empty() {
        return changes;
    }
    let is_filled = |line: &mut String| filled.binary_search(line).is_ok();
    let before = changes.gone.len();
    changes.gone.extend(changes.set.extract_if(.., is_filled));
    if changes.gone.len() > before {
        changes.gone.sort_unstable();
        changes.gone.dedup();
    }
    changes
}

/// What differs in one part of an object.
pub(super) fn between(
    kind: &Kind<'_>,
    before: Option<&Object>,
    after: &Object,
    subresource: Subresource,
) -> Changes {
    let none = Value::Null;
    let topology = kind.topology;
    match subresource {
        Subresource::Status => {
            Changes::of_section(topology, "status", before.map_or(&none, |it| &it.status), &after.status)
        }
        Subresource::Main => {
            let changes = match before.map(|before| &before.metadata) {
                Some(before) if metadata::is_same_ownable(before, &after.metadata) => Changes::default(),
                before => {
                    let old = before.map_or(Value::Null, metadata::ownable);
                    Changes::of_section(topology, "metadata", &old, &metadata::ownable(&after.metadata))
                }
            };
            let before = before.map_or(&none, |it| &it.spec);
            changes.and(Changes::of_section(topology, "spec", before, &after.spec))
        }
    }
}

/// Makes everything in the main part of a new object the writer's.
pub(super) fn own_all(kind: &Kind<'_>, object: &mut Object, writer: &Writer<'_>) {
    let topology = kind.topology;
    let said = metadata::ownable(&object.metadata);
    let (mut lines, mut at) = (Vec::new(), String::new());
    for (name, section) in [("metadata", &said), ("spec", &object.spec)] {
        print_section(topology, name, section, &mut at, &mut lines);
    }
    if !lines.is_empty() {
        lines.sort_unstable();
        object.metadata.managed_fields = vec![writer.entry(lines)];
    }
}

/// Moves ownership of what changed to the writer.
pub(super) fn own(object: &mut Object, changes: Changes, writer: &Writer<'_>) {
    if changes.is_empty() {
        return;
    }
    let managed = std::mem::take(&mut object.metadata.managed_fields);
    object.metadata.managed_fields = update::moved(changes, managed, writer);
}
