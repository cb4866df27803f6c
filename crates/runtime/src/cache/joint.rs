//! Several caches at one revision.
//!
//! There is one history for all kinds, so states of different kinds can be of the same moment. Each cache knows from where
//! (`floor`) to where (`position`) it can say what was; a revision that lies in the ranges of all of them is one at which all
//! are complete. A cache moves with its events, and with bookmarks while its kind is quiet; so such a revision comes at the
//! latest with the next bookmark of the slowest. It keeps what others still need of the past, up to a bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLockReadGuard};
use setpoint_client::Shape;
use setpoint_types::Revision;
use tokio::sync::Notify;

use super::Cache;
use super::shared::Shared;
use super::snapshot::{Snapshot, View};
use super::store::Store;

/// How far each cache of a group has come.
#[derive(Default)]
pub(crate) struct Watermarks {
    members: Mutex<Vec<Arc<AtomicU64>>>,
    /// Some cache came further.
    pub moved: Notify,
}

impl Watermarks {
    pub fn join(&self) -> Arc<AtomicU64> {
        let mark = Arc::new(AtomicU64::new(0));
        self.members.lock().push(mark.clone());
        mark
    }

    /// What all have come to. Those without a first state do not count: they begin later.
    pub fn low(&self) -> Revision {
        let marks = self.members.lock();
        let reached = marks.iter().map(|mark| mark.load(Ordering::Acquire)).filter(|mark| *mark > 0);
        Revision::new(reached.min().unwrap_or(0))
    }
}

/// Several kinds at one revision. Holds still.
///
/// **Guarantees**: each part is what the store held of its selection at [`Joint::revision`] (R3). **Does not promise** to be from after
/// any change that was heard of: [`crate::Run::snapshot`] does.
pub struct Joint {
    revision: Revision,
    parts: BTreeMap<usize, Snapshot>,
}

