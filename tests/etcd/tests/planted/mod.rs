//! The planted differences: one for each thing a server could get wrong on the wire.
//!
//! A plant changes one answer if it can, and says whether it did. It works on answers as they came off the wire, so
//! that what `normalise` takes out of them is under test as well.

pub mod lease;
pub mod maintenance;
pub mod read;
pub mod refuse;
pub mod txn;
pub mod watch;

use setpoint_api::etcdserverpb as pb;
use setpoint_etcd_tests::answer::{Answer, Outcome};

pub struct Plant {
    pub name: &'static str,
    pub change: fn(&mut Answer) -> bool,
}

/// Every plant.
pub fn plants() -> Vec<Plant> {
    let families =
        [read::PLANTS, refuse::PLANTS, txn::PLANTS, lease::PLANTS, watch::PLANTS, maintenance::PLANTS];
    let all = families.into_iter().flatten();
    all.map(|(name, change)| Plant { name, change: *change }).collect()
}

type Entry = (&'static str, fn(&mut Answer) -> bool);

/// Changes something that may not be there.
fn change<T>(place: Option<T>, how: impl FnOnce(T)) -> bool {
    place.map(how).is_some()
}

fn range(answer: &mut Answer) -> Option<&mut pb::RangeResponse> {
    match answer {
        Answer::Range(Ok(response)) => Some(response),
        _ => None,
    }
}

fn put(answer: &mut Answer) -> Option<&mut pb::PutResponse> {
    match answer {
        Answer::Put(Ok(response)) => Some(response),
        _ => None,
    }
}

fn delete(answer: &mut Answer) -> Option<&mut pb::DeleteRangeResponse> {
    match answer {
        Answer::Delete(Ok(response)) => Some(response),
        _ => None,
    }
}

fn txn(answer: &mut Answer) -> Option<&mut pb::TxnResponse> {
    match answer {
        Answer::Txn(Ok(response)) => Some(response),
        _ => None,
    }
}

/// The header of any successful answer.
fn header(answer: &mut Answer) -> Option<&mut Option<pb::ResponseHeader>> {
    fn of<T>(
        outcome: &mut Outcome<T>,
        get: fn(&mut T) -> &mut Option<pb::ResponseHeader>,
    ) -> Option<&mut Option<pb::ResponseHeader>> {
        outcome.as_mut().ok().map(get)
    }
    match answer {
        Answer::Range(outcome) => of(outcome, |response| &mut response.header),
        Answer::Put(outcome) => of(outcome, |response| &mut response.header),
        Answer::Delete(outcome) => of(outcome, |response| &mut response.header),
        Answer::Txn(outcome) => of(outcome, |response| &mut response.header),
        Answer::Compact(outcome) => of(outcome, |response| &mut response.header),
        Answer::Grant(outcome) | Answer::GrantBriefly(outcome, _) => {
            of(outcome, |response| &mut response.header)
        }
        Answer::Revoke(outcome) => of(outcome, |response| &mut response.header),
        Answer::TimeToLive(outcome) => of(outcome, |response| &mut response.header),
        Answer::Leases(outcome) => of(outcome, |response| &mut response.header),
        Answer::KeepAlive(outcome) => of(outcome, |response| &mut response.header),
        Answer::WatchCreated(response) => response.as_mut().map(|response| &mut response.header),
        Answer::WatchCanceled(response) => response.as_mut().map(|response| &mut response.header),
        Answer::Status(outcome) => of(outcome, |response| &mut response.header),
        Answer::Alarm(outcome) => of(outcome, |response| &mut response.header),
        Answer::Hash(outcome) => of(outcome, |response| &mut response.header),
        Answer::HashKv(outcome, _) => of(outcome, |response| &mut response.header),
        Answer::Defragment(outcome) => of(outcome, |response| &mut response.header),
        Answer::MemberList(outcome) => of(outcome, |response| &mut response.header),
        Answer::Progress(_) | Answer::Settled(_) | Answer::Nothing | Answer::Stray(_) => None,
    }
}

/// Raises the revision in the header of answers of one kind.
fn raise_revision(answer: &mut Answer, wanted: fn(&Answer) -> bool) -> bool {
    if !wanted(answer) {
        return false;
    }
    change(header(answer).and_then(Option::as_mut), |header| header.revision += 1)
}
