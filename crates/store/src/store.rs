//! The state machine behind a lock, over an engine: one writer (the Raft apply), many readers.
//!
//! The lock is held while a chunk is applied and written, so a reader never sees an index entry whose record is not yet
//! there. Readers hold it only to choose keys; values are fetched afterwards. Long ranges are chosen from a scan of the
//! `Keys` table at a fixed revision instead, without the lock. Who must not wait for a chunk has `range_soon`, and the
//! revisions beside the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision};

use crate::collect::{self, Progress, StepMax};
use crate::command::{Alarm, MemberAttributes, Range, Txn};
use crate::commit::Commit;
use crate::encoding::{self, Damaged, MetaKey, Record, RecordId};
use crate::engine::{Engine, EngineFailure, Size, Table, WriteBatch};
use crate::hash::{self, HashOfHistory};
use crate::history;
use crate::machine::{
    self, ApplyFailure, ChangeSet, Done, Entry, GrantedLease, Lease, Outcome, Pending, Position, State,
};
use crate::pages::{Page, PageMax, Pages};
use crate::read::{self, ReadFailure, View};
use crate::verdict::{RangeResult, Rejection, TxnResult};

/// Ranges with more keys than this are chosen by a scan, so that they do not keep writers waiting.
const KEYS_UNDER_LOCK_MAX: usize = 2_000;

/// How long `range_soon` waits for the lock: less than a chunk usually takes, more than a reader holds it.
const SOON: Duration = Duration::from_micros(50);

/// How often a read may be overtaken by a compaction before it keeps writers waiting, or gives up.
pub(crate) const OVERTAKEN_MAX: usize = 4;

pub struct Store {
    inner: RwLock<Inner>,
    /// Copies of the state's revisions, moved at the end of each chunk.
    newest: AtomicU64,
    compacted: AtomicI64,
    /// Where the key of the rules was last changed.
    rules: AtomicU64,
    /// One collection step at a time.
    collecting: Mutex<()>,
}

struct Inner {
    state: State,
    engine: Arc<dyn Engine>,
}

/// What a read beside the lock starts from.
pub(crate) struct Moment {
    pub engine: Arc<dyn Engine>,
    pub newest: Revision,
    pub compacted: i64,
}

/// What the log needs to know about the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub position: Option<Position>,
    pub membership: Option<Bytes>,
}

/// All leases, as of the change `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedLeases {
    pub leases: Vec<GrantedLease>,
    pub at: u64,
}

/// Leases that came or went, each as it is after the change `at`: none for one that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseUpdate {
    pub leases: Vec<(LeaseId, Option<GrantedLease>)>,
    pub at: u64,
}

impl Store {
    pub fn open(engine: Arc<dyn Engine>) -> Result<Self, EngineFailure> {
        let state = State::load(&*engine)?;
        Ok(Self {
            newest: AtomicU64::new(state.revision.get()),
            compacted: AtomicI64::new(state.compacted),
            rules: AtomicU64::new(rules_of(&state).get()),
            inner: RwLock::new(Inner { state, engine }),
            collecting: Mutex::new(()),
        })
    }

    /// How far the state in an engine has come, without loading it.
    pub fn inspect(engine: &dyn Engine) -> Result<Applied, EngineFailure> {
        let (position, membership) = State::load_position(engine)?;
        Ok(Applied { position, membership })
    }

    /// Makes an engine's state the beginning of another cluster's: the data stays, and what tied it to a log, to
    /// members and to their alarms goes.
    pub fn detach(engine: &dyn Engine) -> Result<(), EngineFailure> {
        let state = State::load(engine)?;
        let mut batch = WriteBatch::default();
        batch.delete(Table::Meta, MetaKey::Applied.encode());
        batch.delete(Table::Meta, MetaKey::Membership.encode());
        for alarm in &state.alarms {
            batch.delete(Table::Meta, MetaKey::Alarm(alarm.member, alarm.kind as u8).encode());
        }
        for member in state.members.keys().chain(&state.removed).chain(&state.expected_voters) {
            for row in [MetaKey::Member(*member), MetaKey::Removed(*member), MetaKey::Expected(*member)] {
                batch.delete(Table::Meta, row.encode());
            }
        }
        engine.write(batch)?;
        engine.flush()
    }

    /// Applies committed entries; when it returns they are visible.
    pub fn apply(&self, entries: &[Entry], local: NodeId) -> Result<Outcome, ApplyFailure> {
        let mut inner = self.inner.write();
        let Inner { state, engine } = &mut *inner;
        let (batch, outcome) = machine::apply(state, &**engine, entries, local)?;
        setpoint_failpoint::hit("apply.before-write");
        engine.write(batch)?;
        setpoint_failpoint::hit("apply.after-write");
        self.note_revisions(state);
        Ok(outcome)
    }

