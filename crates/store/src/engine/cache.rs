//! Recently written and read records, in memory: what is written is mostly read soon, by a client or as the previous value
//! of the next write, and a look into RocksDB costs ten times a look in here.
//!
//! Records never change, so the cache cannot be stale: a row is put once and deleted once. A row deleted while somebody
//! read it may stay for a while; nothing refers to it any more.

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::encoding::RecordId;

/// What a row costs beside its bytes.
const OVERHEAD: usize = 96;
/// Larger rows are read seldom enough to be read from disk.
const ROW_MAX: usize = 64 << 10;
/// Only a first guess for the tables of the cache.
const TYPICAL_ROW: usize = 512;

type Key = [u8; RecordId::LENGTH];

#[derive(Clone)]
struct Bytewise;

impl Weighter<Key, Bytes> for Bytewise {
    fn weight(&self, _key: &Key, row: &Bytes) -> u64 {
        (OVERHEAD + row.len()) as u64
    }
}

pub struct RowCache {
    rows: Cache<Key, Bytes, Bytewise>,
}

impl RowCache {
    pub fn new(bytes_max: usize) -> Self {
        Self { rows: Cache::with_weighter(bytes_max / TYPICAL_ROW, bytes_max as u64, Bytewise) }
    }

    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.rows.get(&Key::try_from(key).ok()?)
    }

    pub fn put(&self, key: &[u8], row: Bytes) {
        if row.len() <= ROW_MAX
            && let Ok(key) = Key::try_from(key)
        {
            self.rows.insert(key, row);
        }
    }

    pub fn remove(&self, key: &[u8]) {
        if let Ok(key) = Key::try_from(key) {
            self.rows.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Revision;

    use super::*;

    #[test]
    fn rows_are_kept_within_the_bound_and_forgotten_when_removed() {
        let cache = RowCache::new(64 << 10);
        let key = |revision| RecordId { revision: Revision::new(revision), sub: 0 }.encode();
        cache.put(&key(1), Bytes::from_static(b"one"));
        assert_eq!(cache.get(&key(1)), Some(Bytes::from_static(b"one")));
        cache.remove(&key(1));
        assert_eq!(cache.get(&key(1)), None);
        for revision in 0..10_000 {
            cache.put(&key(revision), Bytes::from(vec![0; 256]));
        }
        assert!(cache.rows.weight() <= 64 << 10);
        cache.put(&key(1), Bytes::from(vec![0; ROW_MAX + 1]));
        assert_eq!(cache.get(&key(1)).filter(|row| row.len() > ROW_MAX), None);
    }
}
