//! Locks kept by the server, for clients that do not build them from leases and transactions.

use setpoint_api::v3lockpb as pb;
use setpoint_api::v3lockpb::lock_server::Lock;
use setpoint_store::command::Range;
use setpoint_types::KeyRange;
use tonic::{Request, Response, Status};

use super::context::Context;
use super::error::EtcdError;
use super::succession;
use crate::load::Seat;

pub struct LockService(pub Context);

#[tonic::async_trait]
impl Lock for LockService {
    async fn lock(&self, request: Request<pb::LockRequest>) -> Result<Response<pb::LockResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let lease = succession::session(&self.0, request.lease).await?;
        let place = succession::enter(&self.0, &request.name, lease, Default::default()).await?;
        Seat::leave(&extensions);
        succession::own(&self.0, request.name, place.clone()).await?;
        // The lease may have ended while we waited, and the place with it.
        self.0.barrier().await?;
        let held = succession::read(&self.0, Range::latest(KeyRange::Single(place.key.clone())))?;
        if held.kvs.is_empty() {
            return Err(Status::unknown("mutex: session is expired"));
        }
        Ok(Response::new(pb::LockResponse { header: self.0.header(held.revision), key: place.key }))
    }

    async fn unlock(
        &self,
        request: Request<pb::UnlockRequest>,
    ) -> Result<Response<pb::UnlockResponse>, Status> {
        let key = request.into_inner().key;
        if key.is_empty() {
            return Err(EtcdError::EmptyKey.into());
        }
        let revision = succession::leave(&self.0, key).await?;
        Ok(Response::new(pb::UnlockResponse { header: self.0.header(revision) }))
    }
}
