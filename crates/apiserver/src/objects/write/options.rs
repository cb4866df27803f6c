//! What every write may carry besides the object: the manager, an operation id, a fence; and who sent it.

use std::sync::Arc;

use setpoint_access::Principal;
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::unknown::FieldValidation;
use setpoint_store::commit::Operation;
use setpoint_store::{Author, Epoch, Fence, LeaseName};
use setpoint_types::Timestamp;
use sha2::{Digest, Sha256};

use super::policies::Notes;
use crate::access::Caller;
use crate::objects::error::Refusal;
use crate::objects::key;

/// Of an operation id.
const OPERATION_BYTES_MAX: usize = 128;

/// Where new names and uids come from: 128 random bits. A seam, so that a simulation can draw the same again.
pub type Draw = Arc<dyn Fn() -> u128 + Send + Sync>;

/// The options of a request, checked.
#[derive(Clone, Debug)]
pub struct Options {
    pub principal: Principal,
    pub manager: String,
    pub operation: Option<Operation>,
    pub author: Author,
    pub fence: Option<Fence>,
    pub dry_run: bool,
    pub validation: FieldValidation,
    /// Of the whole request.
    pub request_bytes: usize,
    pub notes: Notes,
}

impl Options {
    /// `request` is the whole request as bytes, of which the operation id's fingerprint is made.
    pub fn new(
        options: pb::WriteOptions,
        caller: &Caller,
        request_bytes: usize,
        request: impl FnOnce() -> Vec<u8>,
    ) -> Result<Self, Refusal> {
        let validation = match pb::write_options::FieldValidation::try_from(options.field_validation) {
            Ok(pb::write_options::FieldValidation::Strict) => FieldValidation::Strict,
            Ok(pb::write_options::FieldValidation::Warn) => FieldValidation::Warn,
            Ok(pb::write_options::FieldValidation::Ignore) => FieldValidation::Ignore,
            Err(_) => return Err(unknown("options.field_validation", options.field_validation)),
        };
        let fence = options.fence.map(fence).transpose().map_err(|refusal| refusal.within("options"))?;
        let operation = operation(&options.operation, caller, request)?;
        let author = Author {
            principal: caller.principal.as_str().to_owned(),
            manager: options.manager.clone(),
            operation: options.operation,
            fence: fence.clone(),
            trace: caller.trace.clone(),
            time: Timestamp::default(),
        };
        let (principal, dry_run) = (caller.principal.clone(), options.dry_run);
        let (manager, notes) = (options.manager, Notes::default());
        Ok(Self { principal, manager, operation, author, fence, dry_run, validation, request_bytes, notes })
    }
}

/// A value that a newer client may mean something by, and this server cannot know what.
pub fn unknown(field: &str, value: i32) -> Refusal {
    Refusal::invalid(
        field,
        format!("is {value}, which this server does not know; upgrade it, or leave it out"),
    )
}

pub fn fence(fence: pb::Fence) -> Result<Fence, Refusal> {
    if fence.lease.is_empty() || fence.epoch == 0 {
        return Err(Refusal::invalid("fence", "must name a lease and the epoch it is held at"));
    }
    let namespace = if fence.namespace.is_empty() { "default".to_owned() } else { fence.namespace };
    for (field, name) in [("fence.namespace", &namespace), ("fence.lease", &fence.lease)] {
        if !key::is_name(name) {
            return Err(Refusal::invalid(field, key::NAME_RULE));
        }
    }
    Ok(Fence { lease: LeaseName { namespace, name: fence.lease }, epoch: Epoch(fence.epoch) })
}

/// An id is the client's own: two clients that choose the same one mean different operations.
fn operation(
    id: &str,
    caller: &Caller,
    request: impl FnOnce() -> Vec<u8>,
) -> Result<Option<Operation>, Refusal> {
    if id.is_empty() {
        return Ok(None);
    }
    if id.len() > OPERATION_BYTES_MAX {
        let text = format!("must have at most {OPERATION_BYTES_MAX} bytes");
        return Err(Refusal::invalid("options.operation", text));
    }
    let digest = Sha256::digest(request());
    let fingerprint = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Some(Operation { id: format!("{}\0{id}", caller.principal).into(), fingerprint }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_its_senders_and_its_requests() {
        let of = |principal: &str, request: &str| {
            let principal = Principal::new(principal, []).expect("a name");
            let caller = Caller { principal, ..Caller::default() };
            operation("id", &caller, || request.into()).expect("a short id").expect("an id was given")
        };
        assert_eq!(of("a", "x"), of("a", "x"));
        assert_ne!(of("a", "x").id, of("b", "x").id);
        assert_ne!(of("a", "x").fingerprint, of("a", "y").fingerprint);
        assert!(operation(&"i".repeat(129), &Caller::default(), Vec::new).is_err());
        assert_eq!(operation("", &Caller::default(), Vec::new), Ok(None));
    }

    #[test]
    fn a_fence_names_a_lease_and_an_epoch() {
        let good =
            fence(pb::Fence { namespace: String::new(), lease: "l".into(), epoch: 2 }).expect("a fence");
        assert_eq!((good.lease.namespace.as_str(), good.epoch), ("default", Epoch(2)));
        assert!(fence(pb::Fence { epoch: 1, ..pb::Fence::default() }).is_err());
        assert!(fence(pb::Fence { lease: "l".into(), ..pb::Fence::default() }).is_err());
        assert!(fence(pb::Fence { lease: "NO PE".into(), epoch: 1, ..pb::Fence::default() }).is_err());
    }
}
