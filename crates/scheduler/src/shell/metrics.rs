//! What a scheduler counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use setpoint_client::BindReason;

use crate::core::engine::Engine;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

/// Cheap to clone; clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    waiting: Family<State, Gauge>,
    classes: Gauge,
    bound: Counter,
    rejected: Family<Reason, Counter>,
    refused: Family<Reason, Counter>,
    evictions: Counter,
    statuses: Counter,
    unreadable: Counter,
    plan_seconds: Histogram,
    wait_seconds: Histogram,
}

impl Metrics {
    pub fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("scheduler");
        let metrics = Self {
            waiting: Family::default(),
            classes: Gauge::default(),
            bound: Counter::default(),
            rejected: Family::default(),
            refused: Family::default(),
            evictions: Counter::default(),
            statuses: Counter::default(),
            unreadable: Counter::default(),
            plan_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 9)),
            wait_seconds: Histogram::new(exponential_buckets(0.005, 2.0, 14)),
        };
        registry.register(
            "waiting",
            "Replicas without a node, by what they wait for",
            metrics.waiting.clone(),
        );
        registry.register("classes", "Kinds of replicas that are told apart", metrics.classes.clone());
        registry.register("bound", "Replicas that got a node", metrics.bound.clone());
        registry.register("rejected", "Binds the server did not take", metrics.rejected.clone());
        registry.register(
            "refused",
            "Turns of a class without a node for all of it",
            metrics.refused.clone(),
        );
        registry.register("evictions", "Replicas made to leave for others", metrics.evictions.clone());
        registry.register("statuses", "Statuses of replicas that were written", metrics.statuses.clone());
        registry.register("unreadable", "Objects that could not be read", metrics.unreadable.clone());
        registry.register("plan_seconds", "How long one plan took", metrics.plan_seconds.clone());
        registry.register(
            "wait_seconds",
            "From creation to the decision for a node",
            metrics.wait_seconds.clone(),
        );
        metrics
    }

    pub fn show(&self, engine: &Engine) {
        let (active, blocked) = engine.queue().depths();
        let pausing = engine.pausing();
        let away = engine.waiting().saturating_sub(active + blocked + pausing);
        for (state, count) in [("active", active), ("blocked", blocked), ("pausing", pausing), ("away", away)]
        {
            self.waiting.get_or_create(&State { state }).set(count as i64);
        }
        self.classes.set(engine.classes() as i64);
    }

    pub fn planned(&self, seconds: f64) {
        self.plan_seconds.observe(seconds);
    }

    pub fn waited(&self, ms: u64) {
        self.wait_seconds.observe(ms as f64 / 1000.0);
    }

    pub fn bound(&self) {
        self.bound.inc();
    }

    pub fn rejected(&self, reason: BindReason) {
        self.rejected.get_or_create(&Reason { reason: format!("{reason:?}") }).inc();
    }

    pub fn refused(&self, reason: impl std::fmt::Debug) {
        self.refused.get_or_create(&Reason { reason: format!("{reason:?}") }).inc();
    }

    pub fn evicted(&self) {
        self.evictions.inc();
    }

    pub fn wrote_status(&self) {
        self.statuses.inc();
    }

    pub fn unreadable(&self) {
        self.unreadable.inc();
    }
}
