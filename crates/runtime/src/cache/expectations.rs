//! Read your writes: a controller decides about a key again only after its caches have seen what it wrote for it.
//!
//! Otherwise it would find that nothing has been done, and do it again. One revision counts for all kinds, so it suffices to
//! remember, per key and kind, the newest revision written.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_client::OnWrite;
use setpoint_types::{ObjectKey, Revision};

/// Keys whose writes are remembered singly. Beyond it all keys wait for the newest write of all: slower, but still right.
const KEYS_MAX: usize = 100_000;

/// What was written for each key and has not been seen yet.
///
/// **Guarantees**: after a write was told of, [`Expectations::pending`] names it until every cache of its kind has reached its
/// revision. **Does not promise** anything about writes of others, nor about kinds nobody caches: those are not waited for.
#[derive(Default)]
pub struct Expectations {
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    /// By the key that is decided about, then by the kind that was written.
    by_key: BTreeMap<ObjectKey, BTreeMap<String, Revision>>,
    /// What every key waits for, by kind.
    by_all: BTreeMap<String, Revision>,
}

/// A write that a cache has not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub kind: String,
    pub revision: Revision,
}

impl Expectations {
    /// Something of this kind was written for the key.
    pub fn wrote(&self, key: &ObjectKey, kind: &str, revision: Revision) {
        let mut written = self.written.lock();
        if written.by_key.len() >= KEYS_MAX && !written.by_key.contains_key(key) {
            let all = std::mem::take(&mut written.by_key);
            for (kind, revision) in all.into_values().flatten() {
                expect(&mut written.by_all, &kind, revision);
            }
        }
        expect(written.by_key.entry(key.clone()).or_default(), kind, revision);
    }

    /// For [`setpoint_client::Client::with_on_write`]: every write of that client is one for the key.
    pub fn on_write(self: &Arc<Self>, key: ObjectKey) -> OnWrite {
        let expectations = self.clone();
        Arc::new(move |written: &ObjectKey, revision| expectations.wrote(&key, &written.kind, revision))
    }

    /// What the caches have yet to see before the key is decided about, if anything. `reached` tells how far the caches of a
    /// kind have come, and none if nobody caches it. What has been seen is forgotten.
    pub fn pending(&self, key: &ObjectKey, reached: impl Fn(&str) -> Option<Revision>) -> Option<Pending> {
        let mut written = self.written.lock();
        let unseen = |kind: &String, revision: &mut Revision| reached(kind).is_some_and(|at| at < *revision);
        written.by_all.retain(unseen);
        let mut waiting = written.by_all.iter().next().map(pending);
        if let Some(own) = written.by_key.get_mut(key) {
            own.retain(unseen);
            waiting = own.iter().next().map(pending).or(waiting);
            if own.is_empty() {
                written.by_key.remove(key);
            }
        }
        waiting
    }

    /// The key is nobody's business any more.
    pub fn forget(&self, key: &ObjectKey) {
        self.written.lock().by_key.remove(key);
    }

    /// How many keys have something outstanding.
    pub fn len(&self) -> usize {
        self.written.lock().by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn expect(kinds: &mut BTreeMap<String, Revision>, kind: &str, revision: Revision) {
    match kinds.get_mut(kind) {
        Some(newest) => *newest = revision.max(*newest),
        None => drop(kinds.insert(kind.to_owned(), revision)),
    }
}

fn pending((kind, revision): (&String, &Revision)) -> Pending {
    Pending { kind: kind.clone(), revision: *revision }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("Workload", "default", name)
    }

    fn at(revision: u64) -> impl Fn(&str) -> Option<Revision> {
        move |kind| (kind != "Uncached").then(|| Revision::new(revision))
    }

    #[test]
    fn a_key_waits_for_its_own_last_write_and_for_no_other() {
        let expectations = Arc::new(Expectations::default());
        let on_write = expectations.on_write(key("a"));
        on_write(&ObjectKey::new("Replica", "default", "a-1"), Revision::new(7));
        on_write(&ObjectKey::new("Replica", "default", "a-2"), Revision::new(5));
        on_write(&ObjectKey::new("Uncached", "default", "x"), Revision::new(99));
        let seven = Pending { kind: "Replica".into(), revision: Revision::new(7) };
        assert_eq!(expectations.pending(&key("a"), at(6)), Some(seven));
        assert_eq!(expectations.pending(&key("b"), at(6)), None);
        assert_eq!(expectations.pending(&key("a"), at(7)), None);
        assert!(expectations.is_empty(), "what was seen is forgotten");
        expectations.wrote(&key("a"), "Replica", Revision::new(9));
        expectations.forget(&key("a"));
        assert_eq!(expectations.pending(&key("a"), at(1)), None);
    }

    #[test]
    fn beyond_the_bound_every_key_waits_for_the_newest_write() {
        let expectations = Expectations::default();
        for number in 0..=KEYS_MAX as u64 {
            expectations.wrote(&key(&number.to_string()), "Replica", Revision::new(number + 1));
        }
        assert!(expectations.len() <= KEYS_MAX);
        let newest = Some(Pending { kind: "Replica".into(), revision: Revision::new(KEYS_MAX as u64) });
        assert_eq!(expectations.pending(&key("5"), at(3)), newest);
        assert_eq!(expectations.pending(&key("5"), at(KEYS_MAX as u64)), None);
    }
}
