//! A cluster of three nodes that answer what `setpoint cluster` asks, without any cluster: members, status, leadership, backup,
//! compaction.
//!
//! Not here: whether a real cluster answers so. That is tested with one (`tests/cluster`, suite `cli`).

use std::io;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use prost::Message;
use prost::bytes::{BufMut as _, Bytes, BytesMut};
use setpoint_api::etcdserverpb as pb;
use setpoint_client::{ConnectError, Connector, Endpoint, Wire, WireError};
use tonic::body::Body;
use tonic::{Code, Status};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The newest there is.
const REVISION: i64 = 40;

/// Nodes `n1`, `n2`, `n3` at `http://NAME:7400`. Whatever else is asked for is `n1`.
#[derive(Clone, Default)]
pub struct Ring(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    leader: usize,
    gone: Vec<usize>,
}

impl Ring {
    /// A node does not listen any more.
    pub fn lose(&self, name: &str) {
        self.0.lock().gone.push(place(name));
    }

    fn answer(&self, asked: usize, path: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
        let leader = self.0.lock().leader;
        Ok(match path {
            "/etcdserverpb.Cluster/MemberList" => {
                let members = NODES.iter().map(|name| pb::Member {
                    id: id(place(name)),
                    name: (*name).to_owned(),
                    peer_urls: vec![format!("http://{name}:7401")],
                    client_urls: vec![format!("http://{name}:7400")],
                    is_learner: false,
                });
                pb::MemberListResponse { members: members.collect(), ..Default::default() }.encode_to_vec()
            }
            "/etcdserverpb.Maintenance/Status" => pb::StatusResponse {
                header: Some(pb::ResponseHeader {
                    member_id: id(asked),
                    revision: REVISION,
                    ..Default::default()
                }),
                leader: id(leader),
                raft_term: 7,
                raft_index: 123,
                raft_applied_index: 123,
                db_size: 3 << 20,
                db_size_in_use: 2 << 20,
                version: "3.6.0".to_owned(),
                ..Default::default()
            }
            .encode_to_vec(),
            "/etcdserverpb.Maintenance/MoveLeader" => {
                let request = pb::MoveLeaderRequest::decode(request).expect("a request");
                self.0.lock().leader =
                    NODES.iter().position(|it| id(place(it)) == request.target_id).unwrap_or(0);
                pb::MoveLeaderResponse::default().encode_to_vec()
            }
            "/etcdserverpb.Maintenance/Snapshot" => {
                pb::SnapshotResponse { blob: Bytes::from_static(b"everything"), ..Default::default() }
                    .encode_to_vec()
            }
            "/etcdserverpb.KV/Compact" => {
                let request = pb::CompactionRequest::decode(request).expect("a request");
                if request.revision > REVISION {
                    return Err(Status::out_of_range(
                        "etcdserver: mvcc: required revision is a future revision",
                    ));
                }
                pb::CompactionResponse::default().encode_to_vec()
            }
            other => return Err(Status::new(Code::Unimplemented, other)),
        })
    }

    async fn serve(
        &self,
        asked: usize,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, WireError> {
        if self.0.lock().gone.contains(&asked) {
            return Err(WireError::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        }
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.map_err(WireError::new)?.to_bytes();
        // A message has five bytes before it: whether it is compressed, and how long it is.
        let answer = self.answer(asked, &path, body.get(5..).unwrap_or_default());
        let response = http::Response::builder().header("content-type", "application/grpc");
        let (response, message) = match answer {
            Ok(message) => (response.header("grpc-status", "0"), framed(&message)),
            Err(status) => {
                let code = i32::from(status.code()).to_string();
                (response.header("grpc-status", code).header("grpc-message", status.message()), Bytes::new())
            }
        };
        Ok(response.body(Body::new(Full::new(message))).expect("a response"))
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("a short message"));
    framed.put_slice(message);
    framed.freeze()
}

fn place(name: &str) -> usize {
    NODES.iter().position(|it| *it == name).unwrap_or(0)
}

fn id(place: usize) -> u64 {
    0xa0 + place as u64
}

impl Connector for Ring {
    fn connect(&self, endpoint: &Endpoint) -> Result<Wire, ConnectError> {
        let asked = NODES.iter().position(|name| endpoint.as_str().contains(name)).unwrap_or(0);
        let ring = self.clone();
        Ok(Wire::new(tower::service_fn(move |request| {
            let ring = ring.clone();
            async move { ring.serve(asked, request).await }
        })))
    }
}
