//! Which shard a key belongs to.
//!
//! Every process of a controller, of whatever version, must answer the same, so the function is written down here and never
//! changes: a change of it is two processes that work on one key.

use std::fmt;

use setpoint_types::ObjectKey;

use crate::cache::Key;

/// One of the parts that a controller's keys are split into, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

impl ShardId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A number for a key that is the same in every process, version and machine.
pub fn key_hash(key: &Key) -> u64 {
    hash(key.as_str().as_bytes())
}

/// The same for a key that comes with its kind: the kind is not part of it, a controller's keys are of one.
pub fn object_hash(key: &ObjectKey) -> u64 {
    key_hash(&Key::from(key))
}

/// The shard that a hash falls into, of so many.
pub(super) fn shard_of(hash: u64, shards: u32) -> ShardId {
    // The upper half of the product spreads evenly also where `shards` is no power of two, without a division.
    let scaled = (u128::from(hash) * u128::from(shards)) >> 64;
    ShardId(u32::try_from(scaled).expect("less than the number of shards"))
}

/// FNV-1a, then the finish of MurmurHash3, because `shard_of` looks at the upper bits and FNV mixes the lower ones.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_where_they_are_from_version_to_version() {
        let found: Vec<u32> = (0..8)
            .map(|number| shard_of(key_hash(&Key::new("default", &format!("web-{number}"))), 6).0)
            .collect();
        assert_eq!(found, [4, 0, 0, 4, 3, 5, 1, 5], "as another implementation of the same says");
        let object = ObjectKey::new("Workload", "default", "web-0");
        assert_eq!(object_hash(&object), key_hash(&Key::new("default", "web-0")));
    }

    #[test]
    fn keys_with_similar_names_spread_over_all_shards() {
        for shards in [1, 2, 3, 6, 7, 64] {
            let mut counts = vec![0u32; shards as usize];
            for number in 0..shards * 1000 {
                counts[shard_of(key_hash(&Key::new("ns", &format!("a-{number}"))), shards).index()] += 1;
            }
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{shards}: {counts:?}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_the_first_and_the_last_shard() {
        assert_eq!((shard_of(0, 6), shard_of(u64::MAX, 6)), (ShardId(0), ShardId(5)));
    }
}
