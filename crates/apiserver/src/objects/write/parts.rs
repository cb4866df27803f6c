//! Both parts of one object in one request: the second is decided on what the first made of it, and one version is stored.

use bytes::Bytes;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::Object;
use setpoint_objects::write::Outcome;

use super::commit::KeyOp;
use super::intent::Intent;
use super::writer::{Prepared, Written};
use crate::objects::error::Refusal;
use crate::objects::key::ObjectName;

impl Written {
    /// What its commit does about it.
    pub(super) fn op(&self) -> Option<KeyOp> {
        match &self.outcome {
            Outcome::Put(_) => Some(KeyOp::Put(self.encoded.clone())),
            Outcome::Gone(_) => Some(KeyOp::Delete),
            Outcome::Unchanged(_) => None,
        }
    }

    pub(super) fn key(&self) -> Bytes {
        let Object { kind, metadata, .. } = self.outcome.object();
        ObjectName { kind, namespace: &metadata.namespace, name: &metadata.name }.key()
    }
}

impl Prepared {
    /// The object as the request has left it so far, and how large; none if it has not come to it. Refused if it wrote this part of it.
    pub(super) fn earlier(&self, key: &Bytes, intent: &Intent) -> Result<Option<(Object, usize)>, Refusal> {
        if !self.decided.changes.iter().any(|it| it.key == *key) {
            return Ok(None);
        }
        let earlier: Vec<_> = self.written.iter().filter(|it| it.key() == *key).collect();
        let goes_on = matches!(intent, Intent::Update(..) | Intent::Apply(..) | Intent::Patch(..))
            && earlier.iter().all(|it| it.part != intent.part() && !matches!(it.outcome, Outcome::Gone(_)));
        match earlier.last() {
            Some(last) if goes_on => Ok(Some((last.outcome.object().clone(), last.encoded.len()))),
            _ => {
                let text =
                    "an object is written twice; make it one write, or one of the status and one of the rest";
                Err(Refusal::new(Reason::Invalid, text))
            }
        }
    }

    /// Adds what a second write made of an object. Both are answered with what is stored.
    pub(super) fn join(&mut self, key: &Bytes, mut written: Written) {
        let earlier = self.written.iter_mut().find(|it| it.key() == *key);
        if let Some(earlier) = earlier {
            match &written.outcome {
                Outcome::Unchanged(_) => {
                    written.outcome = earlier.outcome.clone();
                    written.encoded = earlier.encoded.clone();
                }
                _ => {
                    earlier.outcome = written.outcome.clone();
                    earlier.encoded = written.encoded.clone();
                }
            }
        }
        if let Some(change) = self.decided.changes.iter_mut().find(|it| it.key == *key) {
            change.op = written.op();
        }
        self.written.push(written);
    }
}
