//! Clients of one node: every service over one connection that is made when it is needed, and made again when it broke.

use std::time::Duration;

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::cluster_client::ClusterClient;
use setpoint_api::etcdserverpb::kv_client::KvClient;
use setpoint_api::etcdserverpb::lease_client::LeaseClient;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use setpoint_api::etcdserverpb::watch_client::WatchClient;
use setpoint_api::setpoint::v1::coordination_client::CoordinationClient;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// The longest any request is waited for. Longer than the server's own patience, so that its answer is seen.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct Client {
    pub channel: Channel,
}

impl Client {
    /// For an address of host and port.
    pub fn new(address: &str) -> Self {
        Self::with_timeout(address, PATIENCE)
    }

    /// One that comes from this address of the loopback network, as another host would, and takes little until it is read.
    pub fn from(source: [u8; 4], address: &str) -> Self {
        let endpoint =
            Endpoint::from_shared(format!("http://{address}")).expect("an address is part of a URL");
        let endpoint = endpoint.local_address(Some(source.into()));
        let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
        Self { channel: endpoint.connect_lazy() }
    }

    pub fn with_timeout(address: &str, timeout: Duration) -> Self {
        let endpoint =
            Endpoint::from_shared(format!("http://{address}")).expect("an address is part of a URL");
        let endpoint = endpoint.timeout(timeout).connect_timeout(Duration::from_secs(5));
        Self { channel: endpoint.connect_lazy() }
    }

    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(64 << 20)
    }

    pub fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub fn coordination(&self) -> CoordinationClient<Channel> {
        CoordinationClient::new(self.channel.clone())
    }

    pub fn objects(&self) -> ObjectsClient<Channel> {
        ObjectsClient::new(self.channel.clone())
    }

    pub fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(64 << 20)
    }

    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    /// Puts a key and tells the revision.
    pub async fn put(&self, key: &str, value: &str) -> Result<i64, Status> {
        self.put_with_lease(key, value, 0).await
    }

    pub async fn put_with_lease(&self, key: &str, value: &str, lease: i64) -> Result<i64, Status> {
        let request = pb::PutRequest {
            key: key.to_owned().into(),
            value: value.to_owned().into(),
            lease,
            ..Default::default()
        };
        Ok(revision(self.kv().put(request).await?.into_inner().header))
    }

    pub async fn delete(&self, key: &str) -> Result<i64, Status> {
        let request = pb::DeleteRangeRequest { key: key.to_owned().into(), ..Default::default() };
        Ok(self.kv().delete_range(request).await?.into_inner().deleted)
    }

    /// The value of a key, by a linearizable read.
    pub async fn get(&self, key: &str) -> Result<Option<String>, Status> {
        let answer =
            self.range(pb::RangeRequest { key: key.to_owned().into(), ..Default::default() }).await?;
        Ok(answer.kvs.first().map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
    }

    pub async fn range(&self, request: pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        Ok(self.kv().range(request).await?.into_inner())
    }

    pub async fn status(&self) -> Result<pb::StatusResponse, Status> {
        Ok(self.maintenance().status(pb::StatusRequest {}).await?.into_inner())
    }

    /// The hash of everything up to the revision, and the compacted revision it is computed from.
    pub async fn hash(&self, revision: i64) -> Result<(u32, i64), Status> {
        let answer = self.maintenance().hash_kv(pb::HashKvRequest { revision }).await?.into_inner();
        Ok((answer.hash, answer.compact_revision))
    }

    /// The newest revision, as a linearizable read sees it.
    pub async fn revision(&self) -> Result<i64, Status> {
        let read = pb::RangeRequest { key: "\0".into(), count_only: true, ..Default::default() };
        Ok(revision(self.range(read).await?.header))
    }

    pub async fn members(&self) -> Result<Vec<pb::Member>, Status> {
        let request = pb::MemberListRequest { linearizable: true };
        Ok(self.cluster().member_list(request).await?.into_inner().members)
    }

    pub async fn compact(&self, revision: i64) -> Result<(), Status> {
        self.kv().compact(pb::CompactionRequest { revision, physical: true }).await.map(drop)
    }

    pub async fn grant(&self, ttl: i64) -> Result<i64, Status> {
        let request = pb::LeaseGrantRequest { ttl, ..Default::default() };
        Ok(self.lease().lease_grant(request).await?.into_inner().id)
    }

    /// Renews a lease once; the seconds it has now, or 0 if there is none.
    pub async fn keep_alive(&self, id: i64) -> Result<i64, Status> {
        let requests = tokio_stream::once(pb::LeaseKeepAliveRequest { id });
        let mut answers = self.lease().lease_keep_alive(requests).await?.into_inner();
        let answer = answers.message().await?;
        Ok(answer.map_or(0, |answer| answer.ttl))
    }
}

pub fn revision(header: Option<pb::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}
