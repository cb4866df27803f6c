//! One reconcile of one key: what the reconciler is handed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use setpoint_client::Client;
use setpoint_types::kinds::Cause;
use setpoint_types::object::{Fence, ObjectReference};
use setpoint_types::{Epoch, Generation, ObjectKey, Revision, Timestamp, Uid};
use tokio::time::timeout;

use super::error::ReconcileError;
use super::wakes::Woken;
use crate::cache::{Ended, Expectations, Joint, Key};
use crate::informer::{Informers, JointOf};
use crate::recorder::{Draft, Grounds, Note, Recorder};
use crate::trace::TraceContext;

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
    woken: Woken,
    /// How long other caches are waited for.
    visible_within: Duration,
    fence: Option<Fence>,
    trace: TraceContext,
    /// What is known of the object when the run begins.
    known: Known,
    telling: Option<Telling>,
    phase: AtomicU8,
    writes: Arc<Writes>,
}

/// What the cache knows of the object; nothing if it is not there.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub uid: Uid,
    pub generation: Generation,
}

/// What a run needs to tell of itself.
#[derive(Clone)]
pub(super) struct Telling {
    pub recorder: Recorder,
    pub informers: Informers,
    pub component: Arc<str>,
    pub queue_wait: Duration,
    pub epoch: Epoch,
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

/// Why there is no joint snapshot for a run.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the caches have not come to revision {wanted} within {waited:?}: the slowest is at {reached}")]
    Behind { wanted: Revision, reached: Revision, waited: Duration },
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// It may go better later, when the caches are further.
impl From<SnapshotError> for ReconcileError {
    fn from(error: SnapshotError) -> Self {
        Self::retry(error)
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
    pub woken: Woken,
    pub visible_within: Duration,
    pub fence: Option<Fence>,
    pub known: Known,
    pub telling: Telling,
    pub expectations: Arc<Expectations>,
}

impl Run {
    pub(super) fn new(start: Start) -> Self {
        let object = start.key.of_kind(&start.kind);
        let writes = Arc::<Writes>::default();
        let client = writes.watch(&start.client, Some((start.expectations, object.clone())));
        let trace = trace(start.woken.wake.as_ref(), &client);
        Self {
            key: start.key,
            object,
            id: start.id,
            attempt: start.attempt,
            now: start.now,
            client: client.with_trace(&trace.to_string()),
            woken: start.woken,
            visible_within: start.visible_within,
            fence: start.fence,
            trace,
            known: start.known,
            telling: Some(start.telling),
            phase: AtomicU8::new(Phase::Begin as u8),
            writes,
        }
    }

    /// A run outside of a controller: for tests of a reconciler, and tools that do one thing once. Its writes have the fence
    /// that the client has, and nobody waits for them; events and decisions are told to nobody.
    pub fn detached(client: &Client, object: ObjectKey, now: Timestamp) -> Self {
        let writes = Arc::<Writes>::default();
        Self {
            key: Key::from(&object),
            object,
            id: RunId(client.entropy().draw()),
            attempt: 1,
            now,
            client: writes.watch(client, None),
            woken: Woken::default(),
            visible_within: Duration::ZERO,
            fence: None,
            trace: trace(None, client),
            known: Known::default(),
            telling: None,
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

    /// The lease under which it runs, and at which epoch; none without an election.
    ///
    /// Its client's writes carry it by themselves. Something outside of the cluster is fenced by hand: let it keep the highest epoch it
    /// has seen of this lease, and refuse what comes with a lower one. Epochs of a lease only grow. `examples/dns-records` does so.
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// What made it run, if that is known. For records only.
    pub fn cause(&self) -> Option<&Wake> {
        self.woken.wake.as_ref()
    }

    /// Whatever made it run is not later than this revision: look from here on, and nothing of it is missed. A cache that is a source
    /// of the controller has it by itself; another may be behind ([`crate::cache::Cache::at_least`]).
    pub fn not_before(&self) -> Revision {
        self.woken.not_before
    }

    /// Several caches at one revision, which is not before whatever made it run:
    /// `run.snapshot(&informers.joint().with(&pools).with(&parts)).await?`.
    ///
    /// Waits until all of them have come so far: at the latest for the next bookmark of the slowest, while its stream is well, and
    /// no longer than `visible_within_ms` of the controller's settings. Outside of a controller it does not wait.
    pub async fn snapshot(&self, of: &JointOf) -> Result<Joint, SnapshotError> {
        let (wanted, waited) = (self.not_before(), self.visible_within);
        match timeout(waited, of.snapshot_at_least(wanted)).await {
            Ok(joint) => Ok(joint?),
            Err(_) => {
                let reached = of.revision().unwrap_or_default();
                Err(SnapshotError::Behind { wanted, reached, waited })
            }
        }
    }

    /// The trace it is part of: that of the change which made it run. Its client's requests carry it.
    pub fn trace(&self) -> TraceContext {
        self.trace
    }

    /// The object's, when the run began.
    pub(super) fn generation(&self) -> Generation {
        self.known.generation
    }

    /// The object with its uid, if the cache has it; for events and decisions.
    pub fn reference(&self) -> ObjectReference {
        let ObjectKey { kind, namespace, name } = self.object.clone();
        ObjectReference { kind, namespace, name, uid: self.known.uid.clone() }
    }

    /// Tells people of something that happened: `Note::normal(run.reference(), "Copied")`. Returns at once, unless it is the first
    /// of its reason and the recorder has no room.
    pub async fn event(&self, note: Note) {
        if let Some(telling) = &self.telling {
            telling.recorder.event(note.trace(&self.trace), self.now).await;
        }
    }

    /// What this run decides by, to begin a decision record with: `run.grounds().decide("Place")`.
    pub fn grounds(&self) -> Grounds {
        let telling = self.telling.as_ref();
        let cause = self.woken.wake.as_ref().map(|wake| {
            let ObjectKey { kind, namespace, name } = wake.object.clone();
            let object = Some(ObjectReference { kind, namespace, name, uid: Uid::default() });
            Cause { trigger: "Changed".to_owned(), object, revision: wake.revision }
        });
        Grounds {
            object: self.reference(),
            generation: self.known.generation,
            cause,
            queue_wait: telling.map(|it| it.queue_wait).unwrap_or_default(),
            attempt: self.attempt,
            component: telling.map_or_else(|| "".into(), |it| it.component.clone()),
            epoch: telling.map(|it| it.epoch).unwrap_or_default(),
            cache_revisions: telling.map(|it| it.informers.observed()).unwrap_or_default(),
            policy_version: String::new(),
            trace: Some(self.trace),
            now: self.now,
        }
    }

    /// Records a decision without an effect, or whose effect was refused. One with an effect belongs into its transaction:
    /// [`Draft::into_transaction`].
    pub async fn decision(&self, draft: Draft) {
        if let Some(telling) = &self.telling {
            telling.recorder.decision(draft).await;
        }
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

/// In the trace of what made it run, or in one of its own.
fn trace(wake: Option<&Wake>, client: &Client) -> TraceContext {
    let trace = wake.and_then(|wake| wake.trace.as_deref()).and_then(|id| id.parse().ok());
    let entropy = client.entropy();
    trace.map_or_else(|| TraceContext::root(entropy), |trace| TraceContext::within(trace, entropy))
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({} {})", self.object, self.id)
    }
}
