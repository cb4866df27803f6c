//! What an object is called within its kind.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use setpoint_types::ObjectKey;

/// Namespace and name as one text. Cheap to clone. All keys of a namespace follow each other.
///
/// **Does not promise** to be one object: an object that was deleted and made again has the same key. Compare uids where that matters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The namespace is empty for kinds of the whole cluster. Neither contains a slash.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.extend([namespace, "/", name]);
        Self(text.into())
    }

    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    pub fn of_kind(&self, kind: &str) -> ObjectKey {
        ObjectKey::new(kind, self.namespace(), self.name())
    }

    /// The same in every process and every build, unlike `Hash`: replicas of a controller have to agree which of them a key
    /// belongs to.
    pub fn stable_hash(&self) -> u64 {
        // FNV-1a, and a last round that spreads its weak high bits.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in self.0.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ (hash >> 32)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&ObjectKey> for Key {
    fn from(key: &ObjectKey) -> Self {
        Self::new(&key.namespace, &key.name)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// `default/web`, or `a1` for kinds of the whole cluster.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.strip_prefix('/').unwrap_or(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_namespace_and_name() {
        let key = Key::new("default", "web");
        assert_eq!(
            (key.namespace(), key.name(), key.to_string().as_str()),
            ("default", "web", "default/web")
        );
        let key = Key::from(&ObjectKey::new("Node", "", "a1"));
        assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), ("", "a1", "a1"));
        assert_eq!(key.of_kind("Node"), ObjectKey::new("Node", "", "a1"));
    }
}
