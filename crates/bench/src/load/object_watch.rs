//! 1,000 watchers of one kind, each with a stream of its own: first 100 writes a second, then as many as get delivered.
//!
//! The lag of an event is from sending the write to receiving the event; an object carries the time at which it was sent. At
//! saturation writers wait while too many of their writes are still to be delivered: what is measured is how fast the
//! servers deliver, and not how they share a machine between writing and delivering. Every watcher checks that revisions
//! come in order, and in the end that it has seen every write. Events are counted without decoding them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::etcdserverpb::{PutRequest, WatchCreateRequest, WatchRequest};
use setpoint_api::setpoint::v1 as pb;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::clients::OperationError;
use super::object_preload::{fill, options};
use super::{Interface, LoadError, Sample, frames};
use crate::connection::{Connections, kv, objects};
use crate::manifest::{KIND, Manifests, all_keys, key, stamp_of};
use crate::measure::histogram::Histogram;
use crate::metric::Metric;
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::Random;

const WATCHERS: usize = 1_000;
const WRITERS: usize = 50;
const OBJECTS: usize = 1_000;
const MANIFESTS: Manifests = Manifests { stored_bytes: 2_048, group_size: 100 };
const PACE: Duration = Duration::from_millis(10);
/// Writes that may be on their way to the watchers at saturation.
const UNDELIVERED_MAX: u64 = 64;
/// How long after the last write its event may take to reach every watcher.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

pub async fn measure(cluster: &Cluster, plan: &Plan, interface: Interface) -> Result<Sample, LoadError> {
    fill(cluster, interface, MANIFESTS, 0..OBJECTS).await?;
    let arrivals = Arc::new(Arrivals::new(WATCHERS));
    let connections = Connections::new(&cluster.addresses(), WATCHERS);
    let mut watchers = JoinSet::new();
    for watcher in 0..WATCHERS {
        let stream = Stream::open(connections.of_client(watcher), interface).await;
        let stream = stream.map_err(LoadError::prepare("open watches"))?;
        watchers.spawn(arrivals.clone().follow(watcher, stream));
    }
    let writers = Writers::new(cluster, interface, arrivals.clone());

    let mut sample = Sample::default();
    writers.paced(plan.warm_up).await?;
    arrivals.timing.store(true, Ordering::Relaxed);
    let (cpu, started) = (cluster.cpu_used()?, Instant::now());
    writers.paced(plan.window).await?;
    let cores = cluster.cpu_used()?.saturating_sub(cpu).as_secs_f64() / started.elapsed().as_secs_f64();
    arrivals.timing.store(false, Ordering::Relaxed);
    sample.observe(Metric::ServerCores, cores);
    let lag = arrivals.lag.distribution();
    sample.observe_duration(Metric::WatchLagP50, lag.percentile(50.0));
    sample.observe_duration(Metric::WatchLagP99, lag.percentile(99.0));

    let busy = writers.saturate();
    tokio::time::sleep(plan.warm_up).await;
    let (before, cpu, started) = (arrivals.delivered(), cluster.cpu_used()?, Instant::now());
    tokio::time::sleep(plan.window).await;
    let (delivered, elapsed) = (arrivals.delivered() - before, started.elapsed());
    let cpu = cluster.cpu_used()?.saturating_sub(cpu);
    writers.stop(busy).await?;
    let late = arrivals.drain().await;
    watchers.shutdown().await;
    sample.observe(Metric::EventsDelivered, delivered as f64 / elapsed.as_secs_f64());
    sample.observe(Metric::CpuPerEvent, cpu.as_secs_f64() / delivered.max(1) as f64);

    sample.operations = arrivals.delivered();
    sample.errors = late + arrivals.errors.load(Ordering::Relaxed);
    if sample.errors > 0 {
        sample.first_error =
            Some(format!("{late} watchers missed writes, or writes failed, or events came out of order"));
    }
    Ok(sample)
}

/// One watcher's stream.
struct Stream {
    answers: Streaming<Bytes>,
    interface: Interface,
    /// Kept because etcd ends the stream when the client's half closes.
    _requests: Option<mpsc::Sender<WatchRequest>>,
}

