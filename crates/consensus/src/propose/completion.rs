//! What openraft tells about the fate of one entry.

use openraft::raft::responder::Responder;
use tokio::sync::OwnedSemaphorePermit;

use crate::raft::{LogId, TypeConfig};

/// Frees the entry's place in flight when it is committed, and calls back when it is applied or has failed. Dropped
/// without a call if openraft stops.
pub struct Completion<T> {
    in_flight: Option<OwnedSemaphorePermit>,
    done: Box<dyn FnOnce(T) + Send>,
}

impl<T> Completion<T> {
    pub fn new(in_flight: OwnedSemaphorePermit, done: impl FnOnce(T) + Send + 'static) -> Self {
        Self { in_flight: Some(in_flight), done: Box::new(done) }
    }
}

impl<T: Send + 'static> Responder<TypeConfig, T> for Completion<T> {
    fn on_commit(&mut self, _log_id: LogId) {
        self.in_flight = None;
    }

    fn on_complete(self, result: T) {
        (self.done)(result);
    }
}
