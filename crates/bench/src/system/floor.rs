//! The floor: a server of the etcd API that answers at once without doing anything.
//!
//! What it costs is the cost of the gRPC stack and of the answer's bytes; the distance to it is what a store could
//! still save. It answers reads with ready-made keys of the size the rows ask for, and takes every write.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use setpoint_api::etcdserverpb::kv_server::{Kv, KvServer};
use setpoint_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
    response_op,
};
use setpoint_api::mvccpb::KeyValue;
use tonic::{Request, Response, Status};

use super::NodeSpec;
use crate::workload::{Random, Values, config_map_key, pod_key};

pub fn command(binary: &Path, node: &NodeSpec) -> Command {
    let mut command = Command::new(binary);
    command.arg("floor-server").args(["--listen", &node.client.to_string()]);
    command
}

/// Serves until the process is ended.
pub async fn serve(listen: SocketAddr) -> Result<(), tonic::transport::Error> {
    tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .add_service(KvServer::new(Floor::new()))
        .serve(listen)
        .await
}

struct Floor {
    single: RangeResponse,
    list: Vec<KeyValue>,
}

impl Floor {
    fn new() -> Self {
        let mut random = Random::new(0);
        let (small, large) = (Values::of_length(256), Values::of_length(1_024));
        let list =
            (0..500).map(|number| key_value(config_map_key(0, number), large.draw(&mut random))).collect();
        let kvs = vec![key_value(pod_key(0), small.draw(&mut random))];
        Self { single: RangeResponse { header: header(), kvs, count: 1, ..RangeResponse::default() }, list }
    }
}

fn key_value(key: bytes::Bytes, value: bytes::Bytes) -> KeyValue {
    KeyValue { key, value, create_revision: 2, mod_revision: 1_000_000, version: 10, lease: 0 }
}

fn header() -> Option<ResponseHeader> {
    Some(ResponseHeader { cluster_id: 1 << 60, member_id: 1 << 60, revision: 1_000_000, raft_term: 2 })
}

#[tonic::async_trait]
impl Kv for Floor {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        if request.range_end.is_empty() {
            return Ok(Response::new(self.single.clone()));
        }
        let kvs = self.list.clone();
        let count = kvs.len() as i64;
        Ok(Response::new(RangeResponse { header: header(), kvs, count, ..RangeResponse::default() }))
    }

    type RangeStreamStream = tokio_stream::Empty<Result<RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("the floor does not stream"))
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        Ok(Response::new(PutResponse { header: header(), prev_kv: None }))
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let put = PutResponse { header: header(), prev_kv: None };
        let responses = vec![ResponseOp { response: Some(response_op::Response::ResponsePut(put)) }];
        Ok(Response::new(TxnResponse { header: header(), succeeded: true, responses }))
    }

    async fn delete_range(
        &self,
        _: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        Err(Status::unimplemented("the floor does not delete"))
    }

    async fn compact(&self, _: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        Err(Status::unimplemented("the floor does not compact"))
    }
}
