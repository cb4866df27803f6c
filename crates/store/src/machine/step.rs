//! Applying a chunk of log entries: each command in turn, then one batch for the engine.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision};

use super::mutate::{Target, Write};
use super::state::{State, encode_attributes, encode_newest, encode_number, encode_position, encode_signed};
use super::{ApplyFailure, Body, Entry, Outcome, Pending, decode};
use crate::command::{Alarm, AlarmAction, AlarmKind, Command, DeleteRange, MemberAttributes, Put, Range};
use crate::encoding::{self, MetaKey};
use crate::engine::{Engine, EngineFailure, Table, WriteBatch};
use crate::read::{ReadFailure, View};
use crate::verdict::{KeyValue, Rejection, Response, Verdict};

pub(super) struct Step<'a> {
    pub state: &'a mut State,
    pub engine: &'a dyn Engine,
    local: NodeId,
    pub batch: WriteBatch,
    pub pending: Pending,
    outcome: Outcome,
}

/// A verdict, or the failure of this replica.
pub(super) type Applied<T> = Result<Result<T, Rejection>, EngineFailure>;

/// One key as a view has it.
pub(super) fn current(view: &View<'_>, key: &Bytes) -> Result<Option<KeyValue>, EngineFailure> {
    let mut read = Range::latest(KeyRange::Single(key.clone()));
    read.limit = 1;
    Ok(view.range(&read).map_err(ReadFailure::into_engine)?.kvs.pop())
}

impl<'a> Step<'a> {
    pub fn new(state: &'a mut State, engine: &'a dyn Engine, local: NodeId) -> Self {
        let (batch, pending, outcome) = Default::default();
        Self { state, engine, local, batch, pending, outcome }
    }

    pub fn entry(&mut self, entry: &Entry) -> Result<(), ApplyFailure> {
        // S3: the log is applied without gaps and never twice.
        let expected = self.state.applied.map_or(entry.position.index, |applied| applied.index + 1);
        assert_eq!(entry.position.index, expected, "S3: gap in the applied log");
        match &entry.body {
            Body::Blank => {}
            Body::Membership(record) => {
                self.batch.put(Table::Meta, MetaKey::Membership.encode(), record.to_vec());
                self.state.membership = Some(record.clone());
            }
            Body::Commands { stamp, commands } => {
                // S22: time never goes back, whichever leader's clock it is.
                self.state.stamp = self.state.stamp.max(*stamp);
                for command in commands {
                    let proposal = decode(entry.position.index, command)?;
                    let answer = proposal.id.node == self.local;
                    let verdict = self.command(proposal.command, entry.position.term, answer)?;
                    if answer {
                        self.outcome.verdicts.push((proposal.id, verdict));
                    }
                }
            }
        }
        self.state.applied = Some(entry.position);
        Ok(())
    }

    /// Ends the chunk: what is written carries the position it was applied up to, so both survive or neither does.
    pub fn finish(mut self) -> (WriteBatch, Outcome) {
        if let Some(applied) = self.state.applied {
            self.batch.put(Table::Meta, MetaKey::Applied.encode(), encode_position(applied));
            let newest = encode_newest(self.state.revision, self.state.stamp);
            self.batch.put(Table::Meta, MetaKey::Revision.encode(), newest);
        }
        (self.batch, self.outcome)
    }

    fn command(&mut self, command: Command, term: u64, answer: bool) -> Result<Verdict, EngineFailure> {
        if let Some(rejection) = self.alarmed(&command) {
            return Ok(Err(rejection));
        }
        match command {
            Command::Put(put) => self.put(&put, answer),
            Command::DeleteRange(delete) => self.delete_range(&delete, answer),
            Command::Txn(txn) => self.txn(&txn, answer),
            Command::Compact { revision } => Ok(self.compact(revision)),
            Command::LeaseGrant { lease, ttl } => Ok(self.grant(lease, ttl, term)),
            Command::LeaseRevoke { lease } if self.state.is_hold(lease) => Ok(Err(Rejection::Reserved)),
            Command::LeaseRevoke { lease } => Ok(self.revoke(lease)),
            // S12: only the leader that still leads may say that a lease's time is up.
            Command::LeaseExpire { term: decided, .. } if decided != term => Ok(Err(Rejection::Deposed)),
            Command::LeaseExpire { lease, .. } => Ok(self.revoke(lease)),
            Command::Alarm { action, alarm } => Ok(self.alarm(action, alarm)),
            Command::PublishMember { member, attributes } => Ok(self.publish_member(member, attributes)),
            Command::RemoveMember { member } => Ok(self.remove_member(member)),
            Command::ExpectVoter { member } => Ok(self.expect_voter(member)),
            Command::Commit(commit) => self.commit(Arc::unwrap_or_clone(commit), term),
        }
    }

