//! The gRPC service: each method is decode, call, encode.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use setpoint_api::raw::RawWatchResponse;
use setpoint_api::raw::v1 as raw;
use setpoint_api::raw::v1::objects_server::Objects;
use setpoint_api::setpoint::v1 as pb;
use tonic::{Request, Response, Status};

use super::reader::Reader;

pub struct ObjectsService {
    pub reader: Reader,
}

/// What is answered to writes until they are served.
fn not_yet() -> Status {
    Status::unimplemented("this server reads and watches objects but does not write them yet")
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
        let answers = self.reader.watch(request.into_inner()).await?;
        Ok(Response::new(Box::pin(answers.map(Ok))))
    }

    async fn history(
        &self,
        request: Request<pb::HistoryRequest>,
    ) -> Result<Response<raw::HistoryResponse>, Status> {
        Ok(Response::new(self.reader.history(request.into_inner()).await?))
    }

    async fn kinds(&self, request: Request<pb::KindsRequest>) -> Result<Response<pb::KindsResponse>, Status> {
        Ok(Response::new(self.reader.kinds(&request.into_inner())?))
    }

    async fn create(&self, _: Request<pb::CreateRequest>) -> Result<Response<raw::WriteResponse>, Status> {
        Err(not_yet())
    }

    async fn update(&self, _: Request<pb::UpdateRequest>) -> Result<Response<raw::WriteResponse>, Status> {
        Err(not_yet())
    }

    async fn update_status(
        &self,
        _: Request<pb::UpdateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        Err(not_yet())
    }

    async fn apply(&self, _: Request<pb::ApplyRequest>) -> Result<Response<raw::ApplyResponse>, Status> {
        Err(not_yet())
    }

    async fn patch(&self, _: Request<pb::PatchRequest>) -> Result<Response<raw::WriteResponse>, Status> {
        Err(not_yet())
    }

    async fn delete(&self, _: Request<pb::DeleteRequest>) -> Result<Response<raw::DeleteResponse>, Status> {
        Err(not_yet())
    }

    async fn transact(
        &self,
        _: Request<pb::TransactRequest>,
    ) -> Result<Response<raw::TransactResponse>, Status> {
        Err(not_yet())
    }
}
