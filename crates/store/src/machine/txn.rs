//! Transactions: all compares first, then every check of the chosen path, then the operations in order.
//!
//! A check that fails refuses the whole transaction before anything changed (invariant S4), so an operation never has
//! to be undone. Compares of nested transactions are decided against the state before the outermost one.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use setpoint_types::Revision;

use super::mutate::Write;
use super::state::State;
use super::step::{Applied, Step};
use crate::command::{Compare, Operand, Operator, Put, Range, Txn, TxnOp};
use crate::encoding;
use crate::engine::EngineFailure;
use crate::index::KeyState;
use crate::read::{ReadFailure, View};
use crate::verdict::{RangeResult, Rejection, Response, TxnResult, Verdict};

/// Which branch a transaction takes, and those of the transactions nested in that branch, in order.
pub(crate) struct Path {
    succeeded: bool,
    nested: Vec<Path>,
}

impl Path {
    fn branch<'t>(&self, txn: &'t Txn) -> &'t [TxnOp] {
        if self.succeeded { &txn.success } else { &txn.failure }
    }
}

impl Step<'_> {
    pub(super) fn txn(&mut self, txn: &Txn, answer: bool) -> Result<Verdict, EngineFailure> {
        let path = choose(&View::latest(self.state, self.engine, &self.pending), txn)?;
        if let Err(rejection) = check(self.state, txn, &path) {
            return Ok(Err(rejection));
        }
        let mut write = Write::after(self.state);
        let mut result = self.branch(&mut write, txn, &path, answer)?;
        result.revision = write.visible();
        self.publish(write);
        Ok(Ok(Response::Txn(result)))
    }

    fn branch(
        &mut self,
        write: &mut Write,
        txn: &Txn,
        path: &Path,
        answer: bool,
    ) -> Result<TxnResult, EngineFailure> {
        let mut nested = path.nested.iter();
        let mut responses = Vec::new();
        for op in path.branch(txn) {
            let response = match op {
                TxnOp::Put(put) => self.put_into(write, put, answer)?,
                TxnOp::DeleteRange(delete) => self.delete_into(write, delete, answer)?,
                // A read changes nothing: where nobody waits for the answer it is not made.
                TxnOp::Range(_) if !answer => continue,
                TxnOp::Range(range) => {
                    Response::Range(self.view(write).range(range).map_err(ReadFailure::into_engine)?)
                }
                TxnOp::Txn(inner) => {
                    let path = nested.next().expect("a path was chosen for each nested transaction");
                    Response::Txn(self.branch(write, inner, path, answer)?)
                }
            };
            responses.push(response);
        }
        Ok(TxnResult { revision: Revision::NONE, succeeded: path.succeeded, responses })
    }
}

/// Decides a transaction that cannot write: its path, or why it is refused.
pub(crate) fn choose_read(view: &View<'_>, state: &State, txn: &Txn) -> Applied<Path> {
    let path = choose(view, txn)?;
    Ok(check(state, txn, &path).map(|()| path))
}

/// Answers a transaction that cannot write, along its path.
pub(crate) fn read_branch(
    txn: &Txn,
    path: &Path,
    revision: Revision,
    range: &impl Fn(&Range) -> Result<RangeResult, ReadFailure>,
) -> Result<TxnResult, ReadFailure> {
    let mut nested = path.nested.iter();
    let mut responses = Vec::new();
    for op in path.branch(txn) {
        match op {
            TxnOp::Range(read) => responses.push(Response::Range(range(read)?)),
            TxnOp::Txn(inner) => {
                let path = nested.next().expect("a path was chosen for each nested transaction");
                responses.push(Response::Txn(read_branch(inner, path, Revision::NONE, range)?));
            }
            TxnOp::Put(_) | TxnOp::DeleteRange(_) => unreachable!("the caller asked `is_read_only`"),
        }
    }
    Ok(TxnResult { revision, succeeded: path.succeeded, responses })
}

