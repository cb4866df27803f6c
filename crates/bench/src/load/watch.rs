//! Watch fan-out: 50 writers put under one prefix, 100 watchers, each with a stream of its own, see every put.
//!
//! A value carries the time at which its put was sent, so the lag of an event is from sending the put to receiving
//! the event. Every put makes one revision, which is how lost, repeated or reordered events are noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_api::etcdserverpb::{PutRequest, WatchCreateRequest, WatchResponse};
use tokio::task::JoinSet;

use super::clients::{Clients, Operation, OperationError, Window};
use super::preload::revision;
use super::watch_stream::WatchStream;
use super::{LoadError, Sample};
use crate::connection::{Connections, Lanes, connection, kv};
use crate::measure::histogram::Histogram;
use crate::metric::Metric;
use crate::options::Plan;
use crate::system::Cluster;
use crate::workload::{Random, Values, all_pods, pod_keys};

const WATCHERS: usize = 100;
const WRITERS: usize = 50;
const KEYS: usize = 10_000;
const VALUE_BYTES: usize = 256;
/// How long after the last put its event may take to reach every watcher.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

pub async fn measure(cluster: &Cluster, plan: &Plan) -> Result<Sample, LoadError> {
    let epoch = Instant::now();
    let streams = open_streams(cluster).await?;
    let clients = Clients::start(writers(cluster, epoch));
    let arrivals = Arc::new(Arrivals {
        epoch,
        window: clients.window(),
        lag: Histogram::new(),
        errors: AtomicU64::new(0),
        last: streams.iter().map(|stream| AtomicI64::new(stream.created_at)).collect(),
    });
    let mut watchers = JoinSet::new();
    for (watcher, stream) in streams.into_iter().enumerate() {
        watchers.spawn(arrivals.clone().follow(watcher, stream));
    }
    tokio::time::sleep(plan.warm_up).await;
    let outcome = clients.measure(cluster, plan.window).await?;
    clients.stop().await;
    let mut service = kv(connection(cluster.addresses()[0]));
    let last = revision(&mut service).await.map_err(LoadError::prepare("read the revision"))?;
    let late = arrivals.drain(last).await;
    watchers.shutdown().await;

    let lag = arrivals.lag.distribution();
    let delivered = lag.count();
    let mut sample = outcome.sample();
    sample.operations += delivered;
    sample.errors += late + arrivals.errors.load(Ordering::Relaxed);
    if sample.errors > 0 && sample.first_error.is_none() {
        sample.first_error =
            Some(format!("{late} watchers missed the last event, or events were lost or reordered"));
    }
    sample.observe(Metric::EventsDelivered, delivered as f64 / outcome.elapsed.as_secs_f64());
    sample.observe_duration(Metric::WatchLagP50, lag.percentile(50.0));
    sample.observe_duration(Metric::WatchLagP99, lag.percentile(99.0));
    Ok(sample)
}

async fn open_streams(cluster: &Cluster) -> Result<Vec<WatchStream>, LoadError> {
    let connections = Connections::new(&cluster.addresses(), WATCHERS);
    let mut streams = Vec::with_capacity(WATCHERS);
    for watcher in 0..WATCHERS {
        let (key, range_end) = all_pods();
        let watch = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
        let opened = WatchStream::open(connections.of_client(watcher), vec![watch]).await;
        streams.push(opened.map_err(LoadError::prepare("open watches"))?);
    }
    Ok(streams)
}

fn writers(cluster: &Cluster, epoch: Instant) -> Vec<StampedPut> {
    let connections = Connections::new(&cluster.addresses(), WRITERS);
    let (keys, values) = (Arc::new(pod_keys(KEYS)), Arc::new(Values::of_length(VALUE_BYTES)));
    let writer = |writer| StampedPut {
        epoch,
        lanes: connections.lanes(writer),
        random: Random::for_client(writer),
        keys: keys.clone(),
        values: values.clone(),
    };
    (0..WRITERS).map(writer).collect()
}

struct StampedPut {
    epoch: Instant,
    lanes: Lanes,
    random: Random,
    keys: Arc<Vec<Bytes>>,
    values: Arc<Values>,
}

impl Operation for StampedPut {
    async fn call(&mut self) -> Result<(), OperationError> {
        let key = self.keys[self.random.below(self.keys.len())].clone();
        let value = stamped(&self.values.draw(&mut self.random), self.epoch.elapsed());
        self.lanes.next().put(PutRequest { key, value, ..PutRequest::default() }).await?;
        Ok(())
    }
}