    /// Alarms refuse commands here, in the log's order, so that all replicas refuse the same ones.
    fn alarmed(&self, command: &Command) -> Option<Rejection> {
        if self.state.alarms.is_empty() {
            return None;
        }
        let grows = match command {
            Command::Put(_) | Command::LeaseGrant { .. } => true,
            Command::Txn(txn) => txn.has_puts(),
            // One that was done before needs no room to say so.
            Command::Commit(commit) => commit.grows() && self.repeated(commit).is_none(),
            _ => false,
        };
        let data = !matches!(
            command,
            Command::Alarm { .. }
                | Command::PublishMember { .. }
                | Command::RemoveMember { .. }
                | Command::ExpectVoter { .. }
        );
        if data && self.state.has_alarm(AlarmKind::Corrupt) {
            return Some(Rejection::Corrupt);
        }
        (grows && self.state.has_alarm(AlarmKind::NoSpace)).then_some(Rejection::NoSpace)
    }

    fn put(&mut self, put: &Put, answer: bool) -> Result<Verdict, EngineFailure> {
        if encoding::is_reserved(&put.key) {
            return Ok(Err(Rejection::Reserved));
        }
        if let Err(rejection) = self.state.check_attaching(put.lease) {
            return Ok(Err(rejection));
        }
        if (put.keep_value || put.keep_lease) && self.state.index.get(&put.key).is_none() {
            return Ok(Err(Rejection::KeyNotFound));
        }
        let mut write = Write::after(self.state);
        let response = self.put_into(&mut write, put, answer)?;
        self.publish(write);
        Ok(Ok(response))
    }

    fn delete_range(&mut self, delete: &DeleteRange, answer: bool) -> Result<Verdict, EngineFailure> {
        if self.state.reserves(&delete.range) {
            return Ok(Err(Rejection::Reserved));
        }
        let mut write = Write::after(self.state);
        let response = self.delete_into(&mut write, delete, answer)?;
        self.publish(write);
        Ok(Ok(response))
    }

    /// Puts a key whose conditions (lease, existing value) were checked.
    pub fn put_into(
        &mut self,
        write: &mut Write,
        put: &Put,
        answer: bool,
    ) -> Result<Response, EngineFailure> {
        let wants_value = put.keep_value || (put.want_previous && answer);
        let existing = if wants_value { self.current(&put.key)? } else { None };
        let value = match &existing {
            Some(existing) if put.keep_value => existing.value.clone(),
            _ => put.value.clone(),
        };
        let kept = if put.keep_lease { self.state.index.get(&put.key) } else { None };
        let lease = kept.map_or(put.lease, |existing| existing.lease);
        self.target().put(write, &put.key, value, lease);
        let previous = if put.want_previous { existing } else { None };
        Ok(Response::Put { revision: write.revision, previous })
    }

    pub fn delete_into(
        &mut self,
        write: &mut Write,
        delete: &DeleteRange,
        answer: bool,
    ) -> Result<Response, EngineFailure> {
        let previous = if delete.want_previous && answer {
            self.view(write)
                .range(&Range::latest(delete.range.clone()))
                .map_err(ReadFailure::into_engine)?
                .kvs
        } else {
            Vec::new()
        };
        let mut doomed = Vec::new();
        self.state.index.visit(&delete.range, |key, state| {
            doomed.push((Bytes::copy_from_slice(key), *state));
            std::ops::ControlFlow::Continue(())
        });
        for (key, state) in &doomed {
            self.target().delete(write, key, *state);
        }
        Ok(Response::DeleteRange { revision: write.visible(), deleted: doomed.len() as u64, previous })
    }

    pub fn current(&self, key: &Bytes) -> Result<Option<KeyValue>, EngineFailure> {
        current(&View::latest(self.state, self.engine, &self.pending), key)
    }

