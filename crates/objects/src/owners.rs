//! Who may own whom.
//!
//! An owner is in the same namespace or of a kind of the whole cluster, at most one owner controls, nobody owns itself, and
//! owners do not form a circle, as far as can be seen: an owner that is created or changed at the same moment is not seen,
//! and the collector copes with what slips through.

use std::collections::{BTreeSet, VecDeque};

use setpoint_types::names::{check_dns_subdomain, check_kind};

use crate::fields::{Scalar, Step};
use crate::object::{Object, OwnerReference};
use crate::refusal::FieldProblem;

/// Owners of one object.
pub const OWNERS_MAX: usize = 64;
/// How many owners of owners are looked at for a circle.
const SEEN_MAX: usize = 256;

/// What has to be known about an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleOwner {
    /// Of the object that has this kind and name now.
    pub uid: String,
    /// Whether it is in a namespace, rather than of the whole cluster.
    pub namespaced: bool,
    pub owners: Vec<OwnerReference>,
}

/// Finds an owner by kind and name, in the namespace of the object it owns or in the whole cluster.
pub type OwnerLookup<'a> = &'a dyn Fn(&OwnerReference) -> Option<VisibleOwner>;

/// All that is wrong with an object's owners.
pub fn check(object: &Object, lookup: OwnerLookup<'_>) -> Vec<FieldProblem> {
    let owners = &object.metadata.owners;
    if owners.len() > OWNERS_MAX {
        let message = format!("are {}, at most {OWNERS_MAX}", owners.len());
        return vec![FieldProblem::new(".metadata.owners", message)];
    }
    let mut problems = Vec::new();
    let mut wrong =
        |at: &OwnerReference, message: String| problems.push(FieldProblem::new(path(at), message));
    let mut controller: Option<&OwnerReference> = None;
    let mut seen = BTreeSet::new();
    for owner in owners {
        if owner.kind.is_empty() || owner.name.is_empty() || owner.uid.is_empty() {
            wrong(owner, "needs kind, name and uid".to_owned());
            continue;
        }
        if let Err(rule) = check_kind(&owner.kind) {
            wrong(owner, format!("has no good kind: it {rule}"));
        }
        if let Err(rule) = check_dns_subdomain(&owner.name) {
            wrong(owner, format!("has no good name: it {rule}"));
        }
        if !seen.insert(&owner.uid) {
            wrong(owner, "is there twice: remove one".to_owned());
        }
        if is_self(object, owner) {
            wrong(owner, "is the object itself: nothing owns itself".to_owned());
        }
        match controller {
            Some(first) if owner.controller => {
                let message = format!(
                    "controls the object beside {} {}: at most one owner does",
                    first.kind, first.name
                );
                wrong(owner, message);
            }
            None if owner.controller => controller = Some(owner),
            _ => {}
        }
        if lookup(owner).is_some_and(|visible| visible.namespaced && object.metadata.namespace.is_empty()) {
            let message = "is in a namespace, but the object is of the whole cluster: such an object is owned by one of its like";
            wrong(owner, message.to_owned());
        }
        if let Some(by) = circle(object, owner, lookup) {
            wrong(owner, format!("would close a circle: {} {} is owned by this object", by.kind, by.name));
        }
    }
    problems
}

fn path(owner: &OwnerReference) -> String {
    let uid = Scalar::Text(owner.uid.clone());
    let item = Step::item(vec![("uid".to_owned(), uid)]);
    Step::print(&[Step::field("metadata"), Step::field("owners"), item])
}

fn is_self(object: &Object, owner: &OwnerReference) -> bool {
    owner.uid == object.metadata.uid
}

/// The owner, direct or not, that is owned by the object.
fn circle(object: &Object, owner: &OwnerReference, lookup: OwnerLookup<'_>) -> Option<OwnerReference> {
    if object.metadata.uid.is_empty() || is_self(object, owner) {
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([owner.clone()]);
    while let Some(next) = queue.pop_front() {
        if seen.len() >= SEEN_MAX || !seen.insert(next.uid.clone()) {
            continue;
        }
        // Another object of that name by now: it is not this one's owner.
        let Some(visible) = lookup(&next).filter(|visible| visible.uid == next.uid) else { continue };
        if visible.owners.iter().any(|owner| owner.uid == object.metadata.uid) {
            return Some(next);
        }
        queue.extend(visible.owners);
    }
    None
}
