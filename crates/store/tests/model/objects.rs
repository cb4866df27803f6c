//! The model's half of commits: ledgers are lists of reservations, summed up whenever somebody asks; holds are what the keys
//! say; nothing is forgotten, only ignored when it is old.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::Put;
use setpoint_store::commit::{Commit, Guard, Op};
use setpoint_store::ledger::{self, Amounts, EVERY_OTHER, Ledger};
use setpoint_store::{
    Author, Committed, Epoch, Found, Hold, LeaseName, LeaseState, RecordId, Rejection, Response, Verdict,
    Version, Versions,
};
use setpoint_types::{LeaseId, Revision, Timestamp};

use crate::model::{Draft, Model};

const HOUR: u64 = 3_600_000;

#[derive(Clone, Default)]
pub struct Objects {
    books: Books,
    done: Vec<Done>,
    /// The rows of operations: their places, and when they were done.
    pub rows: VecDeque<(u64, Timestamp)>,
}

/// What operations of a commit work on.
#[derive(Clone, Default)]
struct Books {
    limits: BTreeMap<String, Amounts>,
    reserved: BTreeMap<(String, String), Amounts>,
    epochs: BTreeMap<LeaseName, Epoch>,
    holds: BTreeMap<LeaseName, Hold>,
    leases: BTreeMap<LeaseId, i64>,
    revoked: BTreeSet<LeaseId>,
}

#[derive(Clone)]
struct Done {
    id: Bytes,
    fingerprint: u64,
    committed: Committed,
    time: Timestamp,
}

impl Books {
    fn ledger(&self, name: &str) -> Ledger {
        let mut used = Amounts::new();
        for ((ledger, _), amounts) in &self.reserved {
            for (dimension, amount) in amounts.iter().filter(|_| ledger == name) {
                *used.entry(dimension.clone()).or_default() += amount;
            }
        }
        Ledger { limits: self.limits.get(name).cloned().unwrap_or_default(), used }
    }

    /// What is left for amounts beside those in the books, where that is too little.
    fn shortage(&self, name: &str, had: &Amounts, wanted: &Amounts) -> Amounts {
        let Ledger { limits, used } = self.ledger(name);
        let amount = |of: &Amounts, dimension: &str| u128::from(of.get(dimension).copied().unwrap_or(0));
        let mut left = Amounts::new();
        for (dimension, wanted) in wanted {
            let limit = if limits.contains_key(dimension) { dimension } else { EVERY_OTHER };
            let (limit, had) = (amount(&limits, limit), amount(had, dimension));
            let others = amount(&used, dimension) - had;
            if u128::from(*wanted) > had && others + u128::from(*wanted) > limit {
                left.insert(dimension.clone(), limit.saturating_sub(others) as u64);
            }
        }
        left
    }

    /// As a reservation, but without any limits numbers are all that ends.
    fn count(&mut self, op: usize, ledger: &str, owner: &str, amounts: &Amounts) -> Result<(), Rejection> {
        let place = (ledger.to_owned(), owner.to_owned());
        let had = self.reserved.get(&place).cloned().unwrap_or_default();
        let mut books = self.clone();
        let limits = books.limits.entry(ledger.to_owned()).or_default();
        if limits.is_empty() {
            limits.insert(EVERY_OTHER.to_owned(), u64::MAX);
        }
        let left = books.shortage(ledger, &had, amounts);
        if !left.is_empty() {
            return Err(Rejection::NoHeadroom { op, left });
        }
        let mut amounts = amounts.clone();
        amounts.retain(|_, amount| *amount != 0);
        self.reserved.insert(place, amounts);
        Ok(())
    }

    fn lease(&self, name: &LeaseName) -> LeaseState {
        let epoch = self.epochs.get(name).copied().unwrap_or(Epoch::NONE);
        LeaseState { epoch, hold: self.holds.get(name).cloned() }
    }

