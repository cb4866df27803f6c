//! The store written as simply as possible: a whole map per revision, nothing ever thrown away.
//!
//! It shares the types of commands and verdicts with the real one, and no code. Not here: the log, chunks, engines.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::{
    Alarm, AlarmAction, AlarmKind, Bounds, Command, Compare, DeleteRange, MemberAttributes, Operand,
    Operator, Order, Put, Range, SortTarget, Txn, TxnOp,
};
use setpoint_store::commit::{Commit, Op};
use setpoint_store::encoding;
use setpoint_store::{
    Author, Change, ChangeSet, KeyValue, RangeResult, Record, RecordId, Rejection, Response, TxnResult,
    Verdict,
};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision, Timestamp};

use crate::objects::Objects;

/// A live key, and which change of its revision made it so.
#[derive(Clone, Debug)]
pub struct Version {
    pub kv: KeyValue,
    sub: u32,
}

impl Version {
    fn id(&self) -> RecordId {
        RecordId { revision: self.kv.modified, sub: self.sub }
    }
}

/// All live keys at one revision.
pub type Snapshot = BTreeMap<Bytes, Version>;

pub struct Model {
    /// The first is revision 1, the empty store.
    snapshots: Vec<Snapshot>,
    /// The first made revision 2.
    changes: Vec<ChangeSet>,
    pub compacted: i64,
    pub granted: BTreeMap<LeaseId, i64>,
    pub objects: Objects,
    /// The time of the running entry.
    pub stamp: Timestamp,
    /// When each change was made.
    pub stamps: Vec<Timestamp>,
    pub alarms: BTreeSet<Alarm>,
    pub members: BTreeMap<NodeId, MemberAttributes>,
    pub removed: BTreeSet<NodeId>,
    pub expected_voters: BTreeSet<NodeId>,
}

/// A command's changes before they become a revision.
pub struct Draft {
    revision: Revision,
    pub keys: Snapshot,
    pub records: Vec<Record>,
    pub author: Option<Arc<Author>>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            snapshots: vec![Snapshot::new()],
            changes: Vec::new(),
            compacted: -1,
            granted: BTreeMap::new(),
            objects: Objects::default(),
            stamp: Timestamp::default(),
            stamps: Vec::new(),
            alarms: BTreeSet::new(),
            members: BTreeMap::new(),
            removed: BTreeSet::new(),
            expected_voters: BTreeSet::new(),
        }
    }
}

impl Model {
    pub fn revision(&self) -> Revision {
        Revision::new(self.snapshots.len() as u64)
    }

    pub fn now(&self) -> &Snapshot {
        self.at(self.revision())
    }

    pub fn at(&self, revision: Revision) -> &Snapshot {
        &self.snapshots[revision.get() as usize - 1]
    }

    /// Each lease with its granted time and its keys.
    pub fn leases(&self) -> BTreeMap<LeaseId, (i64, BTreeSet<Bytes>)> {
        let keys = |id: LeaseId| {
            let attached = self.now().values().filter(move |version| version.kv.lease == id);
            attached.map(|version| version.kv.key.clone()).collect()
        };
        self.granted.iter().map(|(id, ttl)| (*id, (*ttl, keys(*id)))).collect()
    }

    pub fn all_changes(&self) -> &[ChangeSet] {
        &self.changes
    }

    pub fn changes(&self, from: Revision) -> Result<&[ChangeSet], Rejection> {
        if from.wire() < self.compacted {
            return Err(self.compacted());
        }
        let skipped = (from.get().max(2) as usize - 2).min(self.changes.len());
        Ok(&self.changes[skipped..])
    }

