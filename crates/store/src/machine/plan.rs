//! What a commit's operations come to, found out before anything changes.
//!
//! Operations on ledgers and leases build on one another: of two reservations in one commit the second finds what the first
//! has left. So they are played through here, in order, over copies of the rows they touch. If one is impossible the commit
//! is refused, and nothing has to be undone (invariant S4). What remains is a list of rows to write.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use bytes::Bytes;
use setpoint_types::LeaseId;

use super::commit::Before;
use super::step::Applied;
use crate::commit::Op;
use crate::encoding;
use crate::engine::EngineFailure;
use crate::hold::{Epoch, Hold, LeaseName, LeaseState};
use crate::ledger::{self, Amounts, Ledger};
use crate::verdict::Rejection;

/// Rows before and after.
struct Touched<T> {
    before: T,
    after: T,
}

impl<T: PartialEq> Touched<T> {
    fn changed(&self) -> bool {
        self.before != self.after
    }
}

/// A row as the operations so far left it.
fn touch<K: Ord, T: Clone>(
    rows: &mut BTreeMap<K, Touched<T>>,
    key: K,
    load: impl FnOnce() -> Result<T, EngineFailure>,
) -> Result<&mut T, EngineFailure> {
    let row = match rows.entry(key) {
        Entry::Occupied(row) => row.into_mut(),
        Entry::Vacant(row) => {
            let before = load()?;
            row.insert(Touched { after: before.clone(), before })
        }
    };
    Ok(&mut row.after)
}

#[derive(Default)]
pub(super) struct Plan<'c> {
    ledgers: BTreeMap<&'c str, Touched<Ledger>>,
    reservations: BTreeMap<(&'c str, &'c str), Touched<Amounts>>,
    leases: BTreeMap<&'c LeaseName, Touched<LeaseState>>,
    pub revoked: BTreeSet<LeaseId>,
    /// With their time to live.
    pub granted: BTreeMap<LeaseId, i64>,
}

/// A row that follows from the operations; none deletes it.
pub(super) struct Row {
    pub key: Bytes,
    pub value: Option<Bytes>,
    pub lease: LeaseId,
}

impl<'c> Plan<'c> {
    /// Plays the operations through.
    pub fn of(before: &Before<'_>, ops: &'c [Op]) -> Applied<Self> {
        let mut plan = Self::default();
        for (at, op) in ops.iter().enumerate() {
            if let Err(rejection) = plan.add(before, at, op)? {
                return Ok(Err(rejection));
            }
        }
        // Evenness is about what the whole commit leaves.
        for (at, op) in ops.iter().enumerate() {
            if let Op::Spread { ledger, domain, evenness, .. } = op
                && let Some(book) = plan.ledgers.get(ledger.as_str())
                && let Some((has, least)) = book.after.unevenness(domain, evenness)
            {
                return Ok(Err(Rejection::Uneven { op: at, has, least }));
            }
        }
        // A put may name a lease that a later operation grants, but not one that any of them ends.
        for op in ops {
            if let Op::Put { lease, .. } = op
                && !lease.is_none()
                && !plan.knows_lease(before, *lease)
            {
                return Ok(Err(Rejection::LeaseNotFound));
            }
        }
        Ok(Ok(plan))
    }

    fn add(&mut self, before: &Before<'_>, at: usize, op: &'c Op) -> Applied<()> {
        match op {
            Op::Put { key, .. } | Op::Stamped { key, .. } | Op::Delete { key } if encoding::is_kept(key) => {
                Ok(Err(Rejection::Reserved))
            }
            Op::Put { .. } | Op::Stamped { .. } | Op::Delete { .. } => Ok(Ok(())),
            Op::Limits { ledger, limits } => {
                touch(&mut self.ledgers, ledger.as_str(), || before.ledger(ledger))?.limits = limits.clone();
                Ok(Ok(()))
            }
            Op::Reserve { ledger, owner, amounts } => {
                self.reserve(before, at, (ledger, owner), ledger::nonzero(amounts), Ledger::shortage)
            }
            Op::Count { ledger, owner, amounts } => {
                let amounts = ledger::nonzero(amounts);
                self.reserve(before, at, (ledger, owner), amounts, Ledger::shortage_counting)
            }
            Op::Spread { ledger, owner, domain, .. } => {
                let one = Amounts::from([(domain.clone(), 1)]);
                self.reserve(before, at, (ledger, owner), one, Ledger::shortage_counting)
            }
            Op::Release { ledger, owner } => {
                self.reserve(before, at, (ledger, owner), Amounts::new(), Ledger::shortage)
            }
            Op::Hold { lease, holder, epoch, ttl, id } => {
                let hold = Hold { holder: holder.clone(), epoch: *epoch, ttl: *ttl, id: *id };
                self.hold(before, at, lease, hold)
            }
            Op::Vacate { lease, epoch } => self.vacate(before, at, lease, *epoch),
        }
    }

