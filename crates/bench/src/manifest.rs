//! Objects to write: Workloads of a given size, from a fixed seed, and the values that stand for them in etcd.
//!
//! The size is that of the object as it is stored, with the defaults and the owners of fields that the server adds, because
//! that is what is replicated, read and sent. Text is like that of other values (`workload`): half recurring words and half
//! random digits.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;

use crate::workload::{Random, write_object};

pub const KIND: &str = "Workload";
pub const NAMESPACE: &str = "default";
/// The label that lists select by.
pub const GROUP: &str = "group";
/// Stands before a time of sending, and nowhere else in an object or a value.
const STAMP: u8 = b'~';
const STAMP_DIGITS: usize = 16;
/// What the server stores beside the filling of an object: the rest of it, defaults and owners of fields. Measured; a row checks
/// that what it stored has the size it says.
const STORED_BESIDES: usize = 1_249;
/// The filling goes in pieces of this size, as arguments of the command.
const ARGUMENT_BYTES: usize = 64;

/// Workloads of one size.
#[derive(Clone, Copy, Debug)]
pub struct Manifests {
    pub stored_bytes: usize,
    /// How many objects share a group.
    pub group_size: usize,
}

impl Manifests {
    /// The workload with that number. `version` changes the image and one variable, as a new release would.
    pub fn workload(&self, number: usize, version: u64, sent: Duration) -> pb::Object {
        let labels = BTreeMap::from([
            ("app".to_owned(), format!("web-{:03}", number % 500)),
            (GROUP.to_owned(), group(number / self.group_size)),
            ("tier".to_owned(), "front".to_owned()),
        ]);
        let metadata = pb::Metadata {
            namespace: NAMESPACE.to_owned(),
            name: name(number),
            labels,
            ..pb::Metadata::default()
        };
        let spec = self.spec(number, version, sent).into();
        pb::Object { kind: KIND.to_owned(), metadata: Some(metadata), spec, status: Bytes::new() }
    }

    fn spec(&self, number: usize, version: u64, sent: Duration) -> String {
        let mut random = Random::new(number as u64);
        let mut left = self.stored_bytes.saturating_sub(STORED_BESIDES);
        let mut spec = format!("{{\"replicas\":3,\"template\":{{\"args\":[\"--id={:016x}\"", random.next());
        while left >= ARGUMENT_BYTES {
            // With the quotes and the comma, as many bytes as said.
            let (high, low) = (random.next(), random.next());
            let _ = write!(spec, ",\"--upstream-addresses=web-{high:016x}.{:02x}-{low:016x}\"", number % 256);
            left -= ARGUMENT_BYTES;
        }
        // An argument of less is none; the object is then smaller by as much.
        if left > 3 {
            let _ = write!(spec, ",\"{:a<1$}\"", "", left - 3);
        }
        let _ = write!(
            spec,
            "],\"env\":[{{\"name\":\"REGION\",\"value\":\"eu-{:02}\"}},\
             {{\"name\":\"RELEASED\",\"value\":\"{}{:016x}\"}}],\
             \"image\":\"registry.example.com/shop/web:{version:016x}\",\
             \"ports\":[{{\"name\":\"http\",\"port\":8080}}],\
             \"resources\":{{\"cpu\":\"500m\",\"memory\":\"256Mi\"}}}}}}",
            number % 40,
            char::from(STAMP),
            sent.as_nanos() as u64,
        );
        spec
    }

    /// A value for etcd, of the same size.
    pub fn value(&self, number: usize, version: u64, sent: Duration) -> Bytes {
        let mut value = Vec::with_capacity(self.stored_bytes + 64);
        write_object(&mut Random::new(number as u64 ^ version << 32), self.stored_bytes, &mut value);
        let middle = self.stored_bytes / 2;
        let stamp = format!("{}{:016x}", char::from(STAMP), sent.as_nanos() as u64);
        value[middle..middle + stamp.len()].copy_from_slice(stamp.as_bytes());
        value.into()
    }
}

