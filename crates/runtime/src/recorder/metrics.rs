//! What recorders show of themselves.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// By what is recorded: "event", "decision".
type ByKind<M> = Family<[(&'static str, &'static str); 1], M>;

/// The metrics of all recorders of a process. Clones are handles of the same.
#[derive(Clone, Debug, Default)]
pub struct RecorderMetrics {
    told: ByKind<Counter>,
    dropped: ByKind<Counter>,
    lost: ByKind<Gauge>,
    waited: ByKind<Counter>,
    writes: ByKind<Counter>,
    failures: ByKind<Counter>,
    unwritten: ByKind<Gauge>,
    tallies: ByKind<Gauge>,
    sampled_out: ByKind<Counter>,
}

impl RecorderMetrics {
    /// Metrics named `recorder_...`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("recorder");
        let counters = [
            ("told", "What was told", &metrics.told),
            ("dropped", "What was told and is only counted as more of the same topic", &metrics.dropped),
            ("waited", "Firsts of a reason that had to wait for room", &metrics.waited),
            ("writes", "Writes that were done", &metrics.writes),
            ("write_failures", "Writes that failed and are tried again, or are refused", &metrics.failures),
            ("sampled_out", "Decisions without effect that were not in the sample", &metrics.sampled_out),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let gauges = [
            ("lost", "What was told and is never written: refused, or left over at the end", &metrics.lost),
            ("unwritten", "What was told and is not written yet", &metrics.unwritten),
            ("tallies", "Different records in memory", &metrics.tallies),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        metrics
    }

    pub(super) fn of(&self, kind: &'static str) -> Shown<'_> {
        Shown { metrics: self, label: [("record", kind)] }
    }
}

/// The metrics of one kind of record.
pub(super) struct Shown<'a> {
    metrics: &'a RecorderMetrics,
    label: [(&'static str, &'static str); 1],
}

impl Shown<'_> {
    pub fn told(&self, dropped: bool) {
        self.metrics.told.get_or_create(&self.label).inc();
        if dropped {
            self.metrics.dropped.get_or_create(&self.label).inc();
        }
    }

    pub fn waited(&self) {
        self.metrics.waited.get_or_create(&self.label).inc();
    }

    pub fn sampled_out(&self) {
        self.metrics.sampled_out.get_or_create(&self.label).inc();
    }

    pub fn wrote(&self, done: bool) {
        let counter = if done { &self.metrics.writes } else { &self.metrics.failures };
        counter.get_or_create(&self.label).inc();
    }

    /// How it stands.
    pub fn state(&self, tallies: usize, unwritten: u64, lost: u64) {
        let set = |gauge: &ByKind<Gauge>, value: u64| {
            gauge.get_or_create(&self.label).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.metrics.tallies, tallies as u64);
        set(&self.metrics.unwritten, unwritten);
        set(&self.metrics.lost, lost);
    }
}
