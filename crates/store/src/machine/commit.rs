//! Commits: was it done before, do its guards hold, is every operation possible, and only then the changes.
//!
//! Within the revision come first the keys of ended leases, then puts and deletes in the order of the commit, then ledgers,
//! reservations, epochs and holds in the order of their names.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{LeaseId, Revision};

use super::Pending;
use super::mutate::Write;
use super::operations::Done;
use super::plan::{Plan, Row};
use super::state::State;
use super::step::{Applied, Step};
use crate::author::Author;
use crate::command::AlarmKind;
use crate::commit::{Commit, Guard, Op};
use crate::engine::{Engine, EngineFailure};
use crate::hold::{Epoch, Hold, LeaseName, LeaseState};
use crate::ledger::{self, Amounts, Ledger};
use crate::read;
use crate::verdict::{Committed, Found, Rejection, Response, Verdict};

impl Step<'_> {
    pub(super) fn commit(&mut self, mut commit: Commit, term: u64) -> Result<Verdict, EngineFailure> {
        if let Some(done) = self.repeated(&commit) {
            return Ok(done.map(Response::Commit));
        }
        let author = commit.author.take();
        let plan = match self.before().decide(&commit, term)? {
            Ok(plan) => plan,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let changed = self.carry_out(&commit, author, &plan, term);
        let committed = Committed { revision: self.state.revision, changed, repeated: false };
        if let Some(operation) = &commit.operation {
            let Committed { revision, changed, .. } = committed;
            let (fingerprint, time) = (operation.fingerprint, self.state.stamp);
            let done = Done { fingerprint, revision, changed, time };
            self.state.operations.insert(operation, done, &mut self.batch);
        }
        Ok(Ok(Response::Commit(committed)))
    }

    /// What the commit answered when it was done, if it was; or that its id was used for something else.
    pub(super) fn repeated(&self, commit: &Commit) -> Option<Result<Committed, Rejection>> {
        let operation = commit.operation.as_ref()?;
        let done = self.state.operations.get(&operation.id, self.state.stamp)?;
        if done.fingerprint != operation.fingerprint {
            return Some(Err(Rejection::OperationReused { revision: done.revision }));
        }
        Some(Ok(Committed { revision: done.revision, changed: done.changed, repeated: true }))
    }

    /// Changes what the plan found possible; says whether that was anything.
    fn carry_out(&mut self, commit: &Commit, author: Option<Author>, plan: &Plan<'_>, term: u64) -> bool {
        let time = self.state.stamp;
        let author = author.map(|author| Arc::new(Author { time, ..author }));
        let mut write = Write::after(self.state).by(author);
        for lease in &plan.revoked {
            self.drop_lease(&mut write, *lease);
        }
        for (lease, ttl) in &plan.granted {
            self.add_lease(*lease, *ttl, term);
        }
        for op in &commit.ops {
            match op {
                Op::Put { key, value, lease } => {
                    self.target().put(&mut write, key, value.clone(), *lease);
                }
                Op::Stamped { key, value, at } => {
                    let value = stamped(value, *at, write.revision);
                    self.target().put(&mut write, key, value, LeaseId::NONE);
                }
                Op::Delete { key } => self.delete_key(&mut write, key),
                // In the plan's rows.
                _ => {}
            }
        }
        for Row { key, value, lease } in plan.rows() {
            match value {
                Some(value) => self.target().put(&mut write, &key, value, lease),
                None => self.delete_key(&mut write, &key),
            }
        }
        let changed = write.changed();
        self.publish(write);
        changed
    }

    fn delete_key(&mut self, write: &mut Write, key: &Bytes) {
        if let Some(existing) = self.state.index.get(key).copied() {
            self.target().delete(write, key, existing);
        }
    }

    fn before(&self) -> Before<'_> {
        Before { state: self.state, engine: self.engine, pending: &self.pending }
    }
}

/// Digits of the largest revision.
const STAMP_BYTES: usize = 20;

