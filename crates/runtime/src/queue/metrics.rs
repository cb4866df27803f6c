//! What queues show of themselves: counters of what happened, gauges of how it stands when somebody asks.
//!
//! Gauges are looked up at that moment, so that a queue on which nothing happens any more still shows its age. All queues of a
//! process share one set of metrics, told apart by the controller's name, because a name may be described only once.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::core::{PRIORITIES, Snapshot};

/// The metrics of all queues of a process. Clones are handles of the same.
///
/// Does not keep a queue alive: one that is gone is shown no longer.
#[derive(Clone, Default)]
pub struct QueueMetrics(Arc<Mutex<Vec<Shown>>>);

/// One queue.
struct Shown {
    controller: String,
    counters: Counters,
    snapshot: Box<dyn Fn() -> Option<Snapshot> + Send + Sync>,
}

/// What is counted as it happens.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub adds: Counter,
    pub joined: Counter,
    pub refused: Counter,
    pub overflowed: Counter,
    pub retries: Counter,
    pub failures: Counter,
    pub queue_duration: Histogram,
    pub work_duration: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        // From 0.1 ms to 52 s; whoever waits longer shows in the gauges.
        let durations = || Histogram::new(exponential_buckets(0.000_1, 2.0, 20));
        Self {
            adds: Counter::default(),
            joined: Counter::default(),
            refused: Counter::default(),
            overflowed: Counter::default(),
            retries: Counter::default(),
            failures: Counter::default(),
            queue_duration: durations(),
            work_duration: durations(),
        }
    }
}

type CounterOf = fn(&Counters) -> &Counter;
type HistogramOf = fn(&Counters) -> &Histogram;
type GaugeOf = fn(&Snapshot) -> f64;

const COUNTERS: [(&str, &str, CounterOf); 6] = [
    ("adds", "Adds that were taken", |of| &of.adds),
    ("adds_joined", "Adds of keys that were to run anyway", |of| &of.joined),
    ("adds_refused", "Adds that were refused for want of room or after shutdown", |of| &of.refused),
    ("adds_overflowed", "Keys that were dropped for want of room, to come back by a resync", |of| {
        &of.overflowed
    }),
    ("retries", "Runs of keys whose run before had failed", |of| &of.retries),
    ("failures", "Runs that failed", |of| &of.failures),
];

const HISTOGRAMS: [(&str, &str, HistogramOf); 2] = [
    ("duration_seconds", "How long keys were ready before they ran", |of| &of.queue_duration),
    ("work_duration_seconds", "How long runs took", |of| &of.work_duration),
];

const GAUGES: [(&str, &str, GaugeOf); 7] = [
    ("delayed", "Keys that wait for their time", |now| now.waiting as f64),
    ("running", "Keys that run", |now| now.running as f64),
    ("tenants", "Tenants of the keys that the queue knows", |now| now.tenants as f64),
    ("oldest_age_seconds", "How long the oldest ready key has been ready", |now| {
        now.oldest_age.as_secs_f64()
    }),
    ("longest_running_seconds", "How long the oldest run has taken", |now| now.longest_running.as_secs_f64()),
    ("unfinished_work_seconds", "How long all runs that have not ended have taken together", |now| {
        now.unfinished.as_secs_f64()
    }),
    ("resync_owed", "1 if keys were dropped for want of room and are to come back", |now| {
        f64::from(u8::from(now.overflowed))
    }),
];

impl QueueMetrics {
    /// Metrics named `queue_...`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.sub_registry_with_prefix("queue").register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Shows a queue; one of the same name makes way.
    pub(super) fn show(
        &self,
        controller: &str,
        counters: Counters,
        snapshot: impl Fn() -> Option<Snapshot> + Send + Sync + 'static,
    ) {
        let mut all = self.0.lock();
        all.retain(|shown| shown.controller != controller);
        all.push(Shown { controller: controller.to_owned(), counters, snapshot: Box::new(snapshot) });
    }
}

impl fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueMetrics")
    }
}

impl Collector for QueueMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut all = self.0.lock();
        let mut snapshots = Vec::with_capacity(all.len());
        all.retain(|shown| {
            let snapshot = (shown.snapshot)();
            snapshots.extend(snapshot);
            snapshot.is_some()
        });
        let shown = || all.iter().map(|shown| ("controller", shown.controller.as_str())).zip(&snapshots);
        let mut depth =
            encoder.encode_descriptor("depth", "Keys that are ready to run", None, MetricType::Gauge)?;
        for (controller, now) in shown() {
            for (priority, keys) in PRIORITIES.into_iter().zip(now.ready) {
                depth
                    .encode_family(&[controller, ("priority", priority.name())])?
                    .encode_gauge(&(keys as u64))?;
            }
        }
        for (name, help, value) in GAUGES {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (controller, now) in shown() {
                ConstGauge::new(value(now)).encode(gauge.encode_family(&[controller])?)?;
            }
        }
        for (name, help, counter) in COUNTERS {
            let mut counters = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (controller, shown) in shown().map(|(controller, _)| controller).zip(all.iter()) {
                counter(&shown.counters).encode(counters.encode_family(&[controller])?)?;
            }
        }
        for (name, help, histogram) in HISTOGRAMS {
            let mut histograms = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (controller, shown) in shown().map(|(controller, _)| controller).zip(all.iter()) {
                histogram(&shown.counters).encode(histograms.encode_family(&[controller])?)?;
            }
        }
        Ok(())
    }
}
