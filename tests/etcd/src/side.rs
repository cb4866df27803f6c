//! One server under comparison: performs steps on it and returns its answers.
//!
//! A side may have several nodes. Each sequence runs on one of them, which must not be visible: the side only makes
//! sure the node has caught up before the sequence starts. Not here: watch streams in detail (`stream`), and what
//! makes two answers equal (`normalise`, `compare`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::cluster_client::ClusterClient;
use setpoint_api::etcdserverpb::kv_client::KvClient;
use setpoint_api::etcdserverpb::lease_client::LeaseClient;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use setpoint_api::etcdserverpb::watch_client::WatchClient;
use tokio::time::{Instant, sleep, timeout};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};

use crate::answer::{Answer, Outcome, Refusal};
use crate::error::HarnessError;
use crate::normalise::Normaliser;
use crate::resolve::{Bearings, LeaseSlots, Resolver};
use crate::step::{LeaseRef, Step, Stray, StreamSlot};
use crate::stream::WatchStream;

/// How long a request may take before the server counts as silent.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often a range is read while leases expire.
const EXPIRY_POLL: Duration = Duration::from_millis(100);
/// The longest a lease of a few seconds may live on.
const EXPIRY_PATIENCE: Duration = Duration::from_secs(90);
/// How often a grant is tried again because its lease ended before it could be revoked.
const BRIEF_TRIES: usize = 5;
/// An id that no member has.
const STRAY_MEMBER: u64 = 0x5e70_0000_0000_0001;

/// What to wait for while a watch step runs; the reference knows it, or has recorded it.
#[derive(Clone, Debug, Default)]
pub struct Wait {
    /// The store's revision.
    pub revision: i64,
    /// Events that must have arrived since the stream was opened, by stream and watch id.
    pub events: BTreeMap<(StreamSlot, i64), usize>,
    /// Likewise for cancellations.
    pub cancels: BTreeMap<(StreamSlot, i64), usize>,
    /// Streams that answer a progress request once they have delivered everything.
    pub barrier: BTreeSet<StreamSlot>,
    /// Some watch may lag on a stream that does not: a watch made for the purpose has to catch up first.
    pub scout: bool,
    /// A cancel or progress request is going to be answered.
    pub answered: bool,
    /// The answer to a progress request would not be comparable: it is not sent.
    pub futile: bool,
}

/// Changes an answer before it is looked at: how the tests plant differences.
pub type Falsifier = Box<dyn FnMut(&Step, &mut Answer) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) kv: KvClient<Channel>,
    pub(crate) watch: WatchClient<Channel>,
    pub(crate) lease: LeaseClient<Channel>,
    pub(crate) cluster: ClusterClient<Channel>,
    pub(crate) maintenance: MaintenanceClient<Channel>,
}

impl Clients {
    async fn connect(endpoint: &str) -> Result<Self, HarnessError> {
        let unreachable = |source| HarnessError::Unreachable { endpoint: endpoint.to_owned(), source };
        let channel = Endpoint::from_shared(endpoint.to_owned())
            .map_err(unreachable)?
            .tcp_nodelay(true)
            .connect()
            .await
            .map_err(unreachable)?;
        // Large lists and watch responses exceed the client library's default of 4 MiB.
        let max = usize::MAX;
        Ok(Self {
            kv: KvClient::new(channel.clone()).max_decoding_message_size(max),
            watch: WatchClient::new(channel.clone()).max_decoding_message_size(max),
            lease: LeaseClient::new(channel.clone()).max_decoding_message_size(max),
            cluster: ClusterClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel),
        })
    }
}

pub struct Side {
    nodes: Vec<Clients>,
    /// The node that the running sequence talks to.
    node: usize,
    require_leader: bool,
    leases: LeaseSlots,
    pub(crate) streams: BTreeMap<StreamSlot, WatchStream>,
    normaliser: Normaliser,
    falsifier: Option<Falsifier>,
}