impl Stream {
    /// Opens a watch from now on.
    async fn open(connection: Channel, interface: Interface) -> Result<Self, Status> {
        match interface {
            Interface::Objects => {
                let request = pb::WatchRequest { kind: KIND.to_owned(), ..pb::WatchRequest::default() };
                let answers = frames::watch_objects(connection, request).await?;
                Ok(Self { answers, interface, _requests: None })
            }
            Interface::Etcd => {
                let (key, range_end) = all_keys();
                let watch = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
                let (requests, sent) = mpsc::channel(1);
                let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(watch)) };
                requests.try_send(first).map_err(|_| Status::internal("the queue has room for one"))?;
                let mut answers = frames::watch_keys(connection, ReceiverStream::new(sent)).await?;
                // The confirmation.
                answers.message().await?;
                Ok(Self { answers, interface, _requests: Some(requests) })
            }
        }
    }
}

/// What has been written, and what has reached the watchers.
struct Arrivals {
    epoch: Instant,
    timing: AtomicBool,
    lag: Histogram,
    errors: AtomicU64,
    written: AtomicU64,
    watchers: Vec<Watcher>,
}

#[derive(Default)]
struct Watcher {
    /// The last revision it has seen.
    last: AtomicU64,
    seen: AtomicU64,
}

impl Arrivals {
    fn new(watchers: usize) -> Self {
        Self {
            epoch: Instant::now(),
            timing: AtomicBool::new(false),
            lag: Histogram::new(),
            errors: AtomicU64::new(0),
            written: AtomicU64::new(0),
            watchers: (0..watchers).map(|_| Watcher::default()).collect(),
        }
    }

    async fn follow(self: Arc<Self>, watcher: usize, mut stream: Stream) {
        while let Ok(Some(frame)) = stream.answers.message().await {
            match stream.interface {
                Interface::Objects => self.arrived(watcher, frames::object_events(&frame)),
                Interface::Etcd => self.arrived(watcher, frames::key_events(&frame)),
            }
        }
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    fn arrived<'f>(&self, watcher: usize, changes: impl Iterator<Item = frames::Change<'f>>) {
        let (now, timing) = (self.epoch.elapsed(), self.timing.load(Ordering::Relaxed));
        let Watcher { last, seen } = &self.watchers[watcher];
        // Only this task writes these, so each needs no more than to be one step.
        let (mut newest, mut count) = (last.load(Ordering::Relaxed), 0);
        for change in changes.filter(|change| !change.bookmark) {
            if change.error || change.revision <= newest {
                self.errors.fetch_add(1, Ordering::Relaxed);
            }
            newest = change.revision;
            count += 1;
            if timing && let Some(sent) = stamp_of(change.content) {
                self.lag.record(now.saturating_sub(sent));
            }
        }
        last.store(newest, Ordering::Relaxed);
        seen.fetch_add(count, Ordering::Relaxed);
    }

    fn delivered(&self) -> u64 {
        self.watchers.iter().map(|watcher| watcher.seen.load(Ordering::Relaxed)).sum()
    }

    /// How many writes are still on their way, on average over the watchers.
    fn undelivered(&self) -> u64 {
        let delivered = self.delivered() / self.watchers.len() as u64;
        self.written.load(Ordering::Relaxed).saturating_sub(delivered)
    }

