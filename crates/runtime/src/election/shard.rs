//! Which shard a key belongs to.
//!
//! Every process of a controller, of whatever version, must answer the same: a change of this, or of [`crate::cache::Key::stable_hash`],
//! is two processes that work on one key.

use std::fmt;

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

/// The shard that a hash falls into, of so many.
pub(super) fn shard_of(hash: u64, shards: u32) -> ShardId {
    // The upper half of the product spreads evenly also where `shards` is no power of two, without a division.
    let scaled = (u128::from(hash) * u128::from(shards)) >> 64;
    ShardId(u32::try_from(scaled).expect("less than the number of shards"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Key;

    #[test]
    fn keys_stay_where_they_are_from_version_to_version() {
        let found: Vec<u32> = (0..8)
            .map(|number| shard_of(Key::new("default", &format!("web-{number}")).stable_hash(), 6).0)
            .collect();
        assert_eq!(found, [0, 5, 2, 4, 1, 4, 1, 5], "as another implementation of the same says");
    }

    #[test]
    fn keys_with_similar_names_spread_over_all_shards() {
        for shards in [1, 2, 3, 6, 7, 64] {
            let mut counts = vec![0u32; shards as usize];
            for number in 0..shards * 1000 {
                counts[shard_of(Key::new("ns", &format!("a-{number}")).stable_hash(), shards).index()] += 1;
            }
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{shards}: {counts:?}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_the_first_and_the_last_shard() {
        assert_eq!((shard_of(0, 6), shard_of(u64::MAX, 6)), (ShardId(0), ShardId(5)));
    }
}