/// What has reached the watchers.
struct Arrivals {
    epoch: Instant,
    window: Arc<Window>,
    lag: Histogram,
    errors: AtomicU64,
    /// The last revision each watcher has seen.
    last: Vec<AtomicI64>,
}

impl Arrivals {
    async fn follow(self: Arc<Self>, watcher: usize, mut stream: WatchStream) {
        while let Ok(answer) = stream.next().await {
            self.arrived(watcher, &answer);
        }
    }

    fn arrived(&self, watcher: usize, answer: &WatchResponse) {
        let now = self.epoch.elapsed();
        let measured = self.window.is_open();
        let last = &self.last[watcher];
        for event in &answer.events {
            let Some(kv) = &event.kv else { continue };
            // Only this task writes this entry, so the swap needs no more than to be one step.
            let before = last.swap(kv.mod_revision, Ordering::Relaxed);
            let sent = stamp_of(&kv.value);
            if kv.mod_revision != before + 1 || sent.is_none() {
                self.errors.fetch_add(1, Ordering::Relaxed);
            }
            if let (true, Some(sent)) = (measured, sent) {
                self.lag.record(now.saturating_sub(sent));
            }
        }
    }

    /// Waits until every watcher has seen `revision`; returns how many have not in the end.
    async fn drain(&self, revision: i64) -> u64 {
        let started = Instant::now();
        loop {
            let late = self.last.iter().filter(|last| last.load(Ordering::Relaxed) < revision).count() as u64;
            if late == 0 || started.elapsed() > DRAIN_LIMIT {
                return late;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Sixteen hexadecimal digits before the closing quote and brace.
const STAMP_DIGITS: usize = 16;
const STAMP_FROM_END: usize = STAMP_DIGITS + 2;

/// The object with the time of sending written over its last digits.
fn stamped(object: &[u8], sent: Duration) -> Bytes {
    let mut value = object.to_vec();
    let start = value.len() - STAMP_FROM_END;
    let nanos = sent.as_nanos() as u64;
    for (position, digit) in value[start..start + STAMP_DIGITS].iter_mut().enumerate() {
        let shift = 4 * (STAMP_DIGITS - 1 - position);
        *digit = b"0123456789abcdef"[((nanos >> shift) & 15) as usize];
    }
    Bytes::from(value)
}

/// When the put of this value was sent; `None` if it carries no stamp.
fn stamp_of(value: &[u8]) -> Option<Duration> {
    let start = value.len().checked_sub(STAMP_FROM_END)?;
    let mut nanos = 0;
    for digit in &value[start..start + STAMP_DIGITS] {
        nanos = nanos << 4 | u64::from(char::from(*digit).to_digit(16)?);
    }
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use setpoint_api::mvccpb::{Event, KeyValue};

    use super::*;

    fn object() -> Vec<u8> {
        let mut object = Vec::new();
        crate::workload::write_object(&mut Random::new(1), VALUE_BYTES, &mut object);
        object
    }

    #[test]
    fn a_stamp_is_read_back() {
        let sent = Duration::from_nanos(1_234_567_890_123);
        let value = stamped(&object(), sent);
        assert_eq!((value.len(), stamp_of(&value)), (VALUE_BYTES, Some(sent)));
        assert!(value.ends_with(b"\"}"));
    }

    #[test]
    fn a_foreign_value_has_no_stamp() {
        assert_eq!(stamp_of(b"short"), None);
        assert_eq!(stamp_of(b"something longer than a stamp is"), None);
    }

    #[test]
    fn a_skipped_revision_is_an_error() {
        let arrivals = Arrivals {
            epoch: Instant::now(),
            window: Arc::default(),
            lag: Histogram::new(),
            errors: AtomicU64::new(0),
            last: vec![AtomicI64::new(4)],
        };
        for (mod_revision, errors) in [(5, 0), (6, 0), (8, 1), (8, 2)] {
            let kv =
                KeyValue { mod_revision, value: stamped(&object(), Duration::ZERO), ..KeyValue::default() };
            let events = vec![Event { kv: Some(kv), ..Event::default() }];
            arrivals.arrived(0, &WatchResponse { events, ..WatchResponse::default() });
            assert_eq!(arrivals.errors.load(Ordering::Relaxed), errors, "at revision {mod_revision}");
        }
    }
}
