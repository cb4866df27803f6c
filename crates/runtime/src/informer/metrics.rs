//! What informers show of themselves, looked up when somebody asks.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::hub::Informers;
use super::stats::Stats;

type CounterOf = fn(&Stats) -> u64;

const COUNTERS: [(&str, &str, CounterOf); 8] = [
    ("events", "Changes taken in, without whole states", |it| it.events),
    ("streams", "Watches opened", |it| it.streams),
    ("stalls", "Watches given up because nothing came from them", |it| it.stalls),
    ("failures", "Watches that failed, or could not be opened", |it| it.failures),
    ("relists_expired", "Whole states because what came next was no longer kept", |it| it.relists_expired),
    ("relists_too_slow", "Whole states because a compaction overtook the one before", |it| {
        it.relists_too_slow
    }),
    ("relists_behind", "Whole states because the cluster was restored", |it| it.relists_behind),
    ("unreadable", "Objects that an index or a transformation could not read", |it| it.unreadable),
];

/// The metrics of all informers of a process, told apart by kind and number.
pub struct InformerMetrics(Informers);

impl InformerMetrics {
    /// Metrics named `informer_...`.
    pub fn show(informers: &Informers, registry: &mut Registry) {
        let metrics = Self(informers.clone());
        registry.sub_registry_with_prefix("informer").register_collector(Box::new(metrics));
    }
}

impl fmt::Debug for InformerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InformerMetrics")
    }
}

impl Collector for InformerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.all().into_iter().enumerate().collect();
        let labels =
            |number: usize, kind: &str| [("kind", kind.to_owned()), ("informer", number.to_string())];
        for (name, help, value) in COUNTERS {
            let mut counters = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (number, shared) in &all {
                let stats = shared.counters.read(shared.store().unreadable());
                let counter = ConstCounter::new(value(&stats));
                counter.encode(counters.encode_family(&labels(*number, &shared.kind))?)?;
            }
        }
        let mut objects =
            encoder.encode_descriptor("objects", "Objects in the cache", None, MetricType::Gauge)?;
        for (number, shared) in &all {
            let gauge = ConstGauge::new(i64::try_from(shared.store().len()).unwrap_or(i64::MAX));
            gauge.encode(objects.encode_family(&labels(*number, &shared.kind))?)?;
        }
        let help = "The revision up to which everything is in the cache";
        let mut revisions = encoder.encode_descriptor("revision", help, None, MetricType::Gauge)?;
        for (number, shared) in &all {
            let revision = shared.position().unwrap_or_default().get();
            let gauge = ConstGauge::new(i64::try_from(revision).unwrap_or(i64::MAX));
            gauge.encode(revisions.encode_family(&labels(*number, &shared.kind))?)?;
        }
        Ok(())
    }
}
