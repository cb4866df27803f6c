//! What the node counts about the requests it serves.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MethodLabels {
    /// The gRPC path, e.g. `/etcdserverpb.KV/Put`.
    pub method: Arc<str>,
    /// The gRPC status code.
    pub code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MethodLabel {
    pub method: Arc<str>,
}

#[derive(Clone)]
pub struct Metrics {
    pub requests: Family<MethodLabels, Counter>,
    pub latency: Family<MethodLabel, Histogram>,
    /// Watches cancelled because a compaction overtook them.
    pub watches_overtaken: Counter,
}

impl Metrics {
    pub fn new(registry: &mut Registry) -> Arc<Self> {
        let latency: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));
        let metrics = Self {
            requests: Family::default(),
            latency: Family::new_with_constructor(latency),
            watches_overtaken: Counter::default(),
        };
        registry.register("requests", "gRPC requests answered, by method and code", metrics.requests.clone());
        registry.register(
            "request_duration_seconds",
            "Time until a unary gRPC request was answered",
            metrics.latency.clone(),
        );
        registry.register(
            "watches_overtaken",
            "Watches cancelled because a compaction overtook them",
            metrics.watches_overtaken.clone(),
        );
        Arc::new(metrics)
    }
}