/// The name of the workload with that number. Numbers that follow each other are far apart in the order of names.
pub fn name(number: usize) -> String {
    let scattered = Random::new(number as u64).next() as u32;
    format!("web-{scattered:08x}-{number:07}")
}

pub fn group(number: usize) -> String {
    format!("g-{number:05}")
}

/// Where the facade shows the object of that name.
pub fn stored_key(name: &str) -> Bytes {
    format!("/setpoint.v1/{KIND}/{NAMESPACE}/{name}").into()
}

/// The key that stands for the workload in etcd, where the keys of a group are neighbours.
pub fn key(number: usize, group_size: usize) -> Bytes {
    format!("/registry/workloads/{}/{}", group(number / group_size), name(number)).into()
}

/// The key that stands for a workload where one is written: as far from its neighbours as the object's own is, because how far
/// that is decides what a new key costs.
pub fn beside(number: usize) -> Bytes {
    format!("/registry/workloads/{NAMESPACE}/{}", name(number)).into()
}

/// All keys of all groups, as a key and the end of its range.
pub fn all_keys() -> (Bytes, Bytes) {
    (Bytes::from_static(b"/registry/workloads/"), Bytes::from_static(b"/registry/workloads0"))
}

/// The keys of one group.
pub fn keys_of(group_number: usize) -> (Bytes, Bytes) {
    let prefix = format!("/registry/workloads/{}", group(group_number));
    (format!("{prefix}/").into(), format!("{prefix}0").into())
}

/// When what these bytes hold was sent; `None` if they say nothing of it.
pub fn stamp_of(bytes: &[u8]) -> Option<Duration> {
    let start = bytes.iter().position(|byte| *byte == STAMP)? + 1;
    let mut nanos = 0;
    for digit in bytes.get(start..start + STAMP_DIGITS)? {
        nanos = nanos << 4 | u64::from(char::from(*digit).to_digit(16)?);
    }
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const MANIFESTS: Manifests = Manifests { stored_bytes: 2_048, group_size: 100 };
    const SENT: Duration = Duration::from_nanos(1_234_567_890_123);

    #[test]
    fn the_filling_has_the_size_that_is_left() {
        let empty = Manifests { stored_bytes: STORED_BESIDES, ..MANIFESTS }.spec(7, 1, SENT).len();
        for left in [4, 63, 64, 68, 628] {
            let manifests = Manifests { stored_bytes: STORED_BESIDES + left, ..MANIFESTS };
            assert_eq!(manifests.spec(7, 1, SENT).len(), empty + left, "{left}");
        }
    }

    #[test]
    fn a_spec_is_json_and_carries_its_stamp() {
        let spec = MANIFESTS.spec(7, 1, SENT);
        assert!(serde_json::from_str::<serde_json::Value>(&spec).is_ok_and(|spec| spec["replicas"] == 3));
        assert_eq!(stamp_of(spec.as_bytes()), Some(SENT));
        assert_ne!(spec, MANIFESTS.spec(7, 2, SENT));
    }

    #[test]
    fn a_value_has_the_size_of_the_object_and_carries_its_stamp() {
        let value = MANIFESTS.value(7, 1, SENT);
        assert_eq!((value.len(), stamp_of(&value)), (2_048, Some(SENT)));
        assert_eq!(stamp_of(b"no stamp"), None);
        assert_eq!(stamp_of(b"~0123"), None);
    }

    #[test]
    fn a_group_has_as_many_members_as_said_and_its_keys_are_neighbours() {
        let (start, end) = keys_of(2);
        let of_group = (0..1_000).filter(|number| (start.clone()..end.clone()).contains(&key(*number, 100)));
        assert_eq!(of_group.collect::<Vec<_>>(), (200..300).collect::<Vec<_>>());
        assert_eq!((0..1_000).map(name).collect::<HashSet<_>>().len(), 1_000);
    }
}