/// A value with the revision in it, if there is room where it is to be.
fn stamped(value: &Bytes, at: u64, revision: Revision) -> Bytes {
    let end = usize::try_from(at).ok().and_then(|at| at.checked_add(STAMP_BYTES));
    let Some(end) = end.filter(|end| *end <= value.len()) else { return value.clone() };
    let mut value = value.to_vec();
    value[end - STAMP_BYTES..end].copy_from_slice(format!("{:>STAMP_BYTES$}", revision.get()).as_bytes());
    value.into()
}

/// The state that a commit is decided on: all of it is decided before anything changes.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub state: &'a State,
    engine: &'a dyn Engine,
    pending: &'a Pending,
}

/// Whether a commit would be done now, without doing it.
pub(crate) fn try_commit(state: &State, engine: &dyn Engine, commit: &Commit) -> Applied<()> {
    let alarm = |kind| state.has_alarm(kind);
    if alarm(AlarmKind::Corrupt) {
        return Ok(Err(Rejection::Corrupt));
    }
    if commit.grows() && alarm(AlarmKind::NoSpace) {
        return Ok(Err(Rejection::NoSpace));
    }
    let before = Before { state, engine, pending: &Pending::new() };
    let term = state.applied.map_or(0, |applied| applied.term);
    Ok(before.decide(commit, term)?.map(drop))
}

impl Before<'_> {
    /// What the commit comes to, if its guards hold and its operations are possible.
    fn decide<'c>(&self, commit: &'c Commit, term: u64) -> Applied<Plan<'c>> {
        for (index, guard) in commit.guards.iter().enumerate() {
            if let Some(found) = self.against(guard, term)? {
                return Ok(Err(Rejection::Guard { index, found }));
            }
        }
        Plan::of(self, &commit.ops)
    }

    /// What a guard found that it does not allow.
    fn against(&self, guard: &Guard, running: u64) -> Result<Option<Found>, EngineFailure> {
        Ok(match guard {
            Guard::Revision { key, revision } => {
                let found = self.state.index.get(key).map_or(Revision::NONE, |state| state.modified);
                (found != *revision).then_some(Found::Revision(found))
            }
            Guard::Fence(fence) => {
                // The hold alone decides; the epoch is only looked up to tell who was refused.
                let held = self.held(&fence.lease)?.is_some_and(|hold| hold.epoch == fence.epoch);
                if held { None } else { Some(Found::Lease(self.lease_state(&fence.lease)?)) }
            }
            Guard::Headroom { ledger, amounts } => {
                let left = self.ledger(ledger)?.shortage(&Amounts::new(), amounts);
                (!left.is_empty()).then_some(Found::Headroom(left))
            }
            Guard::Term(term) => (*term != running).then_some(Found::Term(running)),
            Guard::Empty(range) => {
                let keys = self.state.index.count(range);
                (keys > 0).then_some(Found::Keys(keys as u64))
            }
        })
    }

    /// Not by way of a range: a bind looks at a dozen rows, half of which are not there.
    fn value(&self, key: &Bytes) -> Result<Option<Bytes>, EngineFailure> {
        let Some(state) = self.state.index.get(key) else { return Ok(None) };
        read::value(self.engine, self.pending, state).map(Some)
    }

    pub(super) fn ledger(&self, name: &str) -> Result<Ledger, EngineFailure> {
        let row = self.value(&Ledger::key(name))?;
        Ok(row.map(Ledger::decode).transpose()?.unwrap_or_default())
    }

    pub(super) fn reservation(&self, ledger: &str, owner: &str) -> Result<Amounts, EngineFailure> {
        let row = self.value(&Ledger::reservation_key(ledger, owner))?;
        Ok(row.map(ledger::decode_reservation).transpose()?.unwrap_or_default())
    }

    pub(super) fn lease_state(&self, lease: &LeaseName) -> Result<LeaseState, EngineFailure> {
        let epoch = self.value(&lease.epoch_key())?.map(Epoch::decode).transpose()?;
        Ok(LeaseState { epoch: epoch.unwrap_or(Epoch::NONE), hold: self.held(lease)? })
    }

    fn held(&self, lease: &LeaseName) -> Result<Option<Hold>, EngineFailure> {
        Ok(self.value(&lease.hold_key())?.map(Hold::decode).transpose()?)
    }
}