impl Side {
    pub async fn connect(endpoints: &[String]) -> Result<Self, HarnessError> {
        let mut nodes = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            nodes.push(Clients::connect(endpoint).await?);
        }
        Ok(Self {
            normaliser: Normaliser::new(nodes.len()),
            nodes,
            node: 0,
            require_leader: false,
            leases: LeaseSlots::default(),
            streams: BTreeMap::new(),
            falsifier: None,
        })
    }

    pub fn set_falsifier(&mut self, falsifier: Falsifier) {
        self.falsifier = Some(falsifier);
    }

    /// Starts a sequence: picks the node and whether requests insist on a leader, both by the seed, and waits until
    /// the node has applied everything. Returns the store's revision.
    pub async fn begin(&mut self, seed: u64) -> Result<i64, HarnessError> {
        let nodes = u64::try_from(self.nodes.len()).unwrap_or(1);
        self.node = usize::try_from(seed % nodes).unwrap_or(0);
        self.require_leader = (seed / nodes) % 2 == 1;
        self.leases.forget_all();
        self.streams.clear();
        let request = pb::RangeRequest { key: vec![0].into(), ..Default::default() };
        let response = unary(self.clients().kv.range(request)).await;
        let response = response.map_err(|refusal| HarnessError::NotServing { message: refusal.message })?;
        Ok(response.header.map_or(0, |header| header.revision))
    }

    pub(crate) fn lease_slots(&self) -> &LeaseSlots {
        &self.leases
    }

    pub(crate) fn clients(&self) -> Clients {
        self.nodes[self.node].clone()
    }

    /// Performs the step and returns the comparable form of the answer.
    pub async fn perform(&mut self, step: &Step, bearings: &Bearings, wait: &Wait) -> Value {
        let mut answer = match step {
            _ if step.is_watch() => self.watch_step(step, bearings, wait).await,
            Step::Grant { .. }
            | Step::GrantBriefly { .. }
            | Step::Revoke { .. }
            | Step::TimeToLive { .. }
            | Step::Leases
            | Step::KeepAlive { .. } => self.lease_step(step).await,
            Step::Range(_)
            | Step::Put(_)
            | Step::PutMany { .. }
            | Step::Delete(_)
            | Step::Txn(_)
            | Step::Compact { .. }
            | Step::AwaitGone { .. } => self.kv_step(step, bearings).await,
            _ => self.maintenance_step(step, bearings).await,
        };
        if let Some(falsifier) = &mut self.falsifier {
            falsifier(step, &mut answer);
        }
        self.normaliser.normalise(step, &answer)
    }

    async fn kv_step(&mut self, step: &Step, bearings: &Bearings) -> Answer {
        let mut kv = self.clients().kv;
        let resolver = Resolver { bearings, leases: &self.leases };
        match step {
            Step::Range(range) => Answer::Range(unary(kv.range(self.request(resolver.range(range)))).await),
            Step::Put(put) => Answer::Put(unary(kv.put(self.request(resolver.put(put)))).await),
            Step::Delete(delete) => {
                Answer::Delete(unary(kv.delete_range(self.request(resolver.delete(delete)))).await)
            }
            Step::Txn(txn) => Answer::Txn(unary(kv.txn(self.request(resolver.txn(txn)))).await),
            Step::Compact { revision, physical } => {
                let request =
                    pb::CompactionRequest { revision: bearings.resolve(*revision), physical: *physical };
                Answer::Compact(unary(kv.compact(self.request(request))).await)
            }
            Step::PutMany { key, count } => {
                let mut last = Err(Refusal::silence());
                for number in 0..*count {
                    let value = number.to_string().into_bytes().into();
                    let request = pb::PutRequest { key: key.bytes(), value, ..Default::default() };
                    last = unary(kv.put(self.request(request))).await;
                    if last.is_err() {
                        break;
                    }
                }
                Answer::Put(last)
            }
            Step::AwaitGone { key, end } => {
                let request = pb::RangeRequest {
                    key: key.bytes(),
                    range_end: end.bytes(),
                    count_only: true,
                    ..Default::default()
                };
                Answer::Range(self.await_gone(request).await)
            }
            _ => Answer::Nothing,
        }
    }

    async fn await_gone(&self, request: pb::RangeRequest) -> Outcome<pb::RangeResponse> {
        let mut kv = self.clients().kv;
        let deadline = Instant::now() + EXPIRY_PATIENCE;
        loop {
            let outcome = unary(kv.range(self.request(request.clone()))).await;
            let over = Instant::now() > deadline;
            if over || outcome.as_ref().map_or(true, |response| response.count == 0) {
                return outcome;
            }
            sleep(EXPIRY_POLL).await;
        }
    }

    async fn lease_step(&mut self, step: &Step) -> Answer {
        let mut client = self.clients().lease;
        match step {
            Step::Grant { lease, ttl } => Answer::Grant(self.grant(*lease, *ttl).await),
            Step::GrantBriefly { lease, ttl } => self.grant_briefly(*lease, *ttl).await,
            Step::Revoke { lease } => {
                let request = self.request(pb::LeaseRevokeRequest { id: self.leases.resolve(*lease) });
                Answer::Revoke(unary(client.lease_revoke(request)).await)
            }
            Step::TimeToLive { lease, keys } => {
                let request = pb::LeaseTimeToLiveRequest { id: self.leases.resolve(*lease), keys: *keys };
                Answer::TimeToLive(unary(client.lease_time_to_live(self.request(request))).await)
            }
            Step::Leases => {
                Answer::Leases(unary(client.lease_leases(self.request(pb::LeaseLeasesRequest {}))).await)
            }
            Step::KeepAlive { lease } => {
                let request = pb::LeaseKeepAliveRequest { id: self.leases.resolve(*lease) };
                let once = self.request(tokio_stream::once(request));
                let first = async {
                    let mut responses = client.lease_keep_alive(once).await?.into_inner();
                    let ended = || tonic::Status::unknown("(harness) the stream ended without an answer");
                    responses.message().await?.map(tonic::Response::new).ok_or_else(ended)
                };
                Answer::KeepAlive(unary(first).await)
            }
            _ => Answer::Nothing,
        }
    }

    /// Grants and revokes. On a machine that is busy with others the lease may end in between, which leaves no trace and
    /// says nothing: then again.
    async fn grant_briefly(&mut self, lease: LeaseRef, ttl: i64) -> Answer {
        let mut tries = 0;
        loop {
            tries += 1;
            let started = Instant::now();
            let granted = self.grant(lease, ttl).await;
            let Ok(response) = &granted else { return Answer::GrantBriefly(granted, None) };
            let lifetime = Duration::from_secs(u64::try_from(response.ttl).unwrap_or(0));
            let request = self.request(pb::LeaseRevokeRequest { id: response.id });
            let revoked = unary(self.clients().lease.lease_revoke(request)).await;
            let gone = revoked.as_ref().is_err_and(|refusal| refusal.code == tonic::Code::NotFound);
            if !gone || started.elapsed() < lifetime || tries == BRIEF_TRIES {
                return Answer::GrantBriefly(granted, Some(revoked));
            }
        }
    }

    async fn grant(&mut self, lease: LeaseRef, ttl: i64) -> Outcome<pb::LeaseGrantResponse> {
        let id = if let LeaseRef::Id(id) = lease { id } else { 0 };
        let request = self.request(pb::LeaseGrantRequest { ttl, id });
        let outcome = unary(self.clients().lease.lease_grant(request)).await;
        if let (LeaseRef::Slot(slot), Ok(response)) = (lease, &outcome) {
            self.leases.remember(slot, response.id);
        }
        outcome
    }

    async fn maintenance_step(&mut self, step: &Step, bearings: &Bearings) -> Answer {
        let mut client = self.clients().maintenance;
        match step {
            Step::Status => Answer::Status(unary(client.status(self.request(pb::StatusRequest {}))).await),
            Step::AlarmGet => {
                Answer::Alarm(unary(client.alarm(self.request(pb::AlarmRequest::default()))).await)
            }
            Step::Alarm { action, alarm } => {
                let status = unary(client.status(pb::StatusRequest {})).await;
                let own = status.ok().and_then(|status| status.header).map_or(0, |header| header.member_id);
                let request = pb::AlarmRequest { action: *action, member_id: own, alarm: *alarm };
                Answer::Alarm(unary(client.alarm(self.request(request))).await)
            }
            Step::Hash => Answer::Hash(unary(client.hash(self.request(pb::HashRequest {}))).await),
            Step::HashKv { revision } => {
                let request = pb::HashKvRequest { revision: bearings.resolve(*revision) };
                let first = unary(client.hash_kv(self.request(request))).await;
                let second = unary(client.hash_kv(self.request(request))).await;
                Answer::HashKv(first, second)
            }
            Step::Defragment => {
                Answer::Defragment(unary(client.defragment(self.request(pb::DefragmentRequest {}))).await)
            }
            Step::MemberList { linearizable } => {
                let request = self.request(pb::MemberListRequest { linearizable: *linearizable });
                Answer::MemberList(unary(self.clients().cluster.member_list(request)).await)
            }
            Step::Stray(stray) => Answer::Stray(self.stray(*stray).await),
            _ => Answer::Nothing,
        }
    }

    async fn stray(&self, stray: Stray) -> Outcome<()> {
        let mut cluster = self.clients().cluster;
        let id = STRAY_MEMBER;
        let url = || vec!["http://127.0.0.1:1".to_owned()];
        match stray {
            Stray::MemberRemove => {
                unary(cluster.member_remove(self.request(pb::MemberRemoveRequest { id }))).await.map(drop)
            }
            Stray::MemberUpdate => {
                let request = pb::MemberUpdateRequest { id, peer_urls: url() };
                unary(cluster.member_update(self.request(request))).await.map(drop)
            }
            Stray::MemberPromote => {
                unary(cluster.member_promote(self.request(pb::MemberPromoteRequest { id }))).await.map(drop)
            }
            Stray::MemberAddBadUrl => {
                let request = pb::MemberAddRequest { peer_urls: vec!["no url".to_owned()], is_learner: true };
                unary(cluster.member_add(self.request(request))).await.map(drop)
            }
            Stray::MoveLeader => {
                let mut maintenance = self.leader().await;
                unary(maintenance.move_leader(self.request(pb::MoveLeaderRequest { target_id: id })))
                    .await
                    .map(drop)
            }
        }
    }

    /// The node that leads: only it can be asked to hand over. Any other would say that it does not lead.
    async fn leader(&self) -> MaintenanceClient<Channel> {
        for node in &self.nodes {
            let mut maintenance = node.maintenance.clone();
            let status = unary(maintenance.status(pb::StatusRequest {})).await;
            let leads = |status: &pb::StatusResponse| {
                status.header.as_ref().is_some_and(|header| header.member_id == status.leader)
            };
            if status.as_ref().is_ok_and(leads) {
                return maintenance;
            }
        }
        self.clients().maintenance
    }

    /// A request with the metadata that a client insisting on a leader sends.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if self.require_leader {
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        }
        request
    }
}

/// Awaits a unary call, for as long as the harness has patience.
pub(crate) async fn unary<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Outcome<T> {
    match timeout(PATIENCE, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Refusal::from(status)),
        Err(_) => Err(Refusal::silence()),
    }
}
