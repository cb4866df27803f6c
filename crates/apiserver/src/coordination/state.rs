//! A lease as it is at one moment: hold, epoch and object of one revision.

use bytes::Bytes;
use setpoint_objects::Object;
use setpoint_store::command::{Range, Txn, TxnOp};
use setpoint_store::commit::Guard;
use setpoint_store::{Epoch, Hold, KeyValue, LeaseName, ReadFailure, Response, Store};
use setpoint_types::{KeyRange, Revision, Timestamp};

use super::{Coordinator, LEASE, object};
use crate::objects::Refusal;
use crate::objects::key::ObjectName;
use crate::objects::reader::blocking;
use crate::objects::write::convert;

#[derive(Clone, Debug)]
pub struct Moment {
    pub object: Stored,
    /// The revision of the object's last change; none if there is no object.
    pub object_at: Revision,
    pub hold: Option<Hold>,
    /// The revision that made the hold.
    pub hold_at: Revision,
    /// The last one given out.
    pub epoch: Epoch,
}

/// What lies under the object's key.
#[derive(Clone, Debug)]
pub enum Stored {
    Nothing,
    Object(Box<Object>),
    /// Something else, which only damage can be the reason of.
    Damaged,
}

pub fn object_key(lease: &LeaseName) -> Bytes {
    ObjectName { kind: LEASE, namespace: &lease.namespace, name: &lease.name }.key()
}

/// Reads the parts of a lease at one revision.
pub fn read(store: &Store, lease: &LeaseName) -> Result<Moment, ReadFailure> {
    let read = |key| TxnOp::Range(Range::latest(KeyRange::Single(key)));
    let keys = [object_key(lease), lease.hold_key(), lease.epoch_key()];
    let txn = Txn { success: keys.into_iter().map(read).collect(), ..Txn::default() };
    let mut found = store.read_txn(&txn)?.responses.into_iter().map(|response| match response {
        Response::Range(mut result) => result.kvs.pop(),
        _ => None,
    });
    let mut next = || found.next().flatten();
    let (object, hold, epoch) = (next(), next(), next());
    let at = |kv: &Option<KeyValue>| kv.as_ref().map_or(Revision::NONE, |kv| kv.modified);
    let (object_at, hold_at) = (at(&object), at(&hold));
    let stored = |kv: KeyValue| {
        convert::stored(&kv).map_or(Stored::Damaged, |object| Stored::Object(Box::new(object)))
    };
    Ok(Moment {
        object: object.map_or(Stored::Nothing, stored),
        object_at,
        hold: hold.map(|kv| Hold::decode(kv.value)).transpose()?,
        hold_at,
        epoch: epoch.map(|kv| Epoch::decode(kv.value)).transpose()?.unwrap_or(Epoch::NONE),
    })
}

/// Whether a lease is held, for those who act on that alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseMoment {
    /// The epoch at which it is held.
    pub held: Option<u64>,
    /// If it is not: when that ended. None if nobody knows.
    pub ended: Option<Timestamp>,
}

pub fn lease_moment(store: &Store, lease: &LeaseName) -> Result<LeaseMoment, ReadFailure> {
    let moment = read(store, lease)?;
    let held = moment.hold.as_ref().map(|hold| hold.epoch.0);
    // A status that was not rewritten when the hold ended tells of the past.
    let ended = moment.object().and_then(|object| object::status(Some(object)).released);
    Ok(LeaseMoment { held, ended: ended.filter(|_| held.is_none()) })
}

impl Moment {
    /// What a decision made on this moment stands on.
    pub fn guards(&self, lease: &LeaseName) -> Vec<Guard> {
        vec![
            Guard::Revision { key: object_key(lease), revision: self.object_at },
            Guard::Revision { key: lease.hold_key(), revision: self.hold_at },
        ]
    }

    pub fn object(&self) -> Option<&Object> {
        match &self.object {
            Stored::Object(object) => Some(object),
            Stored::Nothing | Stored::Damaged => None,
        }
    }
}

impl Coordinator {
    pub async fn moment(&self, lease: &LeaseName) -> Result<Moment, Refusal> {
        let (store, lease) = (self.writer.reader.store.clone(), lease.clone());
        let read = blocking(move || read(&store, &lease)).await?;
        read.map_err(|failure| self.writer.reader.read_failure(failure))
    }
}