    fn play(&mut self, at: usize, op: &Op) -> Result<(), Rejection> {
        match op {
            Op::Put { key, .. } | Op::Stamped { key, .. } | Op::Delete { key } => {
                let kept = ["/setpoint.ledger/", "/setpoint.hold/", "/setpoint.epoch/"];
                if kept.iter().any(|prefix| key.starts_with(prefix.as_bytes())) {
                    return Err(Rejection::Reserved);
                }
            }
            Op::Limits { ledger, limits } => {
                self.limits.insert(ledger.clone(), limits.clone());
            }
            Op::Reserve { ledger, owner, amounts } => {
                let place = (ledger.clone(), owner.clone());
                let had = self.reserved.get(&place).cloned().unwrap_or_default();
                let left = self.shortage(ledger, &had, amounts);
                if !left.is_empty() {
                    return Err(Rejection::NoHeadroom { op: at, left });
                }
                let mut amounts = amounts.clone();
                amounts.retain(|_, amount| *amount != 0);
                self.reserved.insert(place, amounts);
            }
            Op::Count { ledger, owner, amounts } => self.count(at, ledger, owner, amounts)?,
            Op::Spread { ledger, owner, domain, .. } => {
                self.count(at, ledger, owner, &Amounts::from([(domain.clone(), 1)]))?;
            }
            Op::Release { ledger, owner } => {
                self.reserved.remove(&(ledger.clone(), owner.clone()));
            }
            Op::Hold { lease, holder, epoch, ttl, id } => {
                let found = self.lease(lease);
                if found.hold.is_some() || epoch.0 != found.epoch.0 + 1 {
                    return Err(Rejection::NotFree { op: at, found });
                }
                if id.is_none() || self.leases.contains_key(id) {
                    return Err(Rejection::LeaseExists);
                }
                let hold = Hold { holder: holder.clone(), epoch: *epoch, ttl: *ttl, id: *id };
                self.leases.insert(*id, *ttl);
                self.epochs.insert(lease.clone(), *epoch);
                self.holds.insert(lease.clone(), hold);
            }
            Op::Vacate { lease, epoch } => {
                let found = self.lease(lease);
                let Some(hold) = found.hold.clone().filter(|hold| hold.epoch == *epoch) else {
                    return Err(Rejection::NotHeld { op: at, found });
                };
                self.holds.remove(lease);
                self.leases.remove(&hold.id);
                self.revoked.insert(hold.id);
            }
        }
        Ok(())
    }

    /// Every ledger and reservation as the row it should be.
    fn ledger_rows(&self) -> (BTreeMap<String, Bytes>, BTreeMap<(String, String), Bytes>) {
        let names = self.limits.keys().chain(self.reserved.keys().map(|(ledger, _)| ledger));
        let ledgers = names.map(|name| (name.clone(), self.ledger(name)));
        let ledgers = ledgers.filter(|(_, it)| !(it.limits.is_empty() && it.used.is_empty()));
        let reserved = self.reserved.iter().filter(|(_, amounts)| !amounts.is_empty());
        (
            ledgers.map(|(name, ledger)| (name, ledger.encode())).collect(),
            reserved.map(|(place, amounts)| (place.clone(), ledger::encode_reservation(amounts))).collect(),
        )
    }
}

impl Model {
    pub fn commit_objects(&mut self, commit: &Commit, term: u64) -> Verdict {
        if let Some(done) = self.done(commit) {
            return done.map(Response::Commit);
        }
        let books = self.books();
        for (index, guard) in commit.guards.iter().enumerate() {
            if let Some(found) = self.stands_against(&books, guard, term) {
                return Err(Rejection::Guard { index, found });
            }
        }
        let mut after = books.clone();
        for (at, op) in commit.ops.iter().enumerate() {
            after.play(at, op)?;
        }
        for (op, it) in commit.ops.iter().enumerate() {
            let Op::Spread { ledger, domain, evenness, .. } = it else { continue };
            let used = after.ledger(ledger).used;
            let count = |domain: &String| u128::from(used.get(domain).copied().unwrap_or(0));
            let (has, least) = (count(domain), evenness.among.iter().map(count).min().unwrap_or(0));
            if has > least + u128::from(evenness.max_skew) {
                return Err(Rejection::Uneven { op, has: has as u64, least: least as u64 });
            }
        }
        for op in &commit.ops {
            if let Op::Put { lease, .. } = op
                && !lease.is_none()
                && !after.leases.contains_key(lease)
            {
                return Err(Rejection::LeaseNotFound);
            }
        }
        let draft = self.draft_of(commit, &books, &after);
        let changed = !draft.records.is_empty();
        self.commit(draft);
        self.granted = after.leases.clone();
        self.objects.books = after;
        let committed = Committed { revision: self.revision(), changed, repeated: false };
        self.remember(commit, committed);
        Ok(Response::Commit(committed))
    }