    /// The changes a fully collected store still has: versions that are live at, or were replaced at, a revision not
    /// below the compacted one; deletes that happened at such a revision.
    pub fn kept(&self) -> BTreeMap<RecordId, Record> {
        let mut all = BTreeMap::new();
        let mut ended = BTreeMap::new();
        for set in &self.changes {
            for (sub, record) in set.records.iter().enumerate() {
                let id = RecordId { revision: set.revision, sub: sub as u32 };
                all.insert(id, record.clone());
                if let Some(replaced) = record.replaced {
                    ended.insert(replaced, set.revision);
                }
                if record.change == Change::Delete {
                    ended.insert(id, set.revision);
                }
            }
        }
        all.retain(|id, _| ended.get(id).is_none_or(|revision| revision.wire() >= self.compacted));
        all
    }

    pub fn range(&self, read: &Range) -> Result<RangeResult, Rejection> {
        let at = match read.revision {
            ..=0 => self.revision(),
            asked if asked > self.revision().wire() => return Err(self.future()),
            asked if asked < self.compacted => return Err(self.compacted()),
            asked => Revision::new(asked as u64),
        };
        Ok(answer(read, self.at(at), self.revision()))
    }

    pub fn read_txn(&self, txn: &Txn) -> Result<TxnResult, Rejection> {
        self.check(txn)?;
        let mut draft = self.draft();
        let mut result = self.branch(txn, &mut draft);
        assert!(draft.records.is_empty());
        result.revision = self.revision();
        Ok(result)
    }

    /// Applies a command of an entry of this term.
    pub fn apply(&mut self, command: &Command, term: u64) -> Verdict {
        self.alarmed(command)?;
        self.check_reserved(command)?;
        match command {
            Command::Put(put) => {
                self.check_lease(put)?;
                self.check_exists(put)?;
                let mut draft = self.draft();
                let response = draft.put(put);
                self.commit(draft);
                Ok(response)
            }
            Command::DeleteRange(delete) => {
                let mut draft = self.draft();
                let response = draft.delete_range(delete);
                self.commit(draft);
                Ok(response)
            }
            Command::Txn(txn) => {
                self.check(txn)?;
                let mut draft = self.draft();
                let mut result = self.branch(txn, &mut draft);
                self.commit(draft);
                result.revision = self.revision();
                Ok(Response::Txn(result))
            }
            Command::Compact { revision } => self.compact(*revision),
            Command::LeaseGrant { lease, ttl } => self.grant(*lease, *ttl),
            Command::LeaseRevoke { lease } => self.revoke(*lease),
            Command::LeaseExpire { term: decided, .. } if *decided != term => Err(Rejection::Deposed),
            Command::LeaseExpire { lease, .. } => self.revoke(*lease),
            Command::Alarm { action, alarm } => Ok(self.alarm(*action, *alarm)),
            Command::PublishMember { member, attributes } => {
                if !self.removed.contains(member) {
                    self.members.insert(*member, attributes.clone());
                }
                Ok(Response::Member { revision: self.revision() })
            }
            Command::RemoveMember { member } => {
                self.members.remove(member);
                self.removed.insert(*member);
                self.expected_voters.remove(member);
                self.alarms.retain(|alarm| alarm.member != *member);
                Ok(Response::Member { revision: self.revision() })
            }
            Command::ExpectVoter { member } => {
                if !self.removed.contains(member) {
                    self.expected_voters.insert(*member);
                }
                Ok(Response::Member { revision: self.revision() })
            }
            Command::Commit(commit) => self.commit_objects(commit, term),
        }
    }

    /// What etcd's clients may not write, they do not, by whatever way.
    fn check_reserved(&self, command: &Command) -> Result<(), Rejection> {
        let touched = match command {
            Command::Put(put) => encoding::is_reserved(&put.key),
            Command::DeleteRange(delete) => self.deletes_reserved(&delete.range),
            Command::LeaseRevoke { lease } => self.is_hold(*lease),
            _ => false,
        };
        if touched { Err(Rejection::Reserved) } else { Ok(()) }
    }

    fn is_hold(&self, lease: LeaseId) -> bool {
        let leases = self.leases();
        leases.get(&lease).is_some_and(|(_, keys)| keys.iter().any(|key| encoding::is_reserved(key)))
    }

