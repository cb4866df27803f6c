//! The gRPC service: each method is decode, call, encode.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::coordination_server::Coordination;
use tonic::{Request, Response, Status, Streaming};

use super::Coordinator;
use crate::load::Seat;
use crate::objects::Refusal;
use crate::objects::service::caller;

pub struct CoordinationService(pub Coordinator);

#[tonic::async_trait]
impl Coordination for CoordinationService {
    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<pb::AcquireResponse>, Status> {
        let caller = caller(&request);
        if request.get_ref().wait_ms > 0 {
            Seat::leave(request.extensions());
        }
        Ok(Response::new(self.0.acquire(request.into_inner(), &caller).await?))
    }

    type KeepAliveStream = Pin<Box<dyn Stream<Item = Result<pb::KeepAliveResponse, Status>> + Send>>;

    async fn keep_alive(
        &self,
        request: Request<Streaming<pb::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        let coordinator = self.0.clone();
        let Ok(permit) = coordinator.streams.clone().try_acquire_owned() else {
            let text = "this node has more streams of keep-alives than it takes on; try another one";
            return Err(Refusal::new(Reason::TooManyRequests, text).into());
        };
        let in_flight = coordinator.limits.in_flight;
        let keep = move |request: Result<pb::KeepAliveRequest, Status>| {
            let coordinator = coordinator.clone();
            async move { Ok(coordinator.keep_alive(request?).await?) }
        };
        // In the order asked, although the leader is asked about many at once.
        let answers = request.into_inner().map(keep).buffered(in_flight);
        Ok(Response::new(Box::pin(answers.inspect(move |_| {
            let _held_as_long_as_the_stream = &permit;
        }))))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.0.release(request.into_inner(), &caller).await?))
    }

    async fn holders(
        &self,
        request: Request<pb::HoldersRequest>,
    ) -> Result<Response<pb::HoldersResponse>, Status> {
        Ok(Response::new(self.0.holders(request.into_inner()).await?))
    }
}