    /// The state as the running command sees it.
    pub fn view(&self, write: &Write) -> View<'_> {
        View { revision: write.visible(), ..View::latest(self.state, self.engine, &self.pending) }
    }

    pub fn target(&mut self) -> Target<'_> {
        Target { state: self.state, batch: &mut self.batch, pending: &mut self.pending }
    }

    /// Makes a command's changes the next revision, if there are any.
    pub fn publish(&mut self, write: Write) {
        if let Some(changes) = write.into_changes() {
            self.state.revision = changes.revision;
            self.mark_second(changes.revision);
            self.outcome.changes.push(Arc::new(changes));
        }
    }

    /// Notes the first revision of each second, so that a time can be read at.
    fn mark_second(&mut self, revision: Revision) {
        let second = encoding::second(self.state.stamp);
        if self.state.marked.is_none_or(|marked| marked < second) {
            self.state.marked = Some(second);
            self.batch.put(Table::Meta, MetaKey::Second(second).encode(), encode_number(revision.get()));
        }
    }

    fn compact(&mut self, revision: i64) -> Verdict {
        if revision <= self.state.compacted {
            return Err(self.state.compacted_rejection());
        }
        if revision > self.state.revision.wire() {
            return Err(Rejection::FutureRevision { newest: self.state.revision });
        }
        self.state.compacted = revision;
        self.batch.put(Table::Meta, MetaKey::Compacted.encode(), encode_signed(revision));
        Ok(Response::Compact { revision: self.state.revision })
    }

    fn grant(&mut self, lease: LeaseId, ttl: i64, term: u64) -> Verdict {
        if self.state.leases.contains_key(&lease) {
            return Err(Rejection::LeaseExists);
        }
        self.add_lease(lease, ttl, term);
        Ok(Response::LeaseGrant { revision: self.state.revision, lease, ttl })
    }

    /// Grants a lease whose id is free.
    pub fn add_lease(&mut self, lease: LeaseId, ttl: i64, term: u64) {
        let granted_at = self.state.lease_changes.note(lease);
        let granted = super::Lease { ttl, granted_at, granted_in: term, keys: Default::default() };
        self.state.leases.insert(lease, granted);
        self.batch.put(Table::Meta, MetaKey::Lease(lease).encode(), encode_signed(ttl));
    }

    /// Deletes the lease's keys in key order, at one revision. Among them may be the hold of a lease object, which ends
    /// so; its epoch is not attached, and stays.
    fn revoke(&mut self, lease: LeaseId) -> Verdict {
        if !self.state.leases.contains_key(&lease) {
            return Err(Rejection::LeaseNotFound);
        }
        let mut write = Write::after(self.state);
        self.drop_lease(&mut write, lease);
        self.publish(write);
        Ok(Response::LeaseRevoke { revision: self.state.revision })
    }

    pub fn drop_lease(&mut self, write: &mut Write, lease: LeaseId) {
        let Some(revoked) = self.state.leases.remove(&lease) else { return };
        self.state.lease_changes.note(lease);
        self.batch.delete(Table::Meta, MetaKey::Lease(lease).encode());
        for key in &revoked.keys {
            if let Some(existing) = self.state.index.get(key).copied() {
                self.target().delete(write, key, existing);
            }
        }
    }

    fn alarm(&mut self, action: AlarmAction, alarm: Alarm) -> Verdict {
        let row = MetaKey::Alarm(alarm.member, alarm.kind as u8).encode();
        let changed = match action {
            AlarmAction::Activate => {
                self.state.alarms.insert(alarm);
                self.batch.put(Table::Meta, row, Vec::new());
                true
            }
            AlarmAction::Deactivate => {
                self.batch.delete(Table::Meta, row);
                self.state.alarms.remove(&alarm)
            }
        };
        let changed = if changed { vec![alarm] } else { Vec::new() };
        Ok(Response::Alarm { revision: self.state.revision, changed })
    }

    fn publish_member(&mut self, member: NodeId, attributes: MemberAttributes) -> Verdict {
        if !self.state.removed.contains(&member) {
            self.batch.put(Table::Meta, MetaKey::Member(member).encode(), encode_attributes(&attributes));
            self.state.members.insert(member, attributes);
        }
        Ok(Response::Member { revision: self.state.revision })
    }

    fn expect_voter(&mut self, member: NodeId) -> Verdict {
        if !self.state.removed.contains(&member) {
            self.state.expected_voters.insert(member);
            self.batch.put(Table::Meta, MetaKey::Expected(member).encode(), Vec::new());
        }
        Ok(Response::Member { revision: self.state.revision })
    }

    fn remove_member(&mut self, member: NodeId) -> Verdict {
        self.state.members.remove(&member);
        self.state.expected_voters.remove(&member);
        self.batch.delete(Table::Meta, MetaKey::Expected(member).encode());
        self.state.removed.insert(member);
        self.batch.delete(Table::Meta, MetaKey::Member(member).encode());
        self.batch.put(Table::Meta, MetaKey::Removed(member).encode(), Vec::new());
        for kind in [AlarmKind::NoSpace, AlarmKind::Corrupt] {
            if self.state.alarms.remove(&Alarm { member, kind }) {
                self.batch.delete(Table::Meta, MetaKey::Alarm(member, kind as u8).encode());
            }
        }
        Ok(Response::Member { revision: self.state.revision })
    }
}
