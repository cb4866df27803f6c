//! The gRPC service: each method is decode, call, encode.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use setpoint_api::raw::RawWatchResponse;
use setpoint_api::raw::v1 as raw;
use setpoint_api::raw::v1::objects_server::Objects;
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::Subresource;
use tonic::{Request, Response, Status};

use super::error::Refusal;
use super::reader::Reader;
use super::watch::Held;
use super::write::{Caller, Writer};

pub struct ObjectsService {
    pub reader: Reader,
    pub writer: Writer,
}

#[tonic::async_trait]
impl Objects for ObjectsService {
    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<raw::GetResponse>, Status> {
        Ok(Response::new(self.reader.get(request.into_inner()).await?))
    }

    async fn list(&self, request: Request<pb::ListRequest>) -> Result<Response<raw::ListResponse>, Status> {
        Ok(Response::new(self.reader.list(request.into_inner()).await?))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<RawWatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let load = &self.reader.load;
        let mut watches = load.watches_of(request.extensions());
        watches.grow().map_err(|full| Refusal::full(full, "watches", "max-watches"))?;
        let initial_state = request.get_ref().initial_state;
        let seat = match initial_state {
            true => Some(load.to_bulk(request.extensions()).await.map_err(Refusal::from)?),
            false => None,
        };
        let held = Held { seat, watches: Some(watches) };
        let answers = self.reader.watch_holding(request.into_inner(), held).await?;
        Ok(Response::new(Box::pin(answers.map(Ok))))
    }

    async fn history(
        &self,
        request: Request<pb::HistoryRequest>,
    ) -> Result<Response<raw::HistoryResponse>, Status> {
        Ok(Response::new(self.reader.history(request.into_inner()).await?))
    }

    async fn kinds(&self, request: Request<pb::KindsRequest>) -> Result<Response<pb::KindsResponse>, Status> {
        Ok(Response::new(self.reader.kinds(&request.into_inner()).await?))
    }

    async fn create(
        &self,
        request: Request<pb::CreateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.create(request.into_inner(), &caller).await?))
    }

    async fn update(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.update(request.into_inner(), Subresource::Main, &caller).await?))
    }

    async fn update_status(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.update(request.into_inner(), Subresource::Status, &caller).await?))
    }

    async fn apply(
        &self,
        request: Request<pb::ApplyRequest>,
    ) -> Result<Response<raw::ApplyResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.apply(request.into_inner(), &caller).await?))
    }

    async fn patch(
        &self,
        request: Request<pb::PatchRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.patch(request.into_inner(), &caller).await?))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<raw::DeleteResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.delete(request.into_inner(), &caller).await?))
    }

    async fn transact(
        &self,
        request: Request<pb::TransactRequest>,
    ) -> Result<Response<raw::TransactResponse>, Status> {
        let caller = caller(&request);
        Ok(Response::new(self.writer.transact(request.into_inner(), &caller).await?))
    }
}

pub(crate) fn caller<T>(request: &Request<T>) -> Caller {
    let traceparent = request.metadata().get("traceparent").and_then(|header| header.to_str().ok());
    let known = request.extensions().get::<Caller>().cloned().unwrap_or_default();
    known.traced(traceparent)
}
