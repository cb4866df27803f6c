//! The end of a hold whose time is up: one commit, void unless the leader that decided it still leads (invariant S12).

use setpoint_store::commit::{Commit, Guard, Op};
use setpoint_store::{Author, LeaseName, Store};
use setpoint_types::{LeaseId, Timestamp};

use super::object;
use super::state::{self, object_key};
use crate::lease::Observed;
use crate::objects::write::convert;

/// Who is told to have ended it.
const PRINCIPAL: &str = "setpoint";

/// The commit that ends the hold an etcd lease counts the time of, and says so in the Lease object. None if the lease is
/// not of a hold, or if there is no object to rewrite: then the lease is expired like any other, and the hold ends with it.
pub fn commit(store: &Store, id: LeaseId, term: u64, now: Timestamp, observed: Observed) -> Option<Commit> {
    let lease = store.lease(id)?.keys.iter().find_map(|key| LeaseName::of_hold_key(key))?;
    let moment = state::read(store, &lease).ok()?;
    let hold = moment.hold.as_ref().filter(|hold| hold.id == id)?;
    let before = moment.object()?;
    let status = object::ended(object::status(Some(before)), hold, observed, now);
    let mut object = object::with_status(before, &status, now).ok()?;
    let author =
        Author { principal: PRINCIPAL.to_owned(), manager: object::MANAGER.to_owned(), ..Author::default() };
    let put = Op::Put { key: object_key(&lease), value: convert::encoded(&mut object), lease: LeaseId::NONE };
    let mut guards = vec![Guard::Term(term)];
    guards.extend(moment.guards(&lease));
    let ops = vec![Op::Vacate { lease: lease.clone(), epoch: hold.epoch }, put];
    Some(Commit { operation: None, author: Some(author), guards, ops })
}
