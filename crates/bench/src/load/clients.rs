//! Closed-loop clients: each sends its next operation when the last one is answered.
//!
//! Clients run from the start to the end of a row; what is recorded is what completes inside a window. A row can so
//! have a warm-up, or several windows, without connections being made anew.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic::Status;

use super::{LoadError, Sample};
use crate::measure::cpu;
use crate::measure::histogram::{Distribution, Histogram};
use crate::metric::Metric;
use crate::options::Plan;
use crate::system::Cluster;

/// Pause of a client after an error, so that a server that refuses everything is not called in a tight loop.
const ERROR_PAUSE: Duration = Duration::from_millis(10);
/// How long clients may take to finish their last operation.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// What a client does over and over.
pub trait Operation: Send + 'static {
    fn call(&mut self) -> impl Future<Output = Result<(), OperationError>> + Send;
}

/// Why an operation counts as failed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    #[error("{0}")]
    Refused(Box<Status>),
    #[error("wrong answer: {0}")]
    Wrong(&'static str),
}

impl From<Status> for OperationError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// The usual row: clients, a warm-up, one window.
pub async fn closed_loop<O: Operation>(
    cluster: &Cluster,
    plan: &Plan,
    operations: impl IntoIterator<Item = O>,
) -> Result<Sample, LoadError> {
    let clients = Clients::start(operations);
    tokio::time::sleep(plan.warm_up).await;
    let outcome = clients.measure(cluster, plan.window).await?;
    clients.stop().await;
    Ok(outcome.sample())
}

/// Clients under way.
pub struct Clients {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

/// What clients and other parties of a row record into while a window is open.
#[derive(Debug, Default)]
pub struct Window {
    open: AtomicBool,
}

/// What happened in one window.
#[derive(Debug)]
pub struct Outcome {
    pub elapsed: Duration,
    pub latency: Distribution,
    pub errors: u64,
    pub first_error: Option<String>,
    pub server_cpu: Duration,
    pub client_cpu: Duration,
}

struct Shared {
    window: Arc<Window>,
    stopping: AtomicBool,
    latency: Histogram,
    errors: AtomicU64,
    first_error: OnceLock<String>,
}

impl Window {
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}

impl Clients {
    /// Starts one client per operation.
    pub fn start<O: Operation>(operations: impl IntoIterator<Item = O>) -> Self {
        let shared = Arc::new(Shared {
            window: Arc::default(),
            stopping: AtomicBool::new(false),
            latency: Histogram::new(),
            errors: AtomicU64::new(0),
            first_error: OnceLock::new(),
        });
        let mut tasks = JoinSet::new();
        for operation in operations {
            tasks.spawn(shared.clone().repeat(operation));
        }
        Self { shared, tasks }
    }

    /// The window, for what is to be recorded beside the operations.
    pub fn window(&self) -> Arc<Window> {
        self.shared.window.clone()
    }

    /// Opens a window and closes it again after `length`.
    pub async fn measure(&self, cluster: &Cluster, length: Duration) -> Result<Outcome, LoadError> {
        let shared = &self.shared;
        shared.latency.reset();
        shared.errors.store(0, Ordering::Relaxed);
        let server_before = cluster.cpu_used()?;
        let client_before = cpu::used_by_self().map_err(LoadError::ClientCpu)?;
        let opened = Instant::now();
        shared.window.open.store(true, Ordering::Relaxed);
        tokio::time::sleep(length).await;
        shared.window.open.store(false, Ordering::Relaxed);
        let elapsed = opened.elapsed();
        let outcome = Outcome {
            elapsed,
            latency: shared.latency.distribution(),
            errors: shared.errors.load(Ordering::Relaxed),
            first_error: shared.first_error.get().cloned(),
            server_cpu: cluster.cpu_used()?.saturating_sub(server_before),
            client_cpu: cpu::used_by_self().map_err(LoadError::ClientCpu)?.saturating_sub(client_before),
        };
        if outcome.latency.count() == 0 {
            let first = outcome.first_error.unwrap_or_else(|| "none, all calls hang".to_owned());
            return Err(LoadError::NothingDone { first });
        }
        Ok(outcome)
    }

    /// Lets every client finish its operation, and drops those that hang.
    pub async fn stop(mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_PATIENCE, finished).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

impl Shared {
    async fn repeat(self: Arc<Self>, mut operation: impl Operation) {
        while !self.stopping.load(Ordering::Relaxed) {
            let started = Instant::now();
            let outcome = operation.call().await;
            let elapsed = started.elapsed();
            match outcome {
                Ok(()) if self.window.is_open() => self.latency.record(elapsed),
                Ok(()) => {}
                Err(error) => {
                    // Errors outside a window are not counted, but still name the reason if nothing works at all.
                    if self.window.is_open() {
                        self.errors.fetch_add(1, Ordering::Relaxed);
                    }
                    self.first_error.get_or_init(|| error.to_string());
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }
}

impl Outcome {
    pub fn rate(&self) -> f64 {
        self.latency.count() as f64 / self.elapsed.as_secs_f64()
    }

    /// The figures every closed-loop row has.
    pub fn sample(&self) -> Sample {
        let operations = self.latency.count();
        let mut sample = Sample {
            operations,
            errors: self.errors,
            first_error: self.first_error.clone().filter(|_| self.errors > 0),
            ..Sample::default()
        };
        sample.observe(Metric::Rate, self.rate());
        sample.observe(Metric::ServerCpuPerOp, self.server_cpu.as_secs_f64() / operations as f64);
        sample.observe(Metric::ClientCpuPerOp, self.client_cpu.as_secs_f64() / operations as f64);
        sample.observe_duration(Metric::LatencyP50, self.latency.percentile(50.0));
        sample.observe_duration(Metric::LatencyP99, self.latency.percentile(99.0));
        sample
    }
}
