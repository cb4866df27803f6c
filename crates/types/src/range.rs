//! Ranges of keys, with etcd's conventions for their end.

use bytes::Bytes;

/// A half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyRange {
    /// Exactly one key.
    Single(Bytes),
    /// `[start, end)`. Empty if `end <= start`.
    Span { start: Bytes, end: Bytes },
    /// Every key from `start` on.
    From(Bytes),
}

impl KeyRange {
    /// Reads the pair the wire carries: an empty end means one key, an end of one zero byte means "to the last key".
    pub fn from_wire(key: Bytes, range_end: Bytes) -> Self {
        match &range_end[..] {
            [] => Self::Single(key),
            [0] => Self::From(key),
            _ => Self::Span { start: key, end: range_end },
        }
    }

    pub fn start(&self) -> &[u8] {
        match self {
            Self::Single(key) | Self::Span { start: key, .. } | Self::From(key) => key,
        }
    }

    /// The first key past the range, or none if it has no end. A single key ends at its successor.
    pub fn end(&self) -> Option<Bytes> {
        match self {
            Self::Single(key) => {
                let mut next = Vec::with_capacity(key.len() + 1);
                next.extend_from_slice(key);
                next.push(0);
                Some(next.into())
            }
            Self::Span { end, .. } => Some(end.clone()),
            Self::From(_) => None,
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::Single(only) => &only[..] == key,
            Self::Span { start, end } => &start[..] <= key && key < &end[..],
            Self::From(start) => &start[..] <= key,
        }
    }

    /// True if no key can be inside.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Span { start, end } => end <= start,
            Self::Single(_) | Self::From(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &'static str, end: &'static [u8]) -> KeyRange {
        KeyRange::from_wire(Bytes::from_static(key.as_bytes()), Bytes::from_static(end))
    }

    #[test]
    fn the_wire_end_selects_the_kind_of_range() {
        assert!(range("a", b"").contains(b"a") && !range("a", b"").contains(b"aa"));
        assert!(range("a", b"b").contains(b"az") && !range("a", b"b").contains(b"b"));
        assert!(range("a", b"\0").contains(b"zzz") && !range("b", b"\0").contains(b"a"));
        assert!(range("b", b"a").is_empty() && range("b", b"b").is_empty() && !range("b", b"").is_empty());
    }

    #[test]
    fn a_single_key_ends_at_its_successor() {
        assert_eq!(range("a", b"").end().as_deref(), Some(&b"a\0"[..]));
        assert_eq!(range("a", b"\0").end(), None);
    }
}