    pub fn done(&self, commit: &Commit) -> Option<Result<Committed, Rejection>> {
        let operation = commit.operation.as_ref()?;
        let mut latest = self.objects.done.iter().rev();
        let done = latest.find(|done| done.id == operation.id && self.stamp.0 - done.time.0 <= HOUR)?;
        let revision = done.committed.revision;
        if done.fingerprint != operation.fingerprint {
            return Some(Err(Rejection::OperationReused { revision }));
        }
        Some(Ok(Committed { repeated: true, ..done.committed }))
    }

    fn remember(&mut self, commit: &Commit, committed: Committed) {
        let Some(operation) = &commit.operation else { return };
        let (id, fingerprint, time) = (operation.id.clone(), operation.fingerprint, self.stamp);
        self.objects.done.push(Done { id, fingerprint, committed, time });
        let place = self.objects.rows.back().map_or(0, |(place, _)| place + 1);
        let rows = &mut self.objects.rows;
        rows.push_back((place, time));
        let old = rows.iter().take_while(|(_, done)| time.0 - done.0 > HOUR).count();
        rows.drain(..old.min(16));
    }

    /// The books, with what the keys say about leases: they may have ended since.
    fn books(&self) -> Books {
        let holds = self.now().values().filter_map(|version| {
            let name = LeaseName::of_hold_key(&version.kv.key)?;
            Some((name, Hold::decode(version.kv.value.clone()).expect("a hold")))
        });
        let (leases, revoked) = (self.granted.clone(), BTreeSet::new());
        Books { holds: holds.collect(), leases, revoked, ..self.objects.books.clone() }
    }

    pub fn lease_state(&self, name: &LeaseName) -> LeaseState {
        self.books().lease(name)
    }

    pub fn ledger(&self, name: &str) -> Option<Ledger> {
        let ledger = self.objects.books.ledger(name);
        (!ledger.limits.is_empty() || !ledger.used.is_empty()).then_some(ledger)
    }

    fn stands_against(&self, books: &Books, guard: &Guard, running: u64) -> Option<Found> {
        match guard {
            Guard::Revision { key, revision } => {
                let found = self.now().get(key).map_or(Revision::NONE, |version| version.kv.modified);
                (found != *revision).then_some(Found::Revision(found))
            }
            Guard::Fence(fence) => {
                let found = books.lease(&fence.lease);
                let held = found.hold.as_ref().is_some_and(|hold| hold.epoch == fence.epoch);
                (!held).then_some(Found::Lease(found))
            }
            Guard::Headroom { ledger, amounts } => {
                let left = books.shortage(ledger, &Amounts::new(), amounts);
                (!left.is_empty()).then_some(Found::Headroom(left))
            }
            Guard::Term(term) => (*term != running).then_some(Found::Term(running)),
            Guard::Empty(range) => {
                let keys = self.now().keys().filter(|key| range.contains(key)).count();
                (keys > 0).then_some(Found::Keys(keys as u64))
            }
        }
    }

