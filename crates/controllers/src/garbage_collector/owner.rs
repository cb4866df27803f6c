//! An owner whose parts are looked at, as a key of the queue: kind, name and uid. Pure.
//!
//! The uid belongs to it: a later object of the same name is another owner. Names of objects have no slash, so that such a key is never
//! that of a namespace.

use setpoint_runtime::cache::Key;
use setpoint_types::Uid;
use setpoint_types::object::OwnerReference;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId {
    pub kind: String,
    /// Empty for kinds that belong to the whole cluster.
    pub namespace: String,
    pub name: String,
    pub uid: Uid,
}

impl OwnerId {
    /// The object that a part in this namespace names.
    pub fn named_by(reference: &OwnerReference, namespace: &str, is_namespaced: bool) -> Self {
        Self {
            kind: reference.kind.clone(),
            namespace: if is_namespaced { namespace.to_owned() } else { String::new() },
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }
    }

    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &format!("{}/{}/{}", self.kind, self.name, self.uid))
    }

    /// None: it is the key of a namespace.
    pub fn of_key(key: &Key) -> Option<Self> {
        let mut parts = key.name().splitn(3, '/');
        let (kind, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            kind: kind.to_owned(),
            namespace: key.namespace().to_owned(),
            name: name.to_owned(),
            uid: Uid::new(uid),
        })
    }

    pub fn object_key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_owners_from_namespaces_and_later_objects_of_a_name() {
        let reference = OwnerReference {
            kind: "Node".to_owned(),
            name: "n1".to_owned(),
            uid: Uid::new("u1"),
            ..OwnerReference::default()
        };
        for is_namespaced in [true, false] {
            let owner = OwnerId::named_by(&reference, "team", is_namespaced);
            assert_eq!(OwnerId::of_key(&owner.key()), Some(owner));
        }
        assert_eq!(OwnerId::of_key(&Key::new("", "team")), None);
    }
}
