//! 100,000 leases of Coordination, each kept alive every ten seconds over one of 100 streams; in etcd as many of its own leases.
//!
//! What is asked is what that costs: processors, and entries of the log. The entries counted are all that the cluster writes
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use setpoint_api::etcdserverpb::lease_client::LeaseClient;
use setpoint_api::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_client::CoordinationClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::insist::insist;
use super::{Interface, LoadError, Sample};
use crate::connection::Connections;
use crate::measure::histogram::Histogram;
use crate::metric::Metric;
use crate::options::Plan;
use crate::system::Cluster;

const STREAMS: usize = 100;
/// Clients that acquire together on one stream's connection, while the leases are made.
const ACQUIRING: usize = 4;
const INTERVAL: Duration = Duration::from_secs(10);
/// Long enough that none is lost while others are still being acquired.
const TTL_SECONDS: u32 = 600;

pub async fn measure(cluster: &Cluster, plan: &Plan, interface: Interface) -> Result<Sample, LoadError> {
    let connections = Connections::new(&cluster.addresses(), STREAMS);
    let per_stream = plan.leases / STREAMS;
    let mut opening = JoinSet::new();
    for stream in 0..STREAMS {
        opening.spawn(Renewals::open(connections.of_client(stream), interface, stream, per_stream));
    }
    let tally = Arc::new(Tally::default());
    let mut streams = JoinSet::new();
    while let Some(opened) = opening.join_next().await {
        let renewals = opened?.map_err(LoadError::prepare("acquire leases"))?;
        streams.spawn(tally.clone().keep(renewals, INTERVAL / per_stream as u32));
    }
    tokio::time::sleep(plan.settle).await;

    tally.timing.store(true, Ordering::Relaxed);
    let (entries, cpu, started) = (cluster.log_entries().await?, cluster.cpu_used()?, Instant::now());
    let before = tally.renewed.load(Ordering::Relaxed);
    // One round: each lease once.
    tokio::time::sleep(INTERVAL).await;
    let (renewed, elapsed) =
        (tally.renewed.load(Ordering::Relaxed) - before, started.elapsed().as_secs_f64());
    let cpu = cluster.cpu_used()?.saturating_sub(cpu);
    let entries = cluster.log_entries().await?.saturating_sub(entries);
    streams.shutdown().await;

    let errors = tally.errors.load(Ordering::Relaxed);
    let first_error = (errors > 0).then(|| "a lease was not renewed, or a stream ended".to_owned());
    let mut sample = Sample { operations: renewed, errors, first_error, ..Sample::default() };
    sample.observe(Metric::ServerCores, cpu.as_secs_f64() / elapsed);
    sample.observe(Metric::LogEntries, entries as f64);
    sample.observe(Metric::Rate, renewed as f64 / elapsed);
    sample.observe(Metric::ServerCpuPerOp, cpu.as_secs_f64() / renewed.max(1) as f64);
    let latency = tally.latency.distribution();
    sample.observe_duration(Metric::LatencyP50, latency.percentile(50.0));
    sample.observe_duration(Metric::LatencyP99, latency.percentile(99.0));
    Ok(sample)
}

/// What all streams record.
struct Tally {
    timing: AtomicBool,
    latency: Histogram,
    renewed: AtomicU64,
    errors: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            timing: AtomicBool::new(false),
            latency: Histogram::new(),
            renewed: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }
}

impl Tally {
    /// Renews one lease after the other, one per tick, for ever.
    async fn keep(self: Arc<Self>, mut renewals: Renewals, tick: Duration) {
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut next = 0;
        loop {
            ticks.tick().await;
            let started = Instant::now();
            match renewals.renew(next).await {
                Ok(()) => drop(self.renewed.fetch_add(1, Ordering::Relaxed)),
                Err(_) => drop(self.errors.fetch_add(1, Ordering::Relaxed)),
            }
            if self.timing.load(Ordering::Relaxed) {
                self.latency.record(started.elapsed());
            }
            next += 1;
        }
    }
}

/// One stream and the leases it renews.
enum Renewals {
    Objects {
        requests: mpsc::Sender<pb::KeepAliveRequest>,
        answers: Box<Streaming<pb::KeepAliveResponse>>,
        leases: Vec<Held>,
    },
    Etcd {
        requests: mpsc::Sender<LeaseKeepAliveRequest>,
        answers: Box<Streaming<LeaseKeepAliveResponse>>,
        leases: Vec<i64>,
    },
}

/// A lease that is held.
#[derive(Clone)]
struct Held {
    lease: String,
    holder: String,
    epoch: u64,
}