    pub fn range(&self, read: &Range) -> Result<RangeResult, ReadFailure> {
        for _ in 0..OVERTAKEN_MAX {
            match self.try_range(read) {
                // A read of the newest state was overtaken by writes and a compaction: there is a newer one to read.
                Err(ReadFailure::Overtaken) if read.revision <= 0 => {}
                Err(ReadFailure::Overtaken) => {
                    return Err(self.inner.read().state.compacted_rejection().into());
                }
                answer => return answer,
            }
        }
        // Overtaken again and again: this once, writes wait for the read. A record that is missing even so is damage.
        let (none, inner) = (Pending::new(), self.inner.read());
        let view = View::latest(&inner.state, &*inner.engine, &none);
        view.range(read).map_err(|failure| ReadFailure::Engine(failure.into_engine()))
    }

    /// As `range`, if the answer can be had at once: none if it would have to wait for a chunk that is being applied.
    pub fn range_soon(&self, read: &Range) -> Option<Result<RangeResult, ReadFailure>> {
        match self.range_with(self.inner.try_read_for(SOON)?, read) {
            Err(ReadFailure::Overtaken) => None,
            answer => Some(answer),
        }
    }

    /// What somebody finds in the newest state. Keeps writers waiting: nothing is read from the engine meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State, &Arc<dyn Engine>) -> T) -> T {
        let inner = self.inner.read();
        look(&inner.state, &inner.engine)
    }

    /// The same, if it can be had at once: see `range_soon`.
    pub(crate) fn look_soon<T>(&self, look: impl FnOnce(&State, &Arc<dyn Engine>) -> T) -> Option<T> {
        let inner = self.inner.try_read_for(SOON)?;
        Some(look(&inner.state, &inner.engine))
    }

    fn try_range(&self, read: &Range) -> Result<RangeResult, ReadFailure> {
        self.range_with(self.inner.read(), read)
    }

    fn range_with(
        &self,
        inner: RwLockReadGuard<'_, Inner>,
        read: &Range,
    ) -> Result<RangeResult, ReadFailure> {
        let none = Pending::new();
        let newest = inner.state.revision;
        let at = inner.state.readable(read.revision)?;
        let engine = inner.engine.clone();
        let selection = if at == newest && !is_long(&inner.state, read) {
            let selection = read::select_newest(&inner.state.index, read);
            drop(inner);
            selection
        } else {
            drop(inner);
            let selection = read::select_at(&*engine, read, at, &none)?;
            if self.compacted() > at.wire() {
                return Err(ReadFailure::Overtaken);
            }
            selection
        };
        read::answer(&*engine, &none, read, selection, newest)
    }

    /// Prepares to read a range in pieces, all of one revision; for answers too large to hold. In natural order only.
    pub fn open_pages(&self, read: &Range) -> Result<Pages, ReadFailure> {
        let whole = self.range(&Range { count_only: true, ..read.clone() })?;
        let at = if read.revision > 0 { Revision::new(read.revision as u64) } else { whole.revision };
        Ok(Pages::new(self.engine(), read, at, whole))
    }

    /// As `open_pages`, at a revision that is known, of a whole range and without counting it.
    pub fn open_pages_at(&self, range: KeyRange, at: Revision) -> Result<Pages, ReadFailure> {
        let inner = self.inner.read();
        let at = inner.state.readable(at.wire())?;
        Ok(Pages::new(inner.engine.clone(), &Range::latest(range), at, RangeResult::default()))
    }

    /// The next piece of a range. Refused if a compaction overtook its revision.
    pub fn next_page(&self, pages: &mut Pages, max: PageMax) -> Result<Page, ReadFailure> {
        let page = pages.next(max);
        // Checked after the read: what was collected meanwhile may be missing from it.
        let inner = self.inner.read();
        if inner.state.compacted > pages.at().wire() {
            return Err(inner.state.compacted_rejection().into());
        }
        page
    }

    /// Answers a transaction that cannot write. Its compares are decided under the lock; its ranges are read afterwards,
    /// all at the revision of that moment.
    pub fn read_txn(&self, txn: &Txn) -> Result<TxnResult, ReadFailure> {
        let none = Pending::new();
        for _ in 0..OVERTAKEN_MAX {
            let inner = self.inner.read();
            let at = inner.state.revision;
            let path =
                machine::choose_read(&View::latest(&inner.state, &*inner.engine, &none), &inner.state, txn)??;
            drop(inner);
            match machine::read_branch(txn, &path, at, &|read| self.range_as_of(read, at)) {
                Err(ReadFailure::Overtaken) => {}
                answer => return answer,
            }
        }
        // Overtaken again and again: this once, writes wait for the read.
        let inner = self.inner.read();
        let view = View::latest(&inner.state, &*inner.engine, &none);
        let path = machine::choose_read(&view, &inner.state, txn)??;
        machine::read_branch(txn, &path, view.revision, &|read| view.range(read))
    }

    /// A range that was allowed when `at` was the newest revision, as it would have been answered then.
    fn range_as_of(&self, read: &Range, at: Revision) -> Result<RangeResult, ReadFailure> {
        let revision = if read.revision > 0 { read.revision } else { at.wire() };
        match self.try_range(&Range { revision, ..read.clone() }) {
            Ok(result) => Ok(RangeResult { revision: at, ..result }),
            // Nothing else could refuse it but a compaction since then.
            Err(ReadFailure::Rejected(_)) => Err(ReadFailure::Overtaken),
            Err(failure) => Err(failure),
        }
    }

    /// The newest revision that can be read.
    pub fn revision(&self) -> Revision {
        Revision::new(self.newest.load(Ordering::Acquire))
    }

    /// The revision last compacted at; -1 if there was none.
    pub fn compacted(&self) -> i64 {
        self.compacted.load(Ordering::Acquire)
    }

    /// The revision that last changed a definition of a kind or a policy; none if there was none. Asked with every write
    /// of an object, so it waits for nobody.
    pub fn rules(&self) -> Revision {
        Revision::new(self.rules.load(Ordering::Acquire))
    }

    /// Called with the lock held, so that all move in the order of the chunks.
    fn note_revisions(&self, state: &State) {
        self.compacted.store(state.compacted, Ordering::Release);
        self.rules.store(rules_of(state).get(), Ordering::Release);
        self.newest.store(state.revision.get(), Ordering::Release);
    }

    pub fn applied(&self) -> Applied {
        let inner = self.inner.read();
        Applied { position: inner.state.applied, membership: inner.state.membership.clone() }
    }

    pub fn lease(&self, lease: LeaseId) -> Option<Lease> {
        self.inner.read().state.leases.get(&lease).cloned()
    }

    /// True for the etcd lease of a hold, with which etcd's clients have nothing to do.
    pub fn is_hold(&self, lease: LeaseId) -> bool {
        self.inner.read().state.is_hold(lease)
    }

    /// Every lease with its granted time to live.
    pub fn leases(&self) -> Vec<(LeaseId, i64)> {
        self.inner.read().state.leases.iter().map(|(id, lease)| (*id, lease.ttl)).collect()
    }

    /// Every lease, for counting its time.
    pub fn granted_leases(&self) -> GrantedLeases {
        let inner = self.inner.read();
        let leases = inner.state.leases.iter().map(|(id, lease)| lease.granted(*id)).collect();
        GrantedLeases { leases, at: inner.state.lease_changes.count() }
    }

    /// What became of the leases that came or went after `seen`, which an earlier answer named. None if that is too long
    /// ago: then all of them have to be looked at.
    pub fn lease_changes(&self, seen: u64) -> Option<LeaseUpdate> {
        let inner = self.inner.read();
        let State { leases, lease_changes, .. } = &inner.state;
        let now = |id| (id, leases.get(&id).map(|lease: &Lease| lease.granted(id)));
        Some(LeaseUpdate { leases: lease_changes.since(seen)?.map(now).collect(), at: lease_changes.count() })
    }

    pub fn lease_count(&self) -> usize {
        self.inner.read().state.leases.len()
    }

    /// What an operation did, if it is remembered.
    pub fn operation(&self, id: &[u8]) -> Option<Done> {
        let state = &self.inner.read().state;
        state.operations.get(id, state.stamp).copied()
    }

    /// Why a commit would be refused now, if it would; nothing is done. Whether its operation was done before is not asked.
    pub fn try_commit(&self, commit: &Commit) -> Result<Result<(), Rejection>, EngineFailure> {
        let inner = self.inner.read();
        machine::try_commit(&inner.state, &*inner.engine, commit)
    }

    /// How many keys a range has now. Reads none of them.
    pub fn count(&self, range: &KeyRange) -> usize {
        self.inner.read().state.index.count(range)
    }

    pub fn alarms(&self) -> Vec<Alarm> {
        self.inner.read().state.alarms.iter().copied().collect()
    }

    pub fn members(&self) -> BTreeMap<NodeId, MemberAttributes> {
        self.inner.read().state.members.clone()
    }

    /// Learners that are to vote as soon as they have caught up.
    pub fn expected_voters(&self) -> BTreeSet<NodeId> {
        self.inner.read().state.expected_voters.clone()
    }

    /// True if a member of this id was removed; the id must not be given out again.
    pub fn was_removed(&self, member: NodeId) -> bool {
        self.inner.read().state.removed.contains(&member)
    }

    pub fn key_count(&self) -> usize {
        self.inner.read().state.index.len()
    }

    /// Whole revisions from `from` on, about `bytes_max` of them. Refused if `from` is compacted.
    pub fn changes(&self, from: Revision, bytes_max: usize) -> Result<Vec<Arc<ChangeSet>>, ReadFailure> {
        let inner = self.inner.read();
        let (engine, newest) = (inner.engine.clone(), inner.state.revision);
        drop(inner);
        let sets = history::changes(&*engine, from, newest, bytes_max)?;
        // Checked after the read: what was collected meanwhile may be missing from it.
        let inner = self.inner.read();
        if from.wire() < inner.state.compacted {
            return Err(inner.state.compacted_rejection().into());
        }
        Ok(sets)
    }

    /// One change by its place in history, or none if it was collected.
    pub fn record(&self, id: RecordId) -> Result<Option<Record>, EngineFailure> {
        let engine = self.engine();
        let row = engine.get(Table::Records, &id.encode())?;
        row.map(Record::decode).transpose().map_err(EngineFailure::from)
    }

    /// Does a bounded piece of the deletions that compaction has left to do.
    pub fn collect(&self, max: StepMax) -> Result<Progress, EngineFailure> {
        let _one = self.collecting.lock();
        let (engine, compacted) = {
            let inner = self.inner.read();
            (inner.engine.clone(), inner.state.compacted)
        };
        collect::step(&*engine, Revision::new(compacted.max(0) as u64), max)
    }

    /// A hash of everything kept up to a revision; equal on all replicas that agree.
    pub fn hash(&self, revision: i64) -> Result<HashOfHistory, ReadFailure> {
        for _ in 0..OVERTAKEN_MAX {
            let inner = self.inner.read();
            let at = inner.state.readable(revision)?;
            let Moment { engine, newest, compacted } = Moment::of(&inner);
            drop(inner);
            let hash = hash::history(&*engine, compacted, at)?;
            // If a compaction came in between, rows may have been collected under the scan.
            if self.compacted() == compacted {
                return Ok(HashOfHistory { hash, revision: at, compacted, newest });
            }
        }
        Err(ReadFailure::Overtaken)
    }

    /// Makes everything applied so far durable, and says up to where that is at least.
    pub fn flush(&self) -> Result<Applied, EngineFailure> {
        let (applied, engine) = (self.applied(), self.engine());
        setpoint_failpoint::hit("flush.before");
        engine.flush()?;
        setpoint_failpoint::hit("flush.after");
        Ok(applied)
    }

    pub fn checkpoint(&self, dir: &Path) -> Result<(), EngineFailure> {
        self.engine().checkpoint(dir)?;
        setpoint_failpoint::hit("checkpoint.after");
        Ok(())
    }

    /// Switches to another state as a whole.
    pub fn replace(&self, engine: Arc<dyn Engine>) -> Result<Applied, EngineFailure> {
        let state = State::load(&*engine)?;
        let _one = self.collecting.lock();
        let mut inner = self.inner.write();
        self.note_revisions(&state);
        let replaced = std::mem::replace(&mut *inner, Inner { state, engine });
        drop(inner);
        // Closing the old tables takes a while; nobody needs to wait for it.
        drop(replaced);
        Ok(self.applied())
    }

    pub fn size(&self) -> Size {
        self.engine().size()
    }

    pub fn reclaim(&self) -> Result<(), EngineFailure> {
        self.engine().reclaim()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.inner.read().engine.clone()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::of(&self.inner.read())
    }
}

