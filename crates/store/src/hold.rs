//! Lease objects as the state machine sees them: who holds one, at which epoch.
//!
//! `/setpoint.epoch/NAMESPACE/NAME` is the last epoch that was given out, and stays for ever: an epoch is never given out
//! twice, not even when the object is deleted and made again (invariant S21). `/setpoint.hold/NAMESPACE/NAME` is there
//! while somebody holds the lease. It is attached to an etcd lease, whose end, by time or otherwise, ends the hold.
//!
//! Not here: the Lease object that clients see, who waits for it, and the counting of time (`apiserver`).

use bytes::{BufMut, Bytes};
use setpoint_types::{KeyRange, LeaseId};

use crate::codec::{put_bytes, put_signed, read_byte, read_signed, read_string};
use crate::encoding::{Damaged, EPOCHS, FORMAT, HOLDS, escape_name, split_name};
use crate::varint::{get_varint, put_varint};

/// Numbers the holders of one lease, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Nobody has held the lease yet.
    pub const NONE: Self = Self(0);

    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Namespace and name of a Lease object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// Holds while the lease is held at this epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    pub lease: LeaseName,
    pub epoch: Epoch,
}

/// One holder's time with a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    pub holder: String,
    pub epoch: Epoch,
    /// Seconds without a sign of life until it ends.
    pub ttl: i64,
    /// The etcd lease that counts its time.
    pub id: LeaseId,
}

/// A lease as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// The last one given out.
    pub epoch: Epoch,
    pub hold: Option<Hold>,
}

impl LeaseName {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn hold_key(&self) -> Bytes {
        self.key(HOLDS)
    }

    pub fn epoch_key(&self) -> Bytes {
        self.key(EPOCHS)
    }

    /// The keys of all holds, or of those in one namespace.
    pub fn holds(namespace: Option<&str>) -> KeyRange {
        let mut start = HOLDS.to_vec();
        if let Some(namespace) = namespace {
            escape_name(&mut start, namespace);
            start.put_u8(b'/');
        }
        let mut end = start.clone();
        // Both end with a slash.
        end.pop();
        end.put_u8(b'/' + 1);
        KeyRange::Span { start: start.into(), end: end.into() }
    }

    fn key(&self, prefix: &[u8]) -> Bytes {
        let mut key = prefix.to_vec();
        escape_name(&mut key, &self.namespace);
        key.put_u8(b'/');
        key.put_slice(self.name.as_bytes());
        key.into()
    }

    /// The lease that a key of [`HOLDS`] is about; none for any other key.
    pub fn of_hold_key(key: &[u8]) -> Option<Self> {
        let (namespace, name) = split_name(key.strip_prefix(HOLDS)?)?;
        Some(Self { namespace, name: name? })
    }

    pub(crate) fn put(&self, out: &mut impl BufMut) {
        put_bytes(out, self.namespace.as_bytes());
        put_bytes(out, self.name.as_bytes());
    }

    pub(crate) fn read(input: &mut Bytes) -> Option<Self> {
        Some(Self { namespace: read_string(input)?, name: read_string(input)? })
    }
}

impl Hold {
    pub fn encode(&self) -> Bytes {
        let mut row = vec![FORMAT];
        put_varint(&mut row, self.epoch.0);
        put_signed(&mut row, self.ttl);
        put_signed(&mut row, self.id.0);
        put_bytes(&mut row, self.holder.as_bytes());
        row.into()
    }

    pub fn decode(mut row: Bytes) -> Result<Self, Damaged> {
        Self::read(&mut row).filter(|_| row.is_empty()).ok_or(Damaged { what: "hold" })
    }

    fn read(row: &mut Bytes) -> Option<Self> {
        (read_byte(row)? == FORMAT).then_some(())?;
        Some(Self {
            epoch: Epoch(get_varint(row)?),
            ttl: read_signed(row)?,
            id: LeaseId(read_signed(row)?),
            holder: read_string(row)?,
        })
    }
}

impl Epoch {
    pub fn encode(self) -> Bytes {
        let mut row = vec![FORMAT];
        put_varint(&mut row, self.0);
        row.into()
    }

    pub fn decode(mut row: Bytes) -> Result<Self, Damaged> {
        let mut read = || {
            (read_byte(&mut row)? == FORMAT).then_some(())?;
            get_varint(&mut row).filter(|_| row.is_empty())
        };
        read().map(Self).ok_or(Damaged { what: "epoch" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_and_holds_survive(
            namespace in "[a%/]{0,4}", name in "[a%/]{0,4}", other in "[a%/]{0,4}",
            holder in ".{0,6}", epoch in any::<u64>(), ttl in any::<i64>(), id in any::<i64>(),
        ) {
            let lease = LeaseName::new(namespace, name);
            prop_assert_eq!(LeaseName::of_hold_key(&lease.hold_key()), Some(lease.clone()));
            prop_assert_eq!(LeaseName::of_hold_key(&lease.epoch_key()), None);
            prop_assert!(LeaseName::holds(None).contains(&lease.hold_key()));
            prop_assert!(!LeaseName::holds(None).contains(&lease.epoch_key()));
            let here = LeaseName::holds(Some(&other)).contains(&lease.hold_key());
            prop_assert_eq!(here, other == lease.namespace);
            let sibling = LeaseName { namespace: other, ..lease.clone() };
            prop_assert_eq!(sibling.epoch_key() == lease.epoch_key(), sibling == lease);
            let hold = Hold { holder, epoch: Epoch(epoch), ttl, id: LeaseId(id) };
            let row = hold.encode();
            prop_assert!(Hold::decode(row.slice(..row.len() - 1)).is_err());
            prop_assert_eq!(Hold::decode(row), Ok(hold));
            prop_assert_eq!(Epoch::decode(Epoch(epoch).encode()), Ok(Epoch(epoch)));
        }
    }

    #[test]
    fn a_foreign_value_is_damaged_and_not_a_hold() {
        assert!(Hold::decode(Bytes::new()).is_err() && Epoch::decode(Bytes::from_static(&[9, 1])).is_err());
        assert_eq!(LeaseName::of_hold_key(b"/setpoint.hold/only-a-namespace"), None);
        assert_eq!(Epoch(u64::MAX).next(), None);
    }
}