    /// Waits until every watcher has seen every write; returns how many have not in the end.
    async fn drain(&self) -> u64 {
        let started = Instant::now();
        loop {
            let written = self.written.load(Ordering::Relaxed);
            let late = |watcher: &&Watcher| watcher.seen.load(Ordering::Relaxed) < written;
            let late = self.watchers.iter().filter(late).count() as u64;
            if late == 0 || started.elapsed() > DRAIN_LIMIT {
                return late;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

struct Writers {
    connections: Connections,
    interface: Interface,
    arrivals: Arc<Arrivals>,
    stopping: Arc<AtomicBool>,
}

impl Writers {
    fn new(cluster: &Cluster, interface: Interface, arrivals: Arc<Arrivals>) -> Self {
        let connections = Connections::new(&cluster.addresses(), WRITERS);
        Self { connections, interface, arrivals, stopping: Arc::default() }
    }

    fn write(&self, writer: usize) -> Write {
        Write {
            connection: self.connections.of_client(writer % WRITERS),
            interface: self.interface,
            random: Random::for_client(writer),
            arrivals: self.arrivals.clone(),
        }
    }

    /// One write after the other, whether or not the one before is answered.
    async fn paced(&self, length: Duration) -> Result<(), LoadError> {
        let mut ticks = tokio::time::interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut writes = JoinSet::new();
        for number in 0..(length.as_secs_f64() / PACE.as_secs_f64()) as usize {
            ticks.tick().await;
            let mut write = self.write(number);
            writes.spawn(async move { write.once().await });
        }
        while let Some(done) = writes.join_next().await {
            done?;
        }
        Ok(())
    }

    /// Writes as fast as the watchers see it, until stopped.
    fn saturate(&self) -> JoinSet<()> {
        let mut busy = JoinSet::new();
        for writer in 0..WRITERS {
            let (mut write, stopping) = (self.write(writer), self.stopping.clone());
            let arrivals = self.arrivals.clone();
            busy.spawn(async move {
                while !stopping.load(Ordering::Relaxed) {
                    if arrivals.undelivered() > UNDELIVERED_MAX {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    } else {
                        write.once().await;
                    }
                }
            });
        }
        busy
    }

    async fn stop(&self, mut busy: JoinSet<()>) -> Result<(), LoadError> {
        self.stopping.store(true, Ordering::Relaxed);
        while let Some(done) = busy.join_next().await {
            done?;
        }
        Ok(())
    }
}

struct Write {
    connection: Channel,
    interface: Interface,
    random: Random,
    arrivals: Arc<Arrivals>,
}

impl Write {
    async fn once(&mut self) {
        let counter = match self.send().await {
            Ok(()) => &self.arrivals.written,
            Err(_) => &self.arrivals.errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    async fn send(&mut self) -> Result<(), OperationError> {
        let (number, version) = (self.random.below(OBJECTS), self.random.next());
        let sent = self.arrivals.epoch.elapsed();
        match self.interface {
            Interface::Objects => {
                let object = Some(MANIFESTS.workload(number, version, sent));
                let request = pb::UpdateRequest { object, options: Some(options()) };
                objects(self.connection.clone()).update(request).await?;
            }
            Interface::Etcd => {
                let (key, value) =
                    (key(number, MANIFESTS.group_size), MANIFESTS.value(number, version, sent));
                let request = PutRequest { key, value, ..PutRequest::default() };
                kv(self.connection.clone()).put(request).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: u64) -> frames::Change<'static> {
        frames::Change { revision, content: b"~0000000000000001", ..frames::Change::default() }
    }

    #[test]
    fn revisions_that_do_not_grow_are_errors() {
        let arrivals = Arrivals::new(1);
        arrivals.arrived(0, [change(4), change(6)].into_iter());
        assert_eq!(arrivals.errors.load(Ordering::Relaxed), 0);
        arrivals.arrived(0, [change(6)].into_iter());
        assert_eq!((arrivals.errors.load(Ordering::Relaxed), arrivals.delivered()), (1, 3));
    }

    #[test]
    fn bookmarks_are_no_events() {
        let arrivals = Arrivals::new(1);
        arrivals.arrived(0, [frames::Change { bookmark: true, ..change(9) }].into_iter());
        assert_eq!(arrivals.delivered(), 0);
    }

    #[test]
    fn lags_are_recorded_while_asked_for() {
        let arrivals = Arrivals::new(2);
        arrivals.arrived(0, [change(1)].into_iter());
        arrivals.timing.store(true, Ordering::Relaxed);
        arrivals.arrived(1, [change(1)].into_iter());
        assert_eq!(arrivals.lag.distribution().count(), 1);
    }

    #[test]
    fn what_is_on_its_way_is_an_average_over_the_watchers() {
        let arrivals = Arrivals::new(2);
        arrivals.written.store(10, Ordering::Relaxed);
        arrivals.arrived(0, (1..=6).map(change));
        arrivals.arrived(1, (1..=2).map(change));
        assert_eq!(arrivals.undelivered(), 6);
    }
}