    fn deletes_reserved(&self, range: &KeyRange) -> bool {
        inside(range, self.now()).iter().any(|kv| encoding::is_reserved(&kv.key))
    }

    fn alarmed(&self, command: &Command) -> Result<(), Rejection> {
        let raised = |kind| self.alarms.iter().any(|alarm| alarm.kind == kind);
        let (touches_data, grows) = match command {
            Command::Put(_) | Command::LeaseGrant { .. } => (true, true),
            Command::Txn(txn) => (true, puts_somewhere(txn)),
            Command::DeleteRange(_) | Command::Compact { .. } => (true, false),
            Command::LeaseRevoke { .. } | Command::LeaseExpire { .. } => (true, false),
            Command::Alarm { .. } | Command::PublishMember { .. } => (false, false),
            Command::RemoveMember { .. } | Command::ExpectVoter { .. } => (false, false),
            Command::Commit(commit) => (true, self.done(commit).is_none() && grows(commit)),
        };
        if touches_data && raised(AlarmKind::Corrupt) {
            return Err(Rejection::Corrupt);
        }
        if grows && raised(AlarmKind::NoSpace) {
            return Err(Rejection::NoSpace);
        }
        Ok(())
    }

    fn compact(&mut self, revision: i64) -> Verdict {
        if revision <= self.compacted {
            return Err(self.compacted());
        }
        if revision > self.revision().wire() {
            return Err(self.future());
        }
        self.compacted = revision;
        Ok(Response::Compact { revision: self.revision() })
    }

    fn grant(&mut self, lease: LeaseId, ttl: i64) -> Verdict {
        if self.granted.contains_key(&lease) {
            return Err(Rejection::LeaseExists);
        }
        self.granted.insert(lease, ttl);
        Ok(Response::LeaseGrant { revision: self.revision(), lease, ttl })
    }

    fn revoke(&mut self, lease: LeaseId) -> Verdict {
        let leases = self.leases();
        let Some((_, keys)) = leases.get(&lease) else { return Err(Rejection::LeaseNotFound) };
        self.granted.remove(&lease);
        let mut draft = self.draft();
        keys.iter().for_each(|key| draft.delete(key));
        self.commit(draft);
        Ok(Response::LeaseRevoke { revision: self.revision() })
    }

    fn alarm(&mut self, action: AlarmAction, alarm: Alarm) -> Response {
        let changed = match action {
            AlarmAction::Activate => {
                self.alarms.insert(alarm);
                vec![alarm]
            }
            AlarmAction::Deactivate if self.alarms.remove(&alarm) => vec![alarm],
            AlarmAction::Deactivate => vec![],
        };
        Response::Alarm { revision: self.revision(), changed }
    }

    pub fn draft(&self) -> Draft {
        let (revision, keys) = (self.revision().successor(), self.now().clone());
        Draft { revision, keys, records: Vec::new(), author: None }
    }

    pub fn commit(&mut self, draft: Draft) {
        if !draft.records.is_empty() {
            self.stamps.push(self.stamp);
            self.snapshots.push(draft.keys);
            self.changes.push(ChangeSet { revision: draft.revision, records: draft.records });
        }
    }

    fn future(&self) -> Rejection {
        Rejection::FutureRevision { newest: self.revision() }
    }

    pub fn compacted(&self) -> Rejection {
        Rejection::Compacted { oldest: Revision::new(self.compacted.max(0) as u64) }
    }

    fn check_lease(&self, put: &Put) -> Result<(), Rejection> {
        let known = put.lease == LeaseId::NONE || self.granted.contains_key(&put.lease);
        known.then_some(()).ok_or(Rejection::LeaseNotFound)?;
        if self.is_hold(put.lease) { Err(Rejection::Reserved) } else { Ok(()) }
    }

    fn check_exists(&self, put: &Put) -> Result<(), Rejection> {
        let needed = put.keep_value || put.keep_lease;
        (!needed || self.now().contains_key(&put.key)).then_some(()).ok_or(Rejection::KeyNotFound)
    }

