//! Locks kept by the server, for clients that do not build them from leases and transactions.

use setpoint_access::Need;
use setpoint_api::v3lockpb as pb;
use setpoint_api::v3lockpb::lock_server::Lock;
use setpoint_store::command::Range;
use setpoint_types::{KeyRange, LeaseId};
use tonic::{Extensions, Request, Response, Status};

use super::context::{Context, revision};
use super::error::EtcdError;
use super::succession;
use crate::access::Pass;
use crate::load::Seat;

pub struct LockService(pub Context);

#[tonic::async_trait]
impl Lock for LockService {
    async fn lock(&self, request: Request<pb::LockRequest>) -> Result<Response<pb::LockResponse>, Status> {
        self.0.may_attach(&request, |it| [LeaseId(it.lease)]).await?;
        let mut pass = self.0.may_write(&request, |it| vec![Need::put_within(succession::line(&it.name))])?;
        let (_, extensions, request) = request.into_parts();
        let locked = self.take(request, &extensions, &mut pass).await;
        Ok(Response::new(pass.settle(locked, |it| revision(it.header.as_ref())).await?))
    }

    async fn unlock(
        &self,
        request: Request<pb::UnlockRequest>,
    ) -> Result<Response<pb::UnlockResponse>, Status> {
        let needs = |it: &pb::UnlockRequest| vec![Need::delete_keys(KeyRange::Single(it.key.clone()))];
        if request.get_ref().key.is_empty() {
            return Err(EtcdError::EmptyKey.into());
        }
        let pass = self.0.may_write(&request, needs)?;
        let key = request.into_inner().key;
        let left = pass.settle(succession::leave(&self.0, key).await, |revision| Some(*revision)).await?;
        Ok(Response::new(pb::UnlockResponse { header: self.0.header(left) }))
    }
}

impl LockService {
    /// Tells the pass which key was written.
    async fn take(
        &self,
        request: pb::LockRequest,
        extensions: &Extensions,
        pass: &mut Pass,
    ) -> Result<pb::LockResponse, Status> {
        let lease = succession::session(&self.0, request.lease).await?;
        let place = succession::enter(&self.0, &request.name, lease, Default::default()).await?;
        pass.wrote(|| vec![Need::put(place.key.clone())]);
        Seat::leave(extensions);
        succession::own(&self.0, request.name, place.clone()).await?;
        // The lease may have ended while we waited, and the place with it.
        self.0.barrier().await?;
        let held = succession::read(&self.0, Range::latest(KeyRange::Single(place.key.clone())))?;
        if held.kvs.is_empty() {
            return Err(Status::unknown("mutex: session is expired"));
        }
        Ok(pb::LockResponse { header: self.0.header(held.revision), key: place.key })
    }
}
