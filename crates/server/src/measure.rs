//! Counts and times every gRPC request, by method, and turns away those that ask for a leader while there is none.
//!
//! Only methods that exist have metrics of their own. Paths are the client's to choose, so all others are counted together:
//! nobody can fill the memory, or crowd out the real names, by inventing some.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prost::Message;
use prost_types::FileDescriptorSet;
use setpoint_apiserver::etcd::error::EtcdError;
use setpoint_apiserver::metrics::{MethodLabel, MethodLabels, Metrics};
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

#[derive(Clone)]
pub struct MeasureLayer {
    methods: Arc<Methods>,
    status: watch::Receiver<setpoint_consensus::Status>,
}

/// The metrics of every method there is, found without building labels anew for each request.
struct Methods {
    metrics: Arc<Metrics>,
    known: HashMap<String, usize>,
    /// By the places that `known` names; the last one is that of all other paths.
    all: Vec<Method>,
}

struct Method {
    name: Arc<str>,
    /// Made with the first request, so that `/metrics` shows what is used.
    series: OnceLock<Series>,
}

struct Series {
    answered: Counter,
    latency: Histogram,
}

impl Methods {
    fn new(metrics: Arc<Metrics>) -> Self {
        let names = names();
        let all = names.iter().map(String::as_str).chain(["other"]).map(Method::named).collect();
        let known = names.into_iter().enumerate().map(|(place, name)| (name, place)).collect();
        Self { metrics, known, all }
    }

    fn place(&self, path: &str) -> usize {
        self.known.get(path).copied().unwrap_or(self.all.len() - 1)
    }

    fn count(&self, place: usize, code: i32, start: Instant) {
        let method = &self.all[place];
        let name = || method.name.clone();
        let series = method.series.get_or_init(|| Series {
            answered: self.metrics.requests.get_or_create_owned(&MethodLabels { method: name(), code: 0 }),
            latency: self.metrics.latency.get_or_create_owned(&MethodLabel { method: name() }),
        });
        series.latency.observe(start.elapsed().as_secs_f64());
        match code {
            0 => drop(series.answered.inc()),
            code => drop(self.metrics.requests.get_or_create(&MethodLabels { method: name(), code }).inc()),
        }
    }
}

impl Method {
    fn named(name: &str) -> Self {
        Self { name: name.into(), series: OnceLock::new() }
    }
}

/// The paths of everything that clients are served, from the descriptors that reflection shows them.
fn names() -> Vec<String> {
    let described = [
        setpoint_api::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    ];
    let decode = |set: &[u8]| {
        FileDescriptorSet::decode(set).expect("the descriptors come from the same build as this program")
    };
    let mut names = Vec::new();
    for file in described.into_iter().flat_map(|set| decode(set).file) {
        for service in &file.service {
            let path = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            names.extend(service.method.iter().map(|method| path(method.name())));
        }
    }
    names
}

impl MeasureLayer {
    pub fn new(metrics: Arc<Metrics>, status: watch::Receiver<setpoint_consensus::Status>) -> Self {
        Self { methods: Arc::new(Methods::new(metrics)), status }
    }
}

impl<S> Layer<S> for MeasureLayer {
    type Service = Measure<S>;

    fn layer(&self, inner: S) -> Measure<S> {
        Measure { inner, methods: self.methods.clone(), status: self.status.clone() }
    }
}

#[derive(Clone)]
pub struct Measure<S> {
    inner: S,
    methods: Arc<Methods>,
    status: watch::Receiver<setpoint_consensus::Status>,
}

impl<S> Service<Request<Body>> for Measure<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let start = Instant::now();
        let methods = self.methods.clone();
        let place = methods.place(request.uri().path());
        let wants_leader = request.headers().get("hasleader").is_some_and(|value| value == "true");
        if wants_leader && self.status.borrow().leader.is_none() {
            let refusal = Status::from(EtcdError::NoLeader);
            methods.count(place, refusal.code().into(), start);
            return Box::pin(async move { Ok(refusal.into_http()) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            methods.count(place, code(&response), start);
            Ok(response)
        })
    }
}

/// An error is known from the headers; what ends with its stream counts as answered.
fn code(response: &Response<Body>) -> i32 {
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok());
    status.and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn only_methods_that_exist_have_metrics_of_their_own() {
        let mut registry = Registry::default();
        let methods = Methods::new(Metrics::new(&mut registry));
        let count = |path: &str, code| methods.count(methods.place(path), code, Instant::now());
        for number in 0..1_000 {
            count(&format!("/etcdserverpb.KV/Invented{number}"), 12);
        }
        for path in ["/etcdserverpb.KV/Put", "/etcdserverpb.Watch/Watch", "/grpc.health.v1.Health/Check"] {
            count(path, 0);
        }
        count("/etcdserverpb.KV/Put", 14);
        let mut text = String::new();
        encode(&mut text, &registry).expect("encoded");
        assert!(!text.contains("Invented"), "{text}");
        for line in [
            r#"requests_total{method="other",code="12"} 1000"#,
            r#"requests_total{method="/etcdserverpb.KV/Put",code="0"} 1"#,
            r#"requests_total{method="/etcdserverpb.KV/Put",code="14"} 1"#,
            r#"requests_total{method="/etcdserverpb.Watch/Watch",code="0"} 1"#,
            r#"requests_total{method="/grpc.health.v1.Health/Check",code="0"} 1"#,
            r#"request_duration_seconds_count{method="/etcdserverpb.KV/Put"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
