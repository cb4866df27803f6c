//! What becomes of the parts of one owner: pure, from what was found of it and them.
//!
//! | the owner is | its parts |
//! |---|---|
//! | there, and stays | stay |
//! | gone, says the server | are deleted, or lose this owner if another one is there |
//! | being deleted, in the foreground | are deleted; when none is left that blocks it, it goes |
//! | being deleted, orphaning | lose this owner; when none is left, it goes |
//!
//! A binding goes only once it is released: what it has reserved would be nobody's.

use serde::Serialize;
use setpoint_client::Propagation;
use setpoint_types::{Metadata, ObjectKey, Revision, Uid};

use super::owner::OwnerId;

/// Parts that one run acts on: beyond that it looks again first.
pub(super) const PARTS_MAX: usize = 500;
/// The owner stays until the parts that block it are gone.
pub(super) const FOREGROUND: &str = "setpoint/foreground";
/// The owner stays until its parts no longer name it.
pub(super) const ORPHAN: &str = "setpoint/orphan";

/// What was found of an owner, by the server where it matters.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// It is there and stays, or goes when others have done their part.
    There,
    /// It is not there, or another object has its name.
    Gone,
    /// It goes, and has an order for its parts.
    Going { metadata: Box<Metadata>, order: Order },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Order {
    Foreground,
    Orphan,
}

impl Order {
    /// What the finalizers of an object say, if it is being deleted.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        let has = |name: &str| metadata.is_terminating() && metadata.finalizers.iter().any(|it| it == name);
        if has(ORPHAN) { Some(Self::Orphan) } else { has(FOREGROUND).then_some(Self::Foreground) }
    }

    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Foreground => FOREGROUND,
            Self::Orphan => ORPHAN,
        }
    }
}

/// One part, as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub key: ObjectKey,
    pub metadata: Metadata,
    /// It may go.
    pub is_free: bool,
    /// One of its other owners is there.
    pub has_other: bool,
}

/// Everything the plan is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub id: OwnerId,
    pub owner: Owner,
    pub parts: Vec<Part>,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    pub delete: Vec<Doomed>,
    /// They lose the owner.
    pub disown: Vec<Disowned>,
    /// The owner has nothing to wait for any more: it loses this finalizer.
    pub finish: Option<&'static str>,
    /// There is more than one run does.
    pub again: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doomed {
    pub key: ObjectKey,
    pub uid: Uid,
    pub revision: Revision,
    pub in_foreground: bool,
}

impl Doomed {
    pub fn propagation(&self) -> Propagation {
        if self.in_foreground { Propagation::Foreground } else { Propagation::Background }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disowned {
    pub key: ObjectKey,
    pub uid: Uid,
    pub revision: Revision,
    pub owner: Uid,
}

pub fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    match &observed.owner {
        Owner::There => {}
        Owner::Gone => {
            for part in &observed.parts {
                if part.has_other {
                    plan.disown.push(disowned(observed, part));
                } else if part.is_free && !part.metadata.is_terminating() {
                    plan.delete.push(doomed(part, false));
                }
            }
        }
        Owner::Going { order: Order::Foreground, .. } => {
            let is_left = |part: &&Part| part.metadata.owners.iter().any(|it| blocks(observed, it));
            for part in observed.parts.iter().filter(|part| !part.metadata.is_terminating()) {
                if part.has_other {
                    plan.disown.push(disowned(observed, part));
                } else if part.is_free {
                    plan.delete.push(doomed(part, true));
                }
            }
            let blocking = observed.parts.iter().filter(is_left).count();
            plan.finish = (blocking == 0).then_some(FOREGROUND);
        }
        Owner::Going { order: Order::Orphan, .. } => {
            plan.disown = observed.parts.iter().map(|part| disowned(observed, part)).collect();
            plan.finish = plan.disown.is_empty().then_some(ORPHAN);
        }
    }
    plan.again = plan.delete.len() > PARTS_MAX || plan.disown.len() > PARTS_MAX;
    plan.delete.truncate(PARTS_MAX);
    plan.disown.truncate(PARTS_MAX);
    plan
}

fn blocks(observed: &Observed, reference: &setpoint_types::object::OwnerReference) -> bool {
    reference.uid == observed.id.uid && reference.block_owner_deletion
}

fn doomed(part: &Part, in_foreground: bool) -> Doomed {
    let Part { key, metadata, .. } = part;
    Doomed { key: key.clone(), uid: metadata.uid.clone(), revision: metadata.revision, in_foreground }
}

fn disowned(observed: &Observed, part: &Part) -> Disowned {
    let Part { key, metadata, .. } = part;
    let owner = observed.id.uid.clone();
    Disowned { key: key.clone(), uid: metadata.uid.clone(), revision: metadata.revision, owner }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;
    use setpoint_types::object::OwnerReference;

    use super::*;

    fn part(name: &str, blocks: bool) -> Part {
        let reference = OwnerReference {
            kind: "Workload".to_owned(),
            name: "web".to_owned(),
            uid: Uid::new("w"),
            controller: true,
            block_owner_deletion: blocks,
        };
        let metadata = Metadata {
            name: name.to_owned(),
            uid: Uid::new(name),
            owners: vec![reference],
            ..Metadata::default()
        };
        Part { key: ObjectKey::new("ReplicaSet", "default", name), metadata, is_free: true, has_other: false }
    }

    fn check(owner: Owner, parts: Vec<Part>, expected: (&[&str], &[&str], Option<&str>)) {
        let id = OwnerId {
            kind: "Workload".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: Uid::new("w"),
        };
        let plan = plan(&Observed { id, owner, parts });
        let deleted: Vec<&str> = plan.delete.iter().map(|it| it.key.name.as_str()).collect();
        let disowned: Vec<&str> = plan.disown.iter().map(|it| it.key.name.as_str()).collect();
        assert_eq!((&deleted[..], &disowned[..], plan.finish), expected);
    }

    fn going(order: Order) -> Owner {
        Owner::Going { metadata: Box::default(), order }
    }

    #[test]
    fn parts_of_an_owner_that_is_there_stay() {
        check(Owner::There, vec![part("a", true)], (&[], &[], None));
    }

    #[test]
    fn parts_of_one_that_is_gone_go_unless_another_owner_is_there() {
        let shared = Part { has_other: true, ..part("b", true) };
        let mut stopping = part("c", true);
        stopping.metadata.deleted = Some(Timestamp(1));
        let reserved = Part { is_free: false, ..part("d", true) };
        check(Owner::Gone, vec![part("a", true), shared, stopping, reserved], (&["a"], &["b"], None));
    }

    #[test]
    fn in_the_foreground_the_owner_waits_for_those_that_block_it() {
        check(going(Order::Foreground), vec![part("a", true)], (&["a"], &[], None));
        let mut stopping = part("a", true);
        stopping.metadata.deleted = Some(Timestamp(1));
        check(going(Order::Foreground), vec![stopping], (&[], &[], None));
        check(going(Order::Foreground), vec![part("a", false)], (&["a"], &[], Some(FOREGROUND)));
        check(going(Order::Foreground), vec![], (&[], &[], Some(FOREGROUND)));
    }

    #[test]
    fn orphans_lose_their_owner_before_it_goes() {
        check(going(Order::Orphan), vec![part("a", true), part("b", false)], (&[], &["a", "b"], None));
        check(going(Order::Orphan), vec![], (&[], &[], Some(ORPHAN)));
    }
}
