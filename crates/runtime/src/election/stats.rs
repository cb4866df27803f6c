//! What an election shows of itself: counters of what happened, gauges of how it stands when somebody asks.
//!
//! All elections of a process share one set of metrics, told apart by the controller's name, because a name may be described
//! only once. Ages are computed when they are asked for, so that they grow also when nothing happens any more.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use setpoint_types::Epoch;
use tokio::time::Instant;

use super::shard::ShardId;

/// How one election fares.
pub(super) struct Stats {
    controller: String,
    now: Mutex<Now>,
    gained: Counter,
    lost: Counter,
    moves: Counter,
    keep_failures: Counter,
    failures: Counter,
}

struct Now {
    shards: Vec<Shown>,
    members: usize,
    standing_by: bool,
}

/// One shard.
#[derive(Clone, Copy, Default)]
struct Shown {
    held: bool,
    /// Of this process's last hold.
    epoch: Epoch,
    renewed: Option<Instant>,
}

impl Stats {
    pub fn new(controller: &str, shards: u32) -> Self {
        let shards = vec![Shown::default(); shards as usize];
        Self {
            controller: controller.to_owned(),
            now: Mutex::new(Now { shards, members: 0, standing_by: false }),
            gained: Counter::default(),
            lost: Counter::default(),
            moves: Counter::default(),
            keep_failures: Counter::default(),
            failures: Counter::default(),
        }
    }

    pub fn gained(&self, shard: ShardId, epoch: Epoch, at: Instant) {
        self.gained.inc();
        self.now.lock().shards[shard.index()] = Shown { held: true, epoch, renewed: Some(at) };
    }

    pub fn lost(&self, shard: ShardId) {
        self.lost.inc();
        let mut now = self.now.lock();
        let shown = &mut now.shards[shard.index()];
        (shown.held, shown.renewed) = (false, None);
    }

    pub fn renewed(&self, shard: ShardId, at: Instant) {
        let mut now = self.now.lock();
        let shown = &mut now.shards[shard.index()];
        if shown.held {
            shown.renewed = Some(at);
        }
    }

    pub fn moved(&self) {
        self.moves.inc();
    }

    pub fn keep_failed(&self) {
        self.keep_failures.inc();
    }

    pub fn failed(&self) {
        self.failures.inc();
    }

    pub fn members(&self, members: usize) {
        self.now.lock().members = members;
    }

    pub fn standing_by(&self, standing_by: bool) {
        self.now.lock().standing_by = standing_by;
    }
}

/// The metrics of all elections of a process. Clones are handles of the same.
///
/// Does not keep an election alive: one that is gone is shown no longer.
#[derive(Clone, Default)]
pub struct ElectionMetrics(Arc<Mutex<Vec<Weak<Stats>>>>);

type CounterOf = fn(&Stats) -> &Counter;
type GaugeOf = fn(&Now) -> f64;
type ShardGaugeOf = fn(&Shown, Instant) -> Option<f64>;

const COUNTERS: [(&str, &str, CounterOf); 5] = [
    ("shards_gained", "Times that this process began to work on a shard", |of| &of.gained),
    ("shards_lost", "Times that this process stopped working on a shard, for whatever reason", |of| &of.lost),
    ("shards_moved", "Shards that this process began to give up on purpose", |of| &of.moves),
    ("keep_alive_failures", "Keep-alives that were not answered", |of| &of.keep_failures),
    ("call_failures", "Requests to take a lease or to give it back that failed", |of| &of.failures),
];

const GAUGES: [(&str, &str, GaugeOf); 2] = [
    ("members", "Processes that share the shards, as this one sees it", |now| now.members as f64),
    (
        "layout_conflict",
        "1 while this process stands by because others count the shards differently",
        |now| f64::from(u8::from(now.standing_by)),
    ),
];

const SHARD_GAUGES: [(&str, &str, ShardGaugeOf); 3] = [
    ("shard_held", "1 while this process works on the shard", |shown, _| {
        Some(f64::from(u8::from(shown.held)))
    }),
    ("shard_epoch", "Of this process's last hold of the shard", |shown, _| Some(shown.epoch.0 as f64)),
    ("shard_renewed_seconds", "How long ago the lease of a shard that is held was renewed", |shown, now| {
        shown.renewed.map(|at| now.saturating_duration_since(at).as_secs_f64())
    }),
];

impl ElectionMetrics {
    /// Metrics named `election_...`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.sub_registry_with_prefix("election").register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Shows an election; one of the same controller makes way.
    pub(super) fn show(&self, stats: &Arc<Stats>) {
        let mut all = self.0.lock();
        all.retain(|shown| shown.upgrade().is_some_and(|shown| shown.controller != stats.controller));
        all.push(Arc::downgrade(stats));
    }
}

impl fmt::Debug for ElectionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ElectionMetrics")
    }
}

impl Collector for ElectionMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<Arc<Stats>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        for (name, help, value) in SHARD_GAUGES {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for stats in &all {
                for (number, shown) in stats.now.lock().shards.iter().enumerate() {
                    let Some(value) = value(shown, Instant::now()) else { continue };
                    let labels = [("controller", stats.controller.clone()), ("shard", number.to_string())];
                    ConstGauge::new(value).encode(gauge.encode_family(&labels)?)?;
                }
            }
        }
        for (name, help, value) in GAUGES {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for stats in &all {
                let labels = [("controller", stats.controller.as_str())];
                ConstGauge::new(value(&stats.now.lock())).encode(gauge.encode_family(&labels)?)?;
            }
        }
        for (name, help, counter) in COUNTERS {
            let mut counters = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for stats in &all {
                let labels = [("controller", stats.controller.as_str())];
                counter(stats).encode(counters.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_is_shown_until_it_is_gone() {
        let mut registry = Registry::default();
        let metrics = ElectionMetrics::new(&mut registry);
        let stats = Arc::new(Stats::new("web", 2));
        metrics.show(&stats);
        stats.gained(ShardId(1), Epoch(7), Instant::now());
        stats.members(3);
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).expect("it can be written");
            text
        };
        let shown = text(&registry);
        for line in [
            "election_shard_held{controller=\"web\",shard=\"0\"} 0.0",
            "election_shard_held{controller=\"web\",shard=\"1\"} 1.0",
            "election_shard_epoch{controller=\"web\",shard=\"1\"} 7.0",
            "election_members{controller=\"web\"} 3.0",
            "election_shards_gained_total{controller=\"web\"} 1",
        ] {
            assert!(shown.contains(line), "{line} is not in\n{shown}");
        }
        assert!(!shown.contains("renewed_seconds{controller=\"web\",shard=\"0\"}"), "nobody renews that");
        drop(stats);
        assert!(!text(&registry).contains("web"));
    }
}
