//! Where objects lie among the keys: `/setpoint.v1/KIND/NAMESPACE/NAME`, with an empty namespace for kinds of the whole
//! cluster ([ADR 7](../../../../docs/adr/0007-objects-over-keys.md)).
//!
//! Kinds, namespaces and names contain no `/`, so a prefix is a kind or a namespace of it. A key that is not of this form
//! is no object's; nothing here fails on one.

use bytes::{BufMut, Bytes, BytesMut};
use setpoint_types::KeyRange;

const PREFIX: &str = "/setpoint.v1/";

/// Which object a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName<'a> {
    pub kind: &'a str,
    /// Empty for kinds of the whole cluster.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> ObjectName<'a> {
    /// None if the key is not an object's.
    pub fn of(key: &'a [u8]) -> Option<Self> {
        let path = std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?;
        let (kind, rest) = path.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        (!kind.is_empty() && is_part(name)).then_some(Self { kind, namespace, name })
    }

    pub fn key(self) -> Bytes {
        joined(&[self.kind, "/", self.namespace, "/", self.name])
    }

    /// `namespace/name`: what orders the objects of a kind.
    pub fn within_kind(key: &'a [u8]) -> Option<(&'a str, &'a str)> {
        let Self { kind, .. } = Self::of(key)?;
        let rest = std::str::from_utf8(key.get(PREFIX.len() + kind.len() + 1..)?).ok()?;
        Some((kind, rest))
    }
}

/// True for what may stand between two slashes of a key.
pub fn is_part(part: &str) -> bool {
    !part.is_empty() && !part.contains(['/', '\0'])
}

/// What `is_name` asks for.
pub const NAME_RULE: &str =
    "has to be lower-case letters, digits, '-' and '.', at most 253, with a letter or digit at both ends";

/// True for what may be the name of an object or a namespace: no other is ever written.
pub fn is_name(name: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    let inner = |byte: &u8| outer(Some(byte)) || [b'-', b'.'].contains(byte);
    let bytes = name.as_bytes();
    bytes.len() <= 253 && bytes.iter().all(inner) && outer(bytes.first()) && outer(bytes.last())
}

/// Every object.
pub fn all() -> KeyRange {
    prefix(Bytes::from_static(PREFIX.as_bytes()))
}

/// Every object of a kind.
pub fn of_kind(kind: &str) -> KeyRange {
    prefix(joined(&[kind, "/"]))
}

/// Every object of a kind in a namespace.
pub fn of_namespace(kind: &str, namespace: &str) -> KeyRange {
    prefix(joined(&[kind, "/", namespace, "/"]))
}

/// What of a range lies behind a key.
pub fn after(range: KeyRange, key: &[u8]) -> KeyRange {
    let mut start = BytesMut::with_capacity(key.len() + 1);
    start.put_slice(key);
    start.put_u8(0);
    let end = range.end().unwrap_or_default();
    KeyRange::Span { start: start.freeze(), end }
}

fn joined(parts: &[&str]) -> Bytes {
    let mut key = String::from(PREFIX);
    parts.iter().for_each(|part| key.push_str(part));
    key.into()
}

/// All that begins with `start`, which ends with a slash.
fn prefix(start: Bytes) -> KeyRange {
    let mut end = BytesMut::from(&start[..]);
    if let Some(last) = end.last_mut() {
        *last = b'/' + 1;
    }
    KeyRange::Span { start, end: end.freeze() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_has_one_key_and_a_key_one_object() {
        let web = ObjectName { kind: "Workload", namespace: "default", name: "web" };
        assert_eq!(&web.key()[..], b"/setpoint.v1/Workload/default/web");
        assert_eq!(ObjectName::of(&web.key()), Some(web));
        assert_eq!(ObjectName::within_kind(&web.key()), Some(("Workload", "default/web")));
        let node = ObjectName { kind: "Node", namespace: "", name: "a1" };
        assert_eq!(&node.key()[..], b"/setpoint.v1/Node//a1");
        assert_eq!(ObjectName::of(&node.key()), Some(node));
    }

    #[test]
    fn foreign_keys_are_nobodys() {
        let foreign = ["", "/", "/setpoint.v1", "/setpoint.v1/", "/setpoint.v1/Node", "/setpoint.v1/Node/"];
        let more =
            ["/setpoint.v1/Node/a", "/setpoint.v1/Node//", "/setpoint.v1//a/b", "/setpoint.v1/Node/a/b/c"];
        for key in foreign.iter().chain(&more).chain(&["/setpoint.ledger/a/b/c", "/setpoint.v1/N/a/\0"]) {
            assert_eq!(ObjectName::of(key.as_bytes()), None, "{key}");
        }
        assert_eq!(ObjectName::of(b"/setpoint.v1/Node//\xff"), None);
    }

    #[test]
    fn ranges_hold_their_own_and_nothing_else() {
        let key = |kind, namespace, name| ObjectName { kind, namespace, name }.key();
        assert!(
            of_kind("Node").contains(&key("Node", "", "a"))
                && !of_kind("Node").contains(&key("Nodes", "", "a"))
        );
        let namespace = of_namespace("Job", "a");
        assert!(namespace.contains(&key("Job", "a", "zzz")) && !namespace.contains(&key("Job", "a-b", "c")));
        assert!(all().contains(&key("A", "", "a")) && !all().contains(b"/setpoint.v10/A//a"));
        let rest = after(of_kind("Job"), &key("Job", "a", "b"));
        assert!(!rest.contains(&key("Job", "a", "b")) && rest.contains(&key("Job", "a", "b0")));
        assert!(!rest.contains(&key("Zzz", "a", "b")));
    }

    proptest! {
        #[test]
        fn any_key_is_taken(key in prop::collection::vec(prop::sample::select(&b"/setpoint.v1\0\xffaK"[..]), 0..40)) {
            if let Some(name) = ObjectName::of(&key) {
                prop_assert_eq!(&name.key()[..], &key[..]);
            }
        }
    }
}
