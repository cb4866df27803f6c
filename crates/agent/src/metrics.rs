//! What is counted, for `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use setpoint_types::kinds::Stage;

/// The agent's counters.
pub struct AgentMetrics {
    registry: Mutex<Registry>,
    pub starts: Counter,
    pub adopted: Counter,
    pub probe_failures: Counter,
    pub push_failures: Counter,
    pub sessions: Counter,
    /// Nodes of the cluster that this agent is attached to.
    pub attached: Gauge,
    /// The epoch of the node's lease; 0 while it is not held.
    pub lease_epoch: Gauge,
    replicas: Family<Vec<(String, String)>, Gauge<i64, AtomicI64>>,
}

impl AgentMetrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("setpoint_agent");
        let metrics = Self {
            starts: Counter::default(),
            adopted: Counter::default(),
            probe_failures: Counter::default(),
            push_failures: Counter::default(),
            sessions: Counter::default(),
            attached: Gauge::default(),
            lease_epoch: Gauge::default(),
            replicas: Family::default(),
            registry: Mutex::new(Registry::default()),
        };
        registry.register("starts", "Runs that were begun", metrics.starts.clone());
        registry.register("adopted", "Runs of an agent before that were taken up", metrics.adopted.clone());
        registry.register("probe_failures", "Probes that failed", metrics.probe_failures.clone());
        registry.register(
            "push_failures",
            "Attempts to tell the server that failed",
            metrics.push_failures.clone(),
        );
        registry.register("sessions", "Logs and commands that were asked for", metrics.sessions.clone());
        registry.register(
            "attached",
            "Nodes of the cluster by which logs and commands can be asked for",
            metrics.attached.clone(),
        );
        registry.register(
            "lease_epoch",
            "Epoch of the node's lease, 0 while it is not held",
            metrics.lease_epoch.clone(),
        );
        registry.register("replicas", "Replicas by stage", metrics.replicas.clone());
        *metrics.registry.lock() = registry;
        metrics
    }

    /// How many replicas there are in each stage.
    pub fn show(&self, stages: impl Iterator<Item = Stage>) {
        let mut counts: BTreeMap<Stage, i64> = BTreeMap::new();
        stages.for_each(|stage| *counts.entry(stage).or_default() += 1);
        self.replicas.clear();
        for (stage, count) in counts {
            let label = format!("{stage:?}").to_lowercase();
            self.replicas.get_or_create(&vec![("stage".to_owned(), label)]).set(count);
        }
    }

    /// In the format of OpenMetrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry.lock()).expect("a String takes whatever is written");
        text
    }
}

impl Default for AgentMetrics {
    fn default() -> Self {
        Self::new()
    }
}
