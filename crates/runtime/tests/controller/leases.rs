//! The store's leases: taken, kept, given back, run out; and fences that hold while they are held.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_server::Coordination;
use setpoint_types::Epoch;
use setpoint_types::kinds::LeaseStatus;
use tokio::time::{Instant, timeout_at};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::server::Store;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone, Debug, Default)]
pub struct Lease {
    pub holder: String,
    pub epoch: u64,
    ttl: Duration,
    expires: Option<Instant>,
}

pub type Leases = BTreeMap<String, Lease>;

impl Store {
    /// Leases that are not kept run out.
    pub fn with_leases() -> Self {
        let store = Self::default();
        let reaping = store.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let now = Instant::now();
                let over = |lease: &Lease| lease.expires.is_some_and(|at| at <= now);
                for name in reaping.leases(|leases| named_if(leases, over)) {
                    reaping.evict(&name);
                }
            }
        });
        store
    }

    /// Ends a hold: its holder was silent for too long, as the server sees it.
    pub fn evict(&self, name: &str) {
        let lease = self.leases(|leases| {
            let lease = leases.entry(name.to_owned()).or_default();
            (lease.holder, lease.expires) = (String::new(), None);
            lease.clone()
        });
        self.show(name, &lease);
    }

    /// Somebody else has it for a few seconds, and nobody is told.
    pub fn usurp(&self, name: &str) {
        self.leases(|leases| {
            let lease = leases.entry(name.to_owned()).or_default();
            (lease.holder, lease.epoch) = ("usurper".to_owned(), lease.epoch + 1);
            lease.expires = Some(Instant::now() + Duration::from_secs(5));
        });
    }

    /// The leases of shards that somebody holds.
    pub fn held_shards(&self) -> Vec<String> {
        let held = |lease: &Lease| !lease.holder.is_empty();
        self.leases(|leases| named_if(leases, held)).into_iter().filter(|it| it.contains("shard")).collect()
    }

    pub fn is_held_at(&self, fence: &pb::Fence) -> bool {
        let held = |lease: &Lease| lease.epoch == fence.epoch && !lease.holder.is_empty();
        self.leases(|leases| leases.get(&fence.lease).is_some_and(held))
    }

    fn show(&self, name: &str, lease: &Lease) {
        let status = LeaseStatus {
            holder: lease.holder.clone(),
            epoch: Epoch(lease.epoch),
            ttl_seconds: lease.ttl.as_secs() as u32,
            ..LeaseStatus::default()
        };
        self.put_status("Lease", "default", name, &serde_json::to_value(&status).expect("JSON"));
    }

    fn take(&self, request: &pb::AcquireRequest) -> pb::AcquireResponse {
        let (lease, fresh) = self.leases(|leases| {
            let lease = leases.entry(request.lease.clone()).or_default();
            let fresh = lease.holder.is_empty();
            if fresh {
                lease.holder.clone_from(&request.holder);
                lease.epoch += 1;
            }
            if lease.holder == request.holder {
                lease.ttl = Duration::from_secs(request.ttl_seconds.into());
                lease.expires = Some(Instant::now() + lease.ttl);
            }
            (lease.clone(), fresh)
        });
        if fresh {
            self.show(&request.lease, &lease);
        }
        pb::AcquireResponse {
            acquired: lease.holder == request.holder,
            epoch: lease.epoch,
            holder: lease.holder,
            ttl_seconds: request.ttl_seconds,
            revision: self.revision(),
        }
    }
}

fn named_if(leases: &Leases, is_meant: impl Fn(&Lease) -> bool) -> Vec<String> {
    leases.iter().filter(|(_, lease)| is_meant(lease)).map(|(name, _)| name.clone()).collect()
}

#[tonic::async_trait]
impl Coordination for Store {
    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<pb::AcquireResponse>, Status> {
        let request = request.into_inner();
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms.into());
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            let answer = self.take(&request);
            if answer.acquired || timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(Response::new(answer));
            }
        }
    }

    type KeepAliveStream = Answers<pb::KeepAliveResponse>;

    async fn keep_alive(
        &self,
        request: Request<Streaming<pb::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        let store = self.clone();
        let keep = move |asked: pb::KeepAliveRequest| {
            store.leases(|leases| {
                let lease = leases.entry(asked.lease.clone()).or_default();
                let held = lease.holder == asked.holder && lease.epoch == asked.epoch;
                if held {
                    lease.expires = Some(Instant::now() + lease.ttl);
                }
                pb::KeepAliveResponse {
                    namespace: asked.namespace,
                    lease: asked.lease,
                    held,
                    epoch: lease.epoch,
                    ttl_seconds: lease.ttl.as_secs() as u32,
                    error: None,
                }
            })
        };
        Ok(Response::new(Box::pin(request.into_inner().map(move |asked| asked.map(&keep)))))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let request = request.into_inner();
        let is_held = |lease: &Lease| lease.holder == request.holder && lease.epoch == request.epoch;
        let released = self.leases(|leases| leases.get(&request.lease).is_some_and(is_held));
        if released {
            self.evict(&request.lease);
        }
        Ok(Response::new(pb::ReleaseResponse { released, revision: self.revision() }))
    }

    async fn holders(&self, _: Request<pb::HoldersRequest>) -> Result<Response<pb::HoldersResponse>, Status> {
        Err(Status::unimplemented("not in this store"))
    }
}
