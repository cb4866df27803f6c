//! Lease keep-alives: 10,000 leases, a hundred on each of 100 streams, each stream renewing one after the other.

use setpoint_api::etcdserverpb::lease_client::LeaseClient;
use setpoint_api::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::clients::{Operation, OperationError, closed_loop};
use super::{LoadError, Sample};
use crate::connection::Connections;
use crate::options::Plan;
use crate::system::Cluster;

const STREAMS: usize = 100;
const LEASES_PER_STREAM: usize = 100;
/// Long enough that none expires while others are still being granted.
const TTL_SECONDS: i64 = 3_600;

pub async fn measure(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let connections = Connections::new(&cluster.addresses(), STREAMS);
    let mut opening = JoinSet::new();
    for stream in 0..STREAMS {
        opening.spawn(Renewal::open(connections.of_client(stream)));
    }
    let mut renewals = Vec::with_capacity(STREAMS);
    while let Some(opened) = opening.join_next().await {
        renewals.push(opened?.map_err(LoadError::prepare("grant leases"))?);
    }
    closed_loop(cluster, plan, renewals).await
}

/// One stream and the leases it renews.
struct Renewal {
    requests: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
    leases: Vec<i64>,
    next: usize,
}

impl Renewal {
    async fn open(connection: Channel) -> Result<Self, Status> {
        let mut service = LeaseClient::new(connection);
        let mut leases = Vec::with_capacity(LEASES_PER_STREAM);
        for _ in 0..LEASES_PER_STREAM {
            let grant = service.lease_grant(LeaseGrantRequest { ttl: TTL_SECONDS, id: 0 }).await?;
            leases.push(grant.into_inner().id);
        }
        let (requests, sent) = mpsc::channel(1);
        // A server may send its headers only with the first answer, so the first request goes ahead of them.
        let first = LeaseKeepAliveRequest { id: leases[0] };
        requests.send(first).await.map_err(|_| Status::internal("the stream closed at once"))?;
        let mut answers = service.lease_keep_alive(ReceiverStream::new(sent)).await?.into_inner();
        answers.message().await?;
        Ok(Self { requests, answers, leases, next: 0 })
    }
}

impl Operation for Renewal {
    async fn call(&mut self) -> Result<(), OperationError> {
        let id = self.leases[self.next];
        self.next = (self.next + 1) % self.leases.len();
        let closed = OperationError::Wrong("the keep-alive stream ended");
        if self.requests.send(LeaseKeepAliveRequest { id }).await.is_err() {
            return Err(closed);
        }
        let Some(answer) = self.answers.message().await? else { return Err(closed) };
        if answer.id != id || answer.ttl <= 0 {
            return Err(OperationError::Wrong("a lease was not renewed"));
        }
        Ok(())
    }
}