    /// Compares look at the state before the transaction, so which branch is taken can be asked at any time.
    fn taken<'t>(&self, txn: &'t Txn) -> (bool, &'t [TxnOp]) {
        let succeeded = txn.compares.iter().all(|compare| holds(compare, self.now()));
        (succeeded, if succeeded { &txn.success } else { &txn.failure })
    }

    /// All puts of the path come before all ranges.
    fn check(&self, txn: &Txn) -> Result<(), Rejection> {
        let ops = self.path(txn);
        for op in &ops {
            match op {
                TxnOp::Put(put) if encoding::is_reserved(&put.key) => return Err(Rejection::Reserved),
                TxnOp::Put(put) => {
                    self.check_exists(put)?;
                    self.check_lease(put)?;
                }
                TxnOp::DeleteRange(delete) if self.deletes_reserved(&delete.range) => {
                    return Err(Rejection::Reserved);
                }
                _ => {}
            }
        }
        for op in &ops {
            match op {
                TxnOp::Range(read) if read.revision > self.revision().wire() => return Err(self.future()),
                TxnOp::Range(read) if read.revision != 0 && read.revision < self.compacted => {
                    return Err(self.compacted());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Every operation that runs, in order.
    fn path<'t>(&self, txn: &'t Txn) -> Vec<&'t TxnOp> {
        let ops = self.taken(txn).1.iter();
        ops.flat_map(|op| if let TxnOp::Txn(inner) = op { self.path(inner) } else { vec![op] }).collect()
    }

    fn branch(&self, txn: &Txn, draft: &mut Draft) -> TxnResult {
        let (succeeded, ops) = self.taken(txn);
        let responses = ops.iter().map(|op| match op {
            TxnOp::Put(put) => draft.put(put),
            TxnOp::DeleteRange(delete) => draft.delete_range(delete),
            TxnOp::Range(read) => {
                let past = (read.revision > 0).then(|| self.at(Revision::new(read.revision as u64)));
                Response::Range(answer(read, past.unwrap_or(&draft.keys), draft.seen()))
            }
            TxnOp::Txn(inner) => Response::Txn(self.branch(inner, draft)),
        });
        TxnResult { revision: Revision::NONE, succeeded, responses: responses.collect() }
    }
}

impl Draft {
    /// The revision a response inside the command carries.
    fn seen(&self) -> Revision {
        if self.records.is_empty() { self.revision.predecessor() } else { self.revision }
    }

    pub fn put(&mut self, put: &Put) -> Response {
        let existing = self.keys.get(&put.key).cloned();
        let old = existing.as_ref().map(|version| version.kv.clone());
        let kv = KeyValue {
            key: put.key.clone(),
            value: old.as_ref().filter(|_| put.keep_value).map_or(put.value.clone(), |kv| kv.value.clone()),
            created: old.as_ref().map_or(self.revision, |kv| kv.created),
            modified: self.revision,
            version: old.as_ref().map_or(0, |kv| kv.version) + 1,
            lease: old.as_ref().filter(|_| put.keep_lease).map_or(put.lease, |kv| kv.lease),
        };
        let change = Change::Put {
            value: kv.value.clone(),
            created: kv.created,
            version: kv.version,
            lease: kv.lease,
        };
        self.keys.insert(put.key.clone(), Version { kv, sub: self.records.len() as u32 });
        let replaced = existing.as_ref().map(Version::id);
        let author = self.author.clone();
        self.records.push(Record { key: put.key.clone(), replaced, change, author });
        Response::Put { revision: self.revision, previous: old.filter(|_| put.want_previous) }
    }

    pub fn delete(&mut self, key: &Bytes) {
        let existing = self.keys.remove(key).expect("only live keys are deleted");
        let replaced = Some(existing.id());
        let author = self.author.clone();
        self.records.push(Record { key: key.clone(), replaced, change: Change::Delete, author });
    }

    fn delete_range(&mut self, delete: &DeleteRange) -> Response {
        let doomed = inside(&delete.range, &self.keys);
        doomed.iter().for_each(|kv| self.delete(&kv.key));
        let deleted = doomed.len() as u64;
        let previous = if delete.want_previous { doomed } else { Vec::new() };
        Response::DeleteRange { revision: self.seen(), deleted, previous }
    }
}

fn grows(commit: &Commit) -> bool {
    let vacates = commit.ops.iter().any(|op| matches!(op, Op::Vacate { .. }));
    let gives_back = |op: &Op| matches!(op, Op::Delete { .. } | Op::Release { .. } | Op::Vacate { .. });
    !vacates && !commit.ops.iter().all(gives_back)
}

fn puts_somewhere(txn: &Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        TxnOp::Txn(inner) => puts_somewhere(inner),
        op => matches!(op, TxnOp::Put(_)),
    })
}