    fn reserve(
        &mut self,
        before: &Before<'_>,
        op: usize,
        (ledger, owner): (&'c str, &'c str),
        amounts: Amounts,
        shortage: impl FnOnce(&Ledger, &Amounts, &Amounts) -> Amounts,
    ) -> Applied<()> {
        let book = touch(&mut self.ledgers, ledger, || before.ledger(ledger))?;
        let had = touch(&mut self.reservations, (ledger, owner), || before.reservation(ledger, owner))?;
        let left = shortage(book, had, &amounts);
        if !left.is_empty() {
            return Ok(Err(Rejection::NoHeadroom { op, left }));
        }
        book.book(had, &amounts);
        *had = amounts;
        Ok(Ok(()))
    }

    fn hold(&mut self, before: &Before<'_>, op: usize, lease: &'c LeaseName, hold: Hold) -> Applied<()> {
        let known = hold.id.is_none() || self.knows_lease(before, hold.id);
        let state = touch(&mut self.leases, lease, || before.lease_state(lease))?;
        // S21: epochs only grow, by one per holder.
        if state.hold.is_some() || state.epoch.next() != Some(hold.epoch) {
            return Ok(Err(Rejection::NotFree { op, found: state.clone() }));
        }
        if known {
            return Ok(Err(Rejection::LeaseExists));
        }
        let (id, ttl) = (hold.id, hold.ttl);
        *state = LeaseState { epoch: hold.epoch, hold: Some(hold) };
        self.granted.insert(id, ttl);
        Ok(Ok(()))
    }

    fn vacate(&mut self, before: &Before<'_>, op: usize, lease: &'c LeaseName, epoch: Epoch) -> Applied<()> {
        let state = touch(&mut self.leases, lease, || before.lease_state(lease))?;
        match state.hold.take_if(|hold| hold.epoch == epoch) {
            None => Ok(Err(Rejection::NotHeld { op, found: state.clone() })),
            Some(hold) => {
                // One granted by this very commit is simply not granted.
                if self.granted.remove(&hold.id).is_none() {
                    self.revoked.insert(hold.id);
                }
                Ok(Ok(()))
            }
        }
    }

    fn knows_lease(&self, before: &Before<'_>, id: LeaseId) -> bool {
        self.granted.contains_key(&id)
            || (before.state.leases.contains_key(&id) && !self.revoked.contains(&id))
    }

    /// What is to be written beside the puts and deletes; only what differs from what is there.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |key: Bytes, value: Option<Bytes>, lease| rows.push(Row { key, value, lease });
        for (name, ledger) in self.ledgers.iter().filter(|(_, ledger)| ledger.changed()) {
            let value = (!ledger.after.is_empty()).then(|| ledger.after.encode());
            add(Ledger::key(name), value, LeaseId::NONE);
        }
        for ((ledger, owner), amounts) in self.reservations.iter().filter(|(_, amounts)| amounts.changed()) {
            let value = (!amounts.after.is_empty()).then(|| ledger::encode_reservation(&amounts.after));
            add(Ledger::reservation_key(ledger, owner), value, LeaseId::NONE);
        }
        for (name, lease) in self.leases.iter().filter(|(_, lease)| lease.changed()) {
            if lease.before.epoch != lease.after.epoch {
                add(name.epoch_key(), Some(lease.after.epoch.encode()), LeaseId::NONE);
            }
            // A hold that only ends goes with its etcd lease.
            if let Some(hold) = &lease.after.hold {
                add(name.hold_key(), Some(hold.encode()), hold.id);
            }
        }
        rows
    }
}