impl Moment {
    fn of(inner: &Inner) -> Self {
        Self { engine: inner.engine.clone(), newest: inner.state.revision, compacted: inner.state.compacted }
    }
}

fn rules_of(state: &State) -> Revision {
    state.index.get(encoding::RULES).map_or(Revision::NONE, |rules| rules.modified)
}

fn is_long(state: &State, read: &Range) -> bool {
    if read.count_only || matches!(read.range, KeyRange::Single(_)) {
        return false;
    }
    let limited = read.limit > 0 && read.limit as usize <= KEYS_UNDER_LOCK_MAX && read.is_natural();
    !limited && state.index.count(&read.range) > KEYS_UNDER_LOCK_MAX
}

impl From<Damaged> for ReadFailure {
    fn from(damaged: Damaged) -> Self {
        Self::Engine(damaged.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MemoryEngine;

    #[test]
    fn while_a_chunk_is_applied_only_what_needs_no_lock_is_answered() {
        let store = Store::open(Arc::new(MemoryEngine::default())).expect("an empty engine opens");
        let read = Range::latest(KeyRange::Single("key".into()));
        assert!(store.range_soon(&read).is_some());
        let chunk = store.inner.write();
        assert!(store.range_soon(&read).is_none());
        assert_eq!((store.revision(), store.compacted()), (Revision::INITIAL, -1));
        drop(chunk);
    }
}