fn choose(view: &View<'_>, txn: &Txn) -> Result<Path, EngineFailure> {
    let mut succeeded = true;
    for compare in &txn.compares {
        succeeded = succeeded && holds(view, compare)?;
    }
    let mut path = Path { succeeded, nested: Vec::new() };
    for op in path.branch(txn) {
        if let TxnOp::Txn(inner) = op {
            path.nested.push(choose(view, inner)?);
        }
    }
    Ok(path)
}

/// Everything on the chosen path that could refuse the transaction: every put, at any depth, before any range. A
/// transaction with two faults is refused for the one that etcd finds first.
fn check(state: &State, txn: &Txn, path: &Path) -> Result<(), Rejection> {
    check_each(txn, path, &|op| match op {
        TxnOp::Put(put) => check_put(state, put),
        TxnOp::DeleteRange(delete) if state.reserves(&delete.range) => Err(Rejection::Reserved),
        _ => Ok(()),
    })?;
    check_each(txn, path, &|op| if let TxnOp::Range(range) = op { check_range(state, range) } else { Ok(()) })
}

/// Looks at every operation on the chosen path, in order, except for those that only hold others.
fn check_each(
    txn: &Txn,
    path: &Path,
    verdict: &dyn Fn(&TxnOp) -> Result<(), Rejection>,
) -> Result<(), Rejection> {
    let mut nested = path.nested.iter();
    for op in path.branch(txn) {
        match op {
            TxnOp::Txn(inner) => {
                let path = nested.next().expect("a path was chosen for each nested transaction");
                check_each(inner, path, verdict)?;
            }
            op => verdict(op)?,
        }
    }
    Ok(())
}

fn check_put(state: &State, put: &Put) -> Result<(), Rejection> {
    if encoding::is_reserved(&put.key) {
        return Err(Rejection::Reserved);
    }
    if (put.keep_value || put.keep_lease) && state.index.get(&put.key).is_none() {
        return Err(Rejection::KeyNotFound);
    }
    state.check_attaching(put.lease)
}

/// Unlike a range of its own, one inside a transaction takes a negative revision for a compacted one.
fn check_range(state: &State, range: &Range) -> Result<(), Rejection> {
    if range.revision > state.revision.wire() {
        return Err(Rejection::FutureRevision { newest: state.revision });
    }
    if range.revision != 0 && range.revision < state.compacted {
        return Err(state.compacted_rejection());
    }
    Ok(())
}

fn holds(view: &View<'_>, compare: &Compare) -> Result<bool, EngineFailure> {
    if let Operand::Value(operand) = &compare.operand {
        let read = Range::latest(compare.range.clone());
        let kvs = view.range(&read).map_err(ReadFailure::into_engine)?.kvs;
        // A missing key has no value to compare.
        return Ok(!kvs.is_empty() && kvs.iter().all(|kv| satisfied(compare.operator, kv.value.cmp(operand))));
    }
    let (mut any, mut all) = (false, true);
    view.index.visit(&compare.range, |_, state| {
        any = true;
        all = satisfied(compare.operator, compare_state(state, &compare.operand));
        if all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if !any {
        // Of a missing key everything else is zero.
        return Ok(satisfied(compare.operator, compare_number(0, &compare.operand)));
    }
    Ok(all)
}

fn compare_state(state: &KeyState, operand: &Operand) -> Ordering {
    let number = match operand {
        Operand::Version(_) => state.version as i64,
        Operand::Created(_) => state.created.wire(),
        Operand::Modified(_) => state.modified.wire(),
        Operand::Lease(_) => state.lease.0,
        Operand::Value(_) | Operand::Unknown => return Ordering::Equal,
    };
    compare_number(number, operand)
}

fn compare_number(number: i64, operand: &Operand) -> Ordering {
    match operand {
        Operand::Version(other)
        | Operand::Created(other)
        | Operand::Modified(other)
        | Operand::Lease(other) => number.cmp(other),
        Operand::Value(_) | Operand::Unknown => Ordering::Equal,
    }
}

fn satisfied(operator: Operator, ordering: Ordering) -> bool {
    match operator {
        Operator::Equal => ordering.is_eq(),
        Operator::Greater => ordering.is_gt(),
        Operator::Less => ordering.is_lt(),
        Operator::NotEqual => ordering.is_ne(),
        Operator::Unknown => true,
    }
}