    fn draft_of(&self, commit: &Commit, before: &Books, after: &Books) -> Draft {
        let mut draft = self.draft();
        draft.author = commit.author.clone().map(|author| Arc::new(Author { time: self.stamp, ..author }));
        let leases = self.leases();
        for (_, keys) in after.revoked.iter().filter_map(|id| leases.get(id)) {
            keys.iter().for_each(|key| draft.delete(key));
        }
        for op in &commit.ops {
            match op {
                Op::Put { key, value, lease } => write(&mut draft, key, Some(value), *lease),
                Op::Stamped { key, value, at } => {
                    let mut value = value.to_vec();
                    if *at < value.len() as u64 && value.len() as u64 - at >= 20 {
                        let number = format!("{:20}", self.revision().get() + 1);
                        value.splice(*at as usize..*at as usize + 20, number.bytes());
                    }
                    write(&mut draft, key, Some(&value.into()), LeaseId::NONE);
                }
                Op::Delete { key } => write(&mut draft, key, None, LeaseId::NONE),
                _ => {}
            }
        }
        let ((old_ledgers, old_reserved), (ledgers, reserved)) = (before.ledger_rows(), after.ledger_rows());
        for (name, row) in differing(&old_ledgers, &ledgers) {
            write(&mut draft, &Ledger::key(name), row, LeaseId::NONE);
        }
        for ((ledger, owner), row) in differing(&old_reserved, &reserved) {
            write(&mut draft, &Ledger::reservation_key(ledger, owner), row, LeaseId::NONE);
        }
        for (name, epoch) in differing(&before.epochs, &after.epochs) {
            let epoch = epoch.expect("epochs stay");
            write(&mut draft, &name.epoch_key(), Some(&epoch.encode()), LeaseId::NONE);
            if let Some(hold) = after.holds.get(name) {
                write(&mut draft, &name.hold_key(), Some(&hold.encode()), hold.id);
            }
        }
        draft
    }

    /// The last revision of the second a time lies in, or of an earlier one.
    pub fn revision_at(&self, time: Timestamp) -> Result<Revision, Rejection> {
        let until = self.stamps.iter().filter(|stamp| stamp.0 / 1000 <= time.0 / 1000).count();
        let at = Revision::new(until as u64 + 1);
        if at.wire() < self.compacted { Err(self.compacted()) } else { Ok(at) }
    }

    /// The seconds a fully collected store has rows for.
    pub fn seconds(&self) -> Vec<u64> {
        let mut first: BTreeMap<u64, i64> = BTreeMap::new();
        for (change, stamp) in self.all_changes().iter().zip(&self.stamps) {
            first.entry(stamp.0 / 1000).or_insert(change.revision.wire());
        }
        let settled = first.iter().filter(|(_, revision)| **revision <= self.compacted).count();
        first.into_keys().skip(settled.saturating_sub(1)).collect()
    }

    /// The kept versions of a key below a revision, newest first.
    pub fn versions(&self, key: &Bytes, before: Revision, count: usize) -> Versions {
        let oldest = Revision::new(self.compacted.max(0) as u64);
        let base = self.at(oldest.max(Revision::INITIAL)).get(key).map(|version| version.kv.modified);
        let mut versions = Vec::new();
        for set in self.all_changes().iter().rev() {
            let last = set.records.iter().rposition(|record| record.key == *key);
            for (sub, record) in set.records.iter().enumerate().rev().filter(|(_, it)| it.key == *key) {
                let based = base == Some(set.revision) && last == Some(sub);
                if set.revision >= oldest || based {
                    let id = RecordId { revision: set.revision, sub: sub as u32 };
                    versions.push(Version { id, record: record.clone() });
                }
            }
        }
        versions.retain(|version| before.is_none() || version.id.revision < before);
        let more = versions.len() > count;
        versions.truncate(count);
        Versions { versions, more, oldest }
    }
}

fn write(draft: &mut Draft, key: &Bytes, value: Option<&Bytes>, lease: LeaseId) {
    match value {
        Some(value) => {
            draft.put(&Put { key: key.clone(), value: value.clone(), lease, ..Put::default() });
        }
        None if draft.keys.contains_key(key) => draft.delete(key),
        None => {}
    }
}

/// What is different in the second map, in order.
fn differing<'m, K: Ord, V: PartialEq>(
    before: &'m BTreeMap<K, V>,
    after: &'m BTreeMap<K, V>,
) -> Vec<(&'m K, Option<&'m V>)> {
    let names: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(name) != after.get(name));
    changed.map(|name| (name, after.get(name))).collect()
}