impl Joint {
    /// The newest revision at which all these caches are complete, if there is one now.
    pub(crate) fn take(caches: &[Arc<Shared>]) -> Option<Self> {
        let distinct: BTreeMap<usize, &Arc<Shared>> =
            caches.iter().map(|cache| (cache.id(), cache)).collect();
        // All of them are held while the revision is chosen and the states are copied, which takes microseconds.
        let stores: BTreeMap<usize, RwLockReadGuard<'_, Store>> =
            distinct.iter().map(|(id, cache)| (*id, cache.store())).collect();
        let mut revision = Revision::MAX;
        for store in stores.values() {
            revision = revision.min(store.position()?);
        }
        let mut parts = BTreeMap::new();
        for (id, store) in &stores {
            parts.insert(*id, store.snapshot(revision)?);
        }
        Some(Self { revision, parts })
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The part of one of the caches this was made of; none for another.
    pub fn of<K: Shape>(&self, cache: &Cache<K>) -> Option<View<K>> {
        self.parts.get(&cache.shared().id()).cloned().map(Snapshot::typed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use setpoint_api::raw::ReceivedEvent;
    use setpoint_api::setpoint::v1 as pb;
    use setpoint_api::setpoint::v1::watch_event::Type;
    use setpoint_client::{Dynamic, Scope};

    use super::*;

    /// Two kinds in one history, and how far each cache was told.
    struct World {
        log: Vec<(u64, usize, u8, bool)>,
        group: Arc<Watermarks>,
        caches: Vec<Arc<Shared>>,
        sent: [u64; 2],
    }

    type Content = BTreeMap<String, u64>;

    fn received(kind: Type, revision: u64, name: &str) -> ReceivedEvent {
        let metadata = pb::Metadata { name: name.to_owned(), ..Default::default() };
        let object = pb::Object { metadata: Some(metadata), ..Default::default() };
        let event =
            pb::WatchEvent { r#type: kind.into(), object: Some(object), revision, ..Default::default() };
        ReceivedEvent::read(&event.encode_to_vec().into()).unwrap()
    }

    impl World {
        fn new() -> Self {
            let group = Arc::<Watermarks>::default();
            let cache = |kind: &str| Shared::new(kind.into(), Scope::Cluster, None, group.clone());
            let caches = vec![cache("A"), cache("B")];
            Self { log: Vec::new(), group, caches, sent: [0; 2] }
        }

        fn head(&self) -> u64 {
            1 + self.log.len() as u64
        }

        fn state(&self, kind: usize, at: u64) -> Content {
            let mut content = Content::new();
            for (revision, _, key, put) in self.log.iter().filter(|it| it.0 <= at && it.1 == kind) {
                match put {
                    true => drop(content.insert(format!("k{key}"), *revision)),
                    false => drop(content.remove(&format!("k{key}"))),
                }
            }
            content
        }

        fn write(&mut self, kind: usize, key: u8, put: bool) {
            let put = put || !self.state(kind, self.head()).contains_key(&format!("k{key}"));
            self.log.push((self.head() + 1, kind, key, put));
        }

        /// Tells a cache of everything up to a revision.
        fn tell(&mut self, kind: usize, revisions: u64) {
            let until = self.head().min(self.sent[kind] + revisions);
            let within = self.log.iter().filter(|it| it.1 == kind && it.0 > self.sent[kind] && it.0 <= until);
            let event = |(revision, _, key, put): &(u64, usize, u8, bool)| {
                received(if *put { Type::Modified } else { Type::Deleted }, *revision, &format!("k{key}"))
            };
            let events: Vec<ReceivedEvent> = within.map(event).collect();
            self.caches[kind].apply(&events, Revision::new(until)).unwrap();
            self.sent[kind] = until;
        }

        /// Gives a cache a whole state.
        fn relist(&mut self, kind: usize) {
            let cache = &self.caches[kind];
            cache.begin();
            for (name, revision) in self.state(kind, self.head()) {
                cache.stage(&[received(Type::Added, revision, &name)]).unwrap();
            }
            cache.finish(Revision::new(self.head()));
            self.sent[kind] = self.head();
        }

        fn check(&self) -> bool {
            let Some(joint) = Joint::take(&self.caches) else { return false };
            assert_eq!(joint.revision().get(), self.sent[0].min(self.sent[1]), "the newest there can be");
            for (kind, cache) in self.caches.iter().enumerate() {
                let view = joint.of(&Cache::<Dynamic>::new(cache.clone())).expect("it is a part of it");
                let found: Content =
                    view.iter().map(|it| (it.key().name().to_owned(), it.revision().get())).collect();
                assert_eq!(found, self.state(kind, joint.revision().get()), "R3: at {}", joint.revision());
                for (name, revision) in &found {
                    let got = view.get(&super::super::Key::new("", name)).map(|it| it.revision().get());
                    assert_eq!(got, Some(*revision));
                }
            }
            true
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, u8, bool),
        Tell(usize, u64),
        Relist(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0usize..2, 0u8..6, any::<bool>()).prop_map(|(kind, key, put)| Step::Write(kind, key, put)),
            5 => (0usize..2, 1u64..6).prop_map(|(kind, count)| Step::Tell(kind, count)),
            1 => (0usize..2).prop_map(Step::Relist),
        ]
    }

    proptest! {
        #[test]
        fn a_joint_snapshot_is_the_store_at_its_revision(steps in proptest::collection::vec(step(), 1..120)) {
            let mut world = World::new();
            world.relist(0);
            prop_assert!(!world.check(), "one of them has no state yet");
            world.relist(1);
            for step in steps {
                match step {
                    Step::Write(kind, key, put) => world.write(kind, key, put),
                    Step::Tell(kind, count) => world.tell(kind, count),
                    Step::Relist(kind) => world.relist(kind),
                }
                world.check();
            }
            let behind = world.head();
            (0..2).for_each(|kind| world.tell(kind, behind));
            prop_assert!(world.check(), "all are at the head");
            prop_assert_eq!(world.group.low().get(), world.head());
        }
    }
}
