//! What a queue shows of itself: counters as things happen, gauges when somebody asks.
//!
//! Gauges are looked up at that moment, so that a queue on which nothing happens any more still shows its age.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::core::{PRIORITIES, Snapshot};

/// What is counted as it happens.
#[derive(Debug)]
pub struct Counters {
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

impl Counters {
    pub fn register(&self, registry: &mut Registry) {
        let counters = [
            ("adds", "Adds that were taken", &self.adds),
            ("adds_joined", "Adds of keys that were to run anyway", &self.joined),
            ("adds_refused", "Adds that were refused for want of room or after shutdown", &self.refused),
            (
                "adds_overflowed",
                "Keys that were dropped for want of room, to come back by a resync",
                &self.overflowed,
            ),
            ("retries", "Runs of keys whose run before had failed", &self.retries),
            ("failures", "Runs that failed", &self.failures),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "duration_seconds",
            "How long keys were ready before they ran",
            self.queue_duration.clone(),
        );
        registry.register("work_duration_seconds", "How long runs took", self.work_duration.clone());
    }
}

/// What is looked up when somebody asks. Nothing, once the queue is gone.
pub struct Gauges<F>(F);

impl<F: Fn() -> Option<Snapshot> + Send + Sync + 'static> Gauges<F> {
    pub fn new(snapshot: F) -> Self {
        Self(snapshot)
    }
}

impl<F> fmt::Debug for Gauges<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

impl<F: Fn() -> Option<Snapshot> + Send + Sync + 'static> Collector for Gauges<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(now) = (self.0)() else { return Ok(()) };
        let help = "Keys that are ready to run";
        let mut depth = encoder.encode_descriptor("depth", help, None, MetricType::Gauge)?;
        for (priority, keys) in PRIORITIES.into_iter().zip(now.ready) {
            depth.encode_family(&[("priority", priority.name())])?.encode_gauge(&(keys as u64))?;
        }
        let gauges = [
            ("delayed", "Keys that wait for their time", now.waiting as f64),
            ("running", "Keys that run", now.running as f64),
            ("tenants", "Tenants of the keys that the queue knows", now.tenants as f64),
            (
                "oldest_age_seconds",
                "How long the oldest ready key has been ready",
                now.oldest_age.as_secs_f64(),
            ),
            (
                "longest_running_seconds",
                "How long the oldest run has taken",
                now.longest_running.as_secs_f64(),
            ),
            (
                "unfinished_work_seconds",
                "How long all runs that have not ended have taken together",
                now.unfinished.as_secs_f64(),
            ),
            (
                "resync_owed",
                "1 if keys were dropped for want of room and are to come back",
                f64::from(u8::from(now.overflowed)),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