fn inside(range: &KeyRange, keys: &Snapshot) -> Vec<KeyValue> {
    keys.values().map(|version| version.kv.clone()).filter(|kv| range.contains(&kv.key)).collect()
}

fn holds(compare: &Compare, keys: &Snapshot) -> bool {
    let mut found = inside(&compare.range, keys);
    if found.is_empty() {
        if matches!(compare.operand, Operand::Value(_)) {
            return false;
        }
        found.push(KeyValue::default());
    }
    found.iter().all(|kv| {
        let ordering = match &compare.operand {
            Operand::Version(number) => (kv.version as i64).cmp(number),
            Operand::Created(number) => kv.created.wire().cmp(number),
            Operand::Modified(number) => kv.modified.wire().cmp(number),
            Operand::Lease(number) => kv.lease.0.cmp(number),
            Operand::Value(value) => kv.value.cmp(value),
            Operand::Unknown => Ordering::Equal,
        };
        match compare.operator {
            Operator::Equal => ordering == Ordering::Equal,
            Operator::Greater => ordering == Ordering::Greater,
            Operator::Less => ordering == Ordering::Less,
            Operator::NotEqual => ordering != Ordering::Equal,
            Operator::Unknown => true,
        }
    })
}

fn answer(read: &Range, keys: &Snapshot, revision: Revision) -> RangeResult {
    let mut kvs = inside(&read.range, keys);
    let count = kvs.len() as u64;
    if read.count_only {
        return RangeResult { revision, kvs: Vec::new(), more: false, count };
    }
    let bounds = &read.bounds;
    kvs.retain(|kv| bounds.modified_min == 0 || kv.modified.wire() >= bounds.modified_min);
    kvs.retain(|kv| bounds.modified_max == 0 || kv.modified.wire() <= bounds.modified_max);
    kvs.retain(|kv| bounds.created_min == 0 || kv.created.wire() >= bounds.created_min);
    kvs.retain(|kv| bounds.created_max == 0 || kv.created.wire() <= bounds.created_max);
    // etcd fetches no more than it has to before it sorts, and without an order it takes that to be the limit.
    if read.order == Order::Unspecified
        && read.by != SortTarget::Key
        && *bounds == Bounds::default()
        && read.limit > 0
    {
        kvs.truncate(usize::try_from(read.limit).unwrap_or(usize::MAX).saturating_add(1));
    }
    // Stable both ways: among equals the smaller key comes first.
    kvs.sort_by(|a, b| {
        let ascending = match read.by {
            SortTarget::Key => a.key.cmp(&b.key),
            SortTarget::Version => a.version.cmp(&b.version),
            SortTarget::Created => a.created.cmp(&b.created),
            SortTarget::Modified => a.modified.cmp(&b.modified),
            SortTarget::Value => a.value.cmp(&b.value),
        };
        if read.order == Order::Descending { ascending.reverse() } else { ascending }
    });
    let more = read.limit > 0 && kvs.len() as i64 > read.limit;
    if more {
        kvs.truncate(read.limit as usize);
    }
    if read.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
    RangeResult { revision, kvs, more, count }
}
