//! Runtimes: what starts a replica, watches over it and ends it.
//!
//! - [`process`]: as a process of the host, by a shim that survives the agent
//! - [`docker`]: as a container, by a Docker engine
//!
//! Both are behind [`Runtime`], which promises what the lifecycle needs: a run happens at most once, and is said to have ended
//! only when nothing of it is alive.

pub mod docker;
mod ended;
pub mod process;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use ended::{Cause, Ended, Order};
use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};
use setpoint_types::kinds::ReplicaEndpoint;
use setpoint_types::{Timestamp, Uid};

use self::process::cgroup::Limits;

/// One run of a replica: the first start, or a restart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    pub replica: Uid,
    /// From 1. Never used again, whatever became of the run.
    pub number: u32,
}

/// `REPLICA-NUMBER`, as folders, control groups and containers are called.
impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.replica, self.number)
    }
}

impl RunId {
    /// Of what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (replica, number) = text.rsplit_once('-')?;
        let number = number.parse().ok()?;
        (!replica.is_empty()).then(|| Self { replica: Uid::new(replica), number })
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub run: RunId,
    /// Of the replica, for people.
    pub name: String,
    pub image: Option<String>,
    /// Program and arguments; may be empty if there is an image.
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub working_dir: Option<String>,
    /// The replica's own folder.
    pub folder: PathBuf,
    pub limits: Limits,
    pub endpoints: Vec<ReplicaEndpoint>,
    /// From the end of the node's lease until it is killed, if it may not outlive that.
    pub fence_grace: Option<Duration>,
}

/// What became of a run that was to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was never started, and never will be.
    Never,
    Running {
        started: Timestamp,
    },
    Ended(Ended),
}

/// Why a runtime could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("the files of run {run} cannot be used")]
    Files {
        run: RunId,
        #[source]
        source: io::Error,
    },
    #[error(
        "no Docker engine answers at {socket}: start it, or give the agent of this node another --docker-socket"
    )]
    NoEngine {
        socket: String,
        #[source]
        source: Box<bollard::errors::Error>,
    },
    #[error("the image {image} cannot be fetched: check its name, or load it into the engine of this node")]
    Image {
        image: String,
        #[source]
        source: Box<bollard::errors::Error>,
    },
    #[error("the Docker engine did not {what} {run}")]
    Docker {
        what: &'static str,
        run: RunId,
        #[source]
        source: Box<bollard::errors::Error>,
    },
    #[error("{0}: start the agent on a host that has it, or leave out what needs it")]
    Missing(&'static str),
}

impl RuntimeError {
    /// It says nothing about the run: the engine is not there, or the run is not.
    pub fn is_silence(&self) -> bool {
        use bollard::errors::Error;
        match self {
            Self::NoEngine { .. } => true,
            Self::Docker { source, .. } => match **source {
                Error::DockerResponseServerError { status_code, .. } => matches!(status_code, 404 | 409),
                _ => true,
            },
            Self::Files { .. } | Self::Image { .. } | Self::Missing(_) => false,
        }
    }
}

/// What starts replicas and ends them.
///
/// **Guarantees**
/// - A run is started at most once, also across crashes of the agent: [`Runtime::find`] settles what became of it.
/// - [`Runtime::wait`] ends only when nothing of the run is alive.
///
/// **Assumes** that a run is found before it is started by an agent that did not give it its number itself.
pub trait Runtime: Send + Sync {
    /// Whether it can be used now.
    fn answers(&self) -> BoxFuture<'_, bool> {
        std::future::ready(true).boxed()
    }

    /// Gets what a run needs besides its artifacts.
    fn prepare<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Begins a run. An error means that it was not begun, and never will be.
    fn start<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// What became of a run of before. What was not begun is never begun after this.
    fn find<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Found, RuntimeError>>;

    /// Waits until all of a run is gone, and tells how it ended.
    fn wait<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Ended, RuntimeError>>;

    /// Tells a run to end. Nothing happens if it has.
    fn order<'a>(&'a self, run: &'a RunId, order: Order) -> BoxFuture<'a, Result<(), RuntimeError>>;

    /// Runs a command beside a run, and tells its exit status. Not answered in time, it is killed: none.
    fn exec<'a>(
        &'a self,
        task: &'a Task,
        command: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<i32>, RuntimeError>>;

    /// All runs of which something is left.
    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, RuntimeError>>;

    /// Takes away what an ended run left. What it wrote goes with it.
    fn remove<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), RuntimeError>>;
}

/// The runtimes of a node.
pub struct Runtimes {
    pub process: Arc<dyn Runtime>,
    /// None where containers are not to be run. The engine may come and go.
    pub docker: Option<Arc<dyn Runtime>>,
}

impl Runtimes {
    /// The one for replicas with an image, or without.
    pub fn of(&self, image: bool) -> Option<Arc<dyn Runtime>> {
        if image { self.docker.clone() } else { Some(self.process.clone()) }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Runtime>> {
        std::iter::once(&self.process).chain(&self.docker)
    }

    /// Those that can be used now, as the Node object names them.
    pub async fn names(&self) -> Vec<String> {
        let docker = match &self.docker {
            Some(docker) => docker.answers().await.then(|| "docker".to_owned()),
            None => None,
        };
        std::iter::once("process".to_owned()).chain(docker).collect()
    }

    /// All runs of which something is left, each with who has it. A runtime that does not answer is left out: what it has is found
    /// when it does.
    pub async fn runs(&self) -> Vec<(Arc<dyn Runtime>, RunId)> {
        let mut runs = Vec::new();
        for runtime in self.all() {
            match runtime.runs().await {
                Ok(found) => runs.extend(found.into_iter().map(|run| (runtime.clone(), run))),
                Err(error) => tracing::debug!(%error, "a runtime does not tell what it runs"),
            }
        }
        runs
    }
}
