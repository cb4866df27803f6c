//! What controllers show of themselves. Those of their queues are in `queue/metrics.rs`, of their informers in
//! `informer/metrics.rs`.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::verdict::Label;

type Labels = Vec<(&'static str, String)>;

/// The metrics of all controllers of a process. Clones are handles of the same.
#[derive(Clone)]
pub(crate) struct ControllerMetrics {
    reconciles: Family<Labels, Counter>,
    duration: Family<Labels, Histogram, fn() -> Histogram>,
    writes: Family<Labels, Histogram, fn() -> Histogram>,
    active: Family<Labels, Gauge>,
    parked: Family<Labels, Gauge>,
    shards: Family<Labels, Gauge>,
    repeats: Family<Labels, Counter>,
    oscillations: Family<Labels, Counter>,
    clamped: Family<Labels, Counter>,
    mapping_panics: Family<Labels, Counter>,
    resyncs: Family<Labels, Counter>,
    conditions: Family<Labels, Counter>,
}

impl ControllerMetrics {
    /// Metrics named `controller_...`.
    pub fn new(registry: &mut Registry) -> Self {
        // From 1 ms to 33 s; the timeout bounds what is longer.
        let durations: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        // None, one, and powers of two.
        let writes: fn() -> Histogram = || Histogram::new([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        let metrics = Self {
            reconciles: Family::default(),
            duration: Family::new_with_constructor(durations),
            writes: Family::new_with_constructor(writes),
            active: Family::default(),
            parked: Family::default(),
            shards: Family::default(),
            repeats: Family::default(),
            oscillations: Family::default(),
            clamped: Family::default(),
            mapping_panics: Family::default(),
            resyncs: Family::default(),
            conditions: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("controller");
        let it = metrics.clone();
        registry.register("reconciles", "Runs, by how they ended", it.reconciles);
        registry.register("reconcile_seconds", "How long runs took", it.duration);
        registry.register("writes_per_reconcile", "Writes of each run; none when nothing changes", it.writes);
        registry.register("active_workers", "Runs there are now", it.active);
        registry.register("parked", "Keys whose writes the caches have not seen", it.parked);
        registry.register("shards", "Shards that this process works on", it.shards);
        registry.register("repeats", "Runs that wrote the same as the run before", it.repeats);
        registry.register("oscillations", "Objects that two managers set to and fro", it.oscillations);
        registry.register("clamped", "Runs that asked for a senseless delay", it.clamped);
        registry.register("mapping_panics", "Changes whose predicate or mapping panicked", it.mapping_panics);
        registry.register("resyncs", "Keys that were run though nothing changed", it.resyncs);
        registry.register("condition_failures", "Conditions that could not be written", it.conditions);
        metrics
    }

    pub fn of(&self, controller: &str) -> ControllerCounters {
        let labels: Labels = vec![("controller", controller.to_owned())];
        let result = |label: Label| {
            let labels = [labels.clone(), vec![("result", label.name().to_owned())]].concat();
            self.reconciles.get_or_create_owned(&labels)
        };
        ControllerCounters {
            reconciles: Label::ALL.map(result),
            duration: self.duration.get_or_create_owned(&labels),
            writes: self.writes.get_or_create_owned(&labels),
            active: self.active.get_or_create_owned(&labels),
            parked: self.parked.get_or_create_owned(&labels),
            shards: self.shards.get_or_create_owned(&labels),
            repeats: self.repeats.get_or_create_owned(&labels),
            oscillations: self.oscillations.get_or_create_owned(&labels),
            clamped: self.clamped.get_or_create_owned(&labels),
            mapping_panics: self.mapping_panics.get_or_create_owned(&labels),
            resyncs: self.resyncs.get_or_create_owned(&labels),
            condition_failures: self.conditions.get_or_create_owned(&labels),
        }
    }
}

/// Those of one controller.
#[derive(Clone)]
pub(crate) struct ControllerCounters {
    reconciles: [Counter; Label::ALL.len()],
    pub duration: Histogram,
    pub writes: Histogram,
    pub active: Gauge,
    pub parked: Gauge,
    pub shards: Gauge,
    pub repeats: Counter,
    pub oscillations: Counter,
    pub clamped: Counter,
    pub mapping_panics: Counter,
    pub resyncs: Counter,
    pub condition_failures: Counter,
}

impl ControllerCounters {
    pub fn ended(&self, label: Label) {
        self.reconciles[label as usize].inc();
    }
}
