//! Counts and times every gRPC request, by method, and turns away those that ask for a leader while there is none.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
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

/// The metrics of the methods seen so far, found without building labels anew for each request.
struct Methods {
    metrics: Arc<Metrics>,
    known: RwLock<HashMap<String, Method>>,
}

#[derive(Clone)]
struct Method {
    name: Arc<str>,
    answered: Counter,
    latency: Histogram,
}

/// Paths are the client's to choose; beyond this many they are counted together.
const METHODS_MAX: usize = 200;

impl Methods {
    fn of(&self, path: &str) -> Method {
        if let Some(method) = self.known.read().get(path) {
            return method.clone();
        }
        let mut known = self.known.write();
        let path = if known.len() < METHODS_MAX { path } else { "other" };
        let method = known.entry(path.to_owned()).or_insert_with(|| {
            let name: Arc<str> = path.into();
            let labels = MethodLabels { method: name.clone(), code: 0 };
            Method {
                answered: self.metrics.requests.get_or_create_owned(&labels),
                latency: self.metrics.latency.get_or_create_owned(&MethodLabel { method: name.clone() }),
                name,
            }
        });
        method.clone()
    }
}

impl MeasureLayer {
    pub fn new(metrics: Arc<Metrics>, status: watch::Receiver<setpoint_consensus::Status>) -> Self {
        Self { methods: Arc::new(Methods { metrics, known: RwLock::default() }), status }
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
        let wants_leader = request.headers().get("hasleader").is_some_and(|value| value == "true");
        if wants_leader && self.status.borrow().leader.is_none() {
            let refusal = Status::from(EtcdError::NoLeader).into_http();
            return Box::pin(async move { Ok(refusal) });
        }
        let method = self.methods.of(request.uri().path());
        let methods = self.methods.clone();
        let start = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            method.latency.observe(start.elapsed().as_secs_f64());
            match code(&response) {
                0 => drop(method.answered.inc()),
                code => {
                    let labels = MethodLabels { method: method.name, code };
                    methods.metrics.requests.get_or_create(&labels).inc();
                }
            }
            Ok(response)
        })
    }
}

/// An error is known from the headers; what ends with its stream counts as answered.
fn code(response: &Response<Body>) -> i32 {
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok());
    status.and_then(|status| status.parse().ok()).unwrap_or(0)
}