impl Held {
    fn request(&self) -> pb::KeepAliveRequest {
        pb::KeepAliveRequest {
            lease: self.lease.clone(),
            holder: self.holder.clone(),
            epoch: self.epoch,
            ..pb::KeepAliveRequest::default()
        }
    }
}

impl Renewals {
    async fn open(
        connection: Channel,
        interface: Interface,
        stream: usize,
        count: usize,
    ) -> Result<Self, Status> {
        let numbers = stream * count..(stream + 1) * count;
        let full = || Status::internal("the queue has room for one");
        match interface {
            Interface::Objects => {
                let leases = together(numbers, |number| acquire_at_last(connection.clone(), number)).await?;
                let (requests, sent) = mpsc::channel(1);
                // A server may send its headers only with the first answer, so the first request goes ahead of them.
                requests.try_send(leases[0].request()).map_err(|_| full())?;
                let mut service = CoordinationClient::new(connection);
                let mut answers = service.keep_alive(ReceiverStream::new(sent)).await?.into_inner();
                answers.message().await?;
                Ok(Self::Objects { requests, answers: Box::new(answers), leases })
            }
            Interface::Etcd => {
                let leases = together(numbers, |_| grant_at_last(connection.clone())).await?;
                let (requests, sent) = mpsc::channel(1);
                requests.try_send(LeaseKeepAliveRequest { id: leases[0] }).map_err(|_| full())?;
                let mut service = LeaseClient::new(connection);
                let mut answers = service.lease_keep_alive(ReceiverStream::new(sent)).await?.into_inner();
                answers.message().await?;
                Ok(Self::Etcd { requests, answers: Box::new(answers), leases })
            }
        }
    }

    async fn renew(&mut self, number: usize) -> Result<(), Status> {
        let ended = || Status::unavailable("the stream of keep-alives ended");
        let kept = match self {
            Self::Objects { requests, answers, leases } => {
                let lease = &leases[number % leases.len()];
                requests.send(lease.request()).await.map_err(|_| ended())?;
                answers.message().await?.ok_or_else(ended)?.held
            }
            Self::Etcd { requests, answers, leases } => {
                let id = leases[number % leases.len()];
                requests.send(LeaseKeepAliveRequest { id }).await.map_err(|_| ended())?;
                answers.message().await?.ok_or_else(ended)?.ttl > 0
            }
        };
        if kept { Ok(()) } else { Err(Status::not_found("a lease was lost")) }
    }
}

/// Makes a lease for each number, a few at a time.
async fn together<T, F>(numbers: std::ops::Range<usize>, make: impl Fn(usize) -> F) -> Result<Vec<T>, Status>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let (mut made, mut under_way) = (Vec::with_capacity(numbers.len()), JoinSet::new());
    let failed = |error: tokio::task::JoinError| Status::internal(error.to_string());
    for number in numbers {
        if under_way.len() == ACQUIRING
            && let Some(done) = under_way.join_next().await
        {
            made.push(done.map_err(failed)??);
        }
        under_way.spawn(make(number));
    }
    while let Some(done) = under_way.join_next().await {
        made.push(done.map_err(failed)??);
    }
    Ok(made)
}

/// Asking again as the holder changes nothing.
async fn acquire_at_last(connection: Channel, number: usize) -> Result<Held, Status> {
    insist(|| acquire(connection.clone(), number)).await
}

async fn acquire(connection: Channel, number: usize) -> Result<Held, Status> {
    let (lease, holder) = (format!("node-{number:06}"), format!("agent-{number:06}"));
    let request = pb::AcquireRequest {
        lease: lease.clone(),
        holder: holder.clone(),
        ttl_seconds: TTL_SECONDS,
        ..pb::AcquireRequest::default()
    };
    let answer = CoordinationClient::new(connection).acquire(request).await?.into_inner();
    if !answer.acquired {
        return Err(Status::failed_precondition("somebody else holds the lease"));
    }
    Ok(Held { lease, holder, epoch: answer.epoch })
}

/// One that was granted without an answer is not renewed, which costs nobody anything.
async fn grant_at_last(connection: Channel) -> Result<i64, Status> {
    insist(|| grant(connection.clone())).await
}

async fn grant(connection: Channel) -> Result<i64, Status> {
    let request = LeaseGrantRequest { ttl: TTL_SECONDS.into(), id: 0 };
    Ok(LeaseClient::new(connection).lease_grant(request).await?.into_inner().id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_lease_is_made_once() {
        let mut made = together(3..20, |number| async move { Ok(number) }).await.expect("nothing fails");
        made.sort_unstable();
        assert_eq!(made, (3..20).collect::<Vec<_>>());
        let failed = together(0..9, |number| async move {
            if number == 5 { Err(Status::internal("no")) } else { Ok(number) }
        });
        assert!(failed.await.is_err());
    }
}
