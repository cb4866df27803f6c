//! One reconcile of one key: what the reconciler is handed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use setpoint_client::Client;
use setpoint_types::{ObjectKey, Revision, Timestamp};

use crate::cache::{Expectations, Key};

/// One reconcile of one key.
///
/// **Guarantees**: every write of [`Run::client`] carries the fence of the key's shard, if there is an election; it is counted,
/// and the next run of the key waits until the caches have seen it.
///
/// **Does not promise** anything about writes by other clients.
pub struct Run {
    key: Key,
    object: ObjectKey,
    id: RunId,
    attempt: u32,
    now: Timestamp,
    client: Client,
    wake: Option<Wake>,
    phase: AtomicU8,
    writes: Arc<Writes>,
}

/// Names a run in logs and records. Drawn anew for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId(u64);

impl RunId {
    pub(super) fn new(drawn: u64) -> Self {
        Self(drawn)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The newest change that made a key run. For records and traces, and for nothing that is decided: several changes may have
/// become one run, and a restart has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// What changed.
    pub object: ObjectKey,
    pub revision: Revision,
    /// Whose decision it was.
    pub manager: String,
    /// The trace it was part of.
    pub trace: Option<String>,
}

/// Where a run is. What it was when it panicked or hung is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Begin,
    Observe,
    Plan,
    Execute,
}

/// What a run has written.
#[derive(Debug, Default)]
pub(super) struct Writes {
    done: AtomicU64,
    ambiguous: AtomicBool,
}

impl Writes {
    pub fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// There is one of which nobody knows whether it was done.
    pub fn any_ambiguous(&self) -> bool {
        self.ambiguous.load(Ordering::Relaxed)
    }

    /// The same client, which tells of its writes.
    fn watch(self: &Arc<Self>, client: &Client, told: Option<(Arc<Expectations>, ObjectKey)>) -> Client {
        let (done, ambiguous) = (self.clone(), self.clone());
        client
            .with_on_write(Arc::new(move |written: &ObjectKey, revision| {
                done.done.fetch_add(1, Ordering::Relaxed);
                if let Some((expectations, key)) = &told {
                    expectations.wrote(key, &written.kind, revision);
                }
            }))
            .with_on_ambiguous(Arc::new(move || ambiguous.ambiguous.store(true, Ordering::Relaxed)))
    }
}

/// What a run is made of.
pub(super) struct Start {
    pub key: Key,
    pub kind: Arc<str>,
    pub id: RunId,
    pub attempt: u32,
    pub now: Timestamp,
    /// Fenced, with its manager.
    pub client: Client,
    pub wake: Option<Wake>,
    pub expectations: Arc<Expectations>,
}

impl Run {
    pub(super) fn new(start: Start) -> Self {
        let object = start.key.of_kind(&start.kind);
        let writes = Arc::<Writes>::default();
        let client = writes.watch(&start.client, Some((start.expectations, object.clone())));
        let (key, id, attempt, now, wake) = (start.key, start.id, start.attempt, start.now, start.wake);
        let phase = AtomicU8::new(Phase::Begin as u8);
        Self { key, object, id, attempt, now, client, wake, phase, writes }
    }

    /// A run outside of a controller: for tests of a reconciler, and tools that do one thing once. Its writes have the fence
    /// that the client has, and nobody waits for them.
    pub fn detached(client: &Client, object: ObjectKey, now: Timestamp) -> Self {
        let writes = Arc::<Writes>::default();
        Self {
            key: Key::from(&object),
            object,
            id: RunId(client.entropy().draw()),
            attempt: 1,
            now,
            client: writes.watch(client, None),
            wake: None,
            phase: AtomicU8::new(Phase::Begin as u8),
            writes,
        }
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The key with its kind.
    pub fn object(&self) -> &ObjectKey {
        &self.object
    }

    pub fn id(&self) -> RunId {
        self.id
    }

    /// The first is 1; it grows with each failure, until a run succeeds.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When it began, by the time of day. It does not go on during the run.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The client for all that this run writes.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What made it run, if that is known. For records only.
    pub fn cause(&self) -> Option<&Wake> {
        self.wake.as_ref()
    }

    /// Writes so far.
    pub fn writes(&self) -> u64 {
        self.writes.count()
    }

    pub(super) fn any_ambiguous(&self) -> bool {
        self.writes.any_ambiguous()
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Where it is, in a word.
    pub(super) fn phase(&self) -> &'static str {
        match self.phase.load(Ordering::Relaxed) {
            it if it == Phase::Observe as u8 => "observe",
            it if it == Phase::Plan as u8 => "plan",
            it if it == Phase::Execute as u8 => "execute",
            _ => "begin",
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({} {})", self.object, self.id)
    }
}
