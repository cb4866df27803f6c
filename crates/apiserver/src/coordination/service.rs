//! The gRPC service: each method is asking whether it may, decode, call, encode, and saying what came of it.
//!
//! Taking, keeping and giving back a lease needs `update` on it, also where taking it makes the object.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use setpoint_access::{Need, Verb};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::coordination_server::Coordination;
use setpoint_types::Revision;
use tonic::{Request, Response, Status, Streaming};

use super::{Coordinator, LEASE};
use crate::access::{Caller, Gate};
use crate::load::Seat;
use crate::objects::Refusal;
use crate::objects::permit::Needs;

pub struct CoordinationService {
    pub coordinator: Coordinator,
    pub gate: Gate,
}

#[tonic::async_trait]
impl Coordination for CoordinationService {
    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<pb::AcquireResponse>, Status> {
        let caller = Caller::of(&request);
        let (_, extensions, request) = request.into_parts();
        let needs = || self.update(&request.namespace, &request.lease);
        let pass = self.gate.enter(&caller, &request.operation, needs)?;
        if request.wait_ms > 0 {
            Seat::leave(&extensions);
        }
        let acquired = self.coordinator.acquire(request, &caller).await;
        let taken = |it: &pb::AcquireResponse| it.acquired.then(|| Revision::new(it.revision));
        Ok(Response::new(pass.settle(acquired, taken).await?))
    }

    type KeepAliveStream = Pin<Box<dyn Stream<Item = Result<pb::KeepAliveResponse, Status>> + Send>>;

    async fn keep_alive(
        &self,
        request: Request<Streaming<pb::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        let (coordinator, standing) = (self.coordinator.clone(), self.gate.standing(&request));
        let in_flight = coordinator.limits.in_flight;
        let keep = move |request: Result<pb::KeepAliveRequest, Status>| {
            let needs = |it: &pb::KeepAliveRequest| updating(&coordinator, &it.namespace, &it.lease);
            let request = request.and_then(|it| {
                standing.check(|| needs(&it))?;
                Ok(it)
            });
            let coordinator = coordinator.clone();
            async move {
                let request = request?;
                let (namespace, lease) = (request.namespace.clone(), request.lease.clone());
                one_of_many(coordinator.keep_alive(request).await, namespace, lease)
            }
        };
        // In the order asked, although the leader is asked about many at once.
        Ok(Response::new(Box::pin(request.into_inner().map(keep).buffered(in_flight))))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let pass = self.gate.enter(&caller, "", || self.update(&request.namespace, &request.lease))?;
        let released = self.coordinator.release(request, &caller).await;
        let given = |it: &pb::ReleaseResponse| it.released.then(|| Revision::new(it.revision));
        Ok(Response::new(pass.settle(released, given).await?))
    }

    async fn holders(
        &self,
        request: Request<pb::HoldersRequest>,
    ) -> Result<Response<pb::HoldersResponse>, Status> {
        let caller = self.gate.caller(&request);
        let request = request.into_inner();
        self.gate.check(&caller, || vec![Need::all(Verb::List, LEASE, &request.namespace)])?;
        Ok(Response::new(self.coordinator.holders(request).await?))
    }
}

/// A request that is wrong by itself must not end the stream that keeps all the others.
fn one_of_many(
    kept: Result<pb::KeepAliveResponse, Refusal>,
    namespace: String,
    lease: String,
) -> Result<pb::KeepAliveResponse, Status> {
    match kept {
        Err(refusal) if refusal.reason() == Reason::Invalid => {
            let error = Some(refusal.into_error());
            Ok(pb::KeepAliveResponse { namespace, lease, error, ..pb::KeepAliveResponse::default() })
        }
        kept => Ok(kept?),
    }
}

impl CoordinationService {
    fn update(&self, namespace: &str, lease: &str) -> Vec<Need> {
        updating(&self.coordinator, namespace, lease)
    }
}

fn updating(coordinator: &Coordinator, namespace: &str, lease: &str) -> Vec<Need> {
    Needs(&coordinator.writer.reader.catalog).lease(Verb::Update, namespace, lease)
}
