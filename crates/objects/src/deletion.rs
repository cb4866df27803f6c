//! How objects go: finalizers, propagation to their parts, and what a deletion waits for.
//!
//! Deletion begins once and cannot be undone. While an object has finalizers it stays, marked; no new ones may be added, and
//! it goes with the write that removes the last. Deleting the parts is the garbage collector's, which finds its orders as
//! finalizers: [`FOREGROUND`] and [`ORPHAN`].

use setpoint_types::names::check_finalizer;

use crate::fields::{Scalar, Step};
use crate::object::{Metadata, Object};
use crate::refusal::FieldProblem;

/// The object stays until the parts that block it are gone.
pub const FOREGROUND: &str = "setpoint/foreground";
/// The object stays until its parts no longer name it as their owner.
pub const ORPHAN: &str = "setpoint/orphan";
/// A namespace stays until nothing is in it.
pub const NAMESPACE: &str = "setpoint/namespace";

/// Finalizers of one object.
pub const FINALIZERS_MAX: usize = 64;

/// What becomes of an object's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The object goes now, its parts are collected afterwards.
    #[default]
    Background,
    /// Its parts go first.
    Foreground,
    /// Its parts stay, without an owner.
    Orphan,
}

/// Something a deletion waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub finalizer: String,
    /// For [`FOREGROUND`]: the parts that must go first.
    pub dependents: Vec<Dependent>,
}

/// A part of an object: one that names it as an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependent {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Whether its reference says `block_owner_deletion`.
    pub blocks: bool,
}

impl Dependent {
    /// If `part` names `owner` among its owners.
    pub fn of(owner: &Object, part: &Object) -> Option<Self> {
        let mut references = part.metadata.owners.iter();
        let reference = references.find(|reference| reference.uid == owner.metadata.uid)?;
        Some(Self {
            kind: part.kind.clone(),
            namespace: part.metadata.namespace.clone(),
            name: part.metadata.name.clone(),
            blocks: reference.block_owner_deletion,
        })
    }
}

/// What the deletion of this object waits for; nothing if it has not begun. `parts` are those of its parts that are known.
pub fn blockers(object: &Object, parts: &[Dependent]) -> Vec<Blocker> {
    if object.metadata.deleted_ms.is_none() {
        return Vec::new();
    }
    let blocking = |finalizer: &str| match finalizer {
        FOREGROUND => parts.iter().filter(|part| part.blocks).cloned().collect(),
        ORPHAN => parts.to_vec(),
        _ => Vec::new(),
    };
    let finalizers = object.metadata.finalizers.iter();
    finalizers.map(|it| Blocker { finalizer: it.clone(), dependents: blocking(it) }).collect()
}

/// Leaves the collector its order.
pub(crate) fn order(metadata: &mut Metadata, propagation: Propagation) {
    let (wanted, other) = match propagation {
        // What the object carries already is an order of its own.
        Propagation::Background => return,
        Propagation::Foreground => (FOREGROUND, ORPHAN),
        Propagation::Orphan => (ORPHAN, FOREGROUND),
    };
    metadata.finalizers.retain(|finalizer| finalizer != other);
    if !metadata.finalizers.iter().any(|finalizer| finalizer == wanted) {
        metadata.finalizers.push(wanted.to_owned());
    }
}

/// All that is wrong with an object's finalizers, given what it was before.
pub(crate) fn check_finalizers(before: Option<&Metadata>, metadata: &Metadata) -> Vec<FieldProblem> {
    if metadata.finalizers.len() > FINALIZERS_MAX {
        let message = format!("are {}, at most {FINALIZERS_MAX}", metadata.finalizers.len());
        return vec![FieldProblem::new(".metadata.finalizers", message)];
    }
    let mut problems = Vec::new();
    let deleted = before.filter(|before| before.deleted_ms.is_some());
    for (index, finalizer) in metadata.finalizers.iter().enumerate() {
        let path = || {
            let member = Step::Member(Scalar::Text(finalizer.clone()));
            Step::print(&[Step::field("metadata"), Step::field("finalizers"), member])
        };
        if let Err(rule) = check_finalizer(finalizer) {
            problems.push(FieldProblem::new(path(), format!("{rule}, like \"example.com/cleanup\"")));
        }
        if metadata.finalizers.iter().take(index).any(|other| other == finalizer) {
            problems.push(FieldProblem::new(path(), "is there twice: remove one"));
        }
        if deleted.is_some_and(|before| !before.finalizers.contains(finalizer)) {
            let message =
                "cannot be added any more: the object is being deleted, and finalizers can only be removed";
            problems.push(FieldProblem::new(path(), message));
        }
    }
    problems
}
