//! Replicas as containers of a Docker engine on this host.
//!
//! A container is called after its run, so that none is made twice, and is labelled with its replica, so that it is found again.
//! It has the network of the host: ports mean the same as for processes. The engine keeps what it writes, bounded as for processes.
//!
//! Weaker than processes in one thing: there is no shim. If the agent itself is dead or hangs, nobody ends an exclusive container when
//! the lease of its node runs out; the agent does so when it is back.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use bollard::Docker;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, ContainerState, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, InspectContainerOptions, KillContainerOptions,
    ListContainersOptions, RemoveContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;
use setpoint_types::Timestamp;
use tokio::time::{sleep, timeout};

use super::{Cause, Ended, Found, Order, RunId, Runtime, RuntimeError, Task};

/// Of containers that are ours: the replica's uid, and the number of the run.
const REPLICA: &str = "setpoint.replica";
const RUN: &str = "setpoint.run";
/// Of which agent: several may share an engine.
const NODE: &str = "setpoint.node";

/// Between two looks at an engine that broke off.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Runs containers.
pub struct DockerRuntime {
    docker: Docker,
    node: String,
    log_bytes: u64,
    log_files: u32,
}

fn name(run: &RunId) -> String {
    format!("setpoint-{run}")
}

fn failed(what: &'static str, run: &RunId) -> impl Fn(Error) -> RuntimeError {
    move |source| RuntimeError::Docker { what, run: run.clone(), source: Box::new(source) }
}

/// The engine's answer, if it was one.
fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

impl DockerRuntime {
    /// The engine at a socket, if one answers there.
    pub async fn connect(socket: &str, node: &str, log_bytes: u64, log_files: u32) -> Result<Self, Error> {
        let docker = Docker::connect_with_unix(socket, 120, bollard::API_DEFAULT_VERSION)?;
        let docker = docker.negotiate_version().await?;
        docker.ping().await?;
        Ok(Self { docker, node: node.to_owned(), log_bytes, log_files })
    }

    pub fn engine(&self) -> &Docker {
        &self.docker
    }

    /// What a run is called by the engine.
    pub fn container(run: &RunId) -> String {
        name(run)
    }

    pub async fn is_running(&self, run: &RunId) -> bool {
        let state = self.state(run).await;
        state.is_ok_and(|state| state.is_some_and(|state| state.running == Some(true)))
    }

    fn body(&self, task: &Task) -> ContainerCreateBody {
        let whole = |number: u64| i64::try_from(number).ok();
        let labels = [(REPLICA, task.run.replica.to_string()), (RUN, task.run.number.to_string())];
        let labels =
            labels.into_iter().chain([(NODE, self.node.clone()), ("setpoint.name", task.name.clone())]);
        let logs = [("max-size", self.log_bytes.to_string()), ("max-file", self.log_files.to_string())];
        let limits = &task.limits;
        let listed = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
        ContainerCreateBody {
            image: task.image.clone(),
            entrypoint: listed(&task.command),
            cmd: listed(&task.args),
            env: Some(task.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            working_dir: task.working_dir.clone(),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).collect()),
            host_config: Some(HostConfig {
                network_mode: Some("host".to_owned()),
                binds: Some(vec![format!("{}:/setpoint", task.folder.display())]),
                memory: limits.memory_bytes.and_then(whole),
                memory_swap: limits.memory_bytes.and_then(whole),
                nano_cpus: limits.cpu_milli.and_then(|milli| whole(milli * 1_000_000)),
                cpu_shares: limits.cpu_reserved_milli.and_then(|milli| whole((milli * 1024 / 1000).max(2))),
                pids_limit: limits.pids.and_then(whole),
                log_config: Some(HostConfigLogConfig {
                    typ: Some("json-file".to_owned()),
                    config: Some(logs.map(|(name, value)| (name.to_owned(), value)).into()),
                }),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    async fn state(&self, run: &RunId) -> Result<Option<ContainerState>, RuntimeError> {
        match self.docker.inspect_container(&name(run), None::<InspectContainerOptions>).await {
            Ok(about) => Ok(Some(about.state.unwrap_or_default())),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(failed("look at", run)(error)),
        }
    }

    async fn take_away(&self, run: &RunId) -> Result<(), RuntimeError> {
        let options = RemoveContainerOptions { v: true, force: true, ..RemoveContainerOptions::default() };
        match self.docker.remove_container(&name(run), Some(options)).await {
            Err(error) if status(&error) != Some(404) => Err(failed("remove", run)(error)),
            _ => Ok(()),
        }
    }

    async fn begin(&self, task: &Task) -> Result<(), RuntimeError> {
        let options =
            CreateContainerOptions { name: Some(name(&task.run)), ..CreateContainerOptions::default() };
        match self.docker.create_container(Some(options), self.body(task)).await {
            // It is there: this run was begun, and is gone on with.
            Err(error) if status(&error) == Some(409) => {}
            created => drop(created.map_err(failed("create", &task.run))?),
        }
        setpoint_failpoint::hit("docker.created");
        let started = self.docker.start_container(&name(&task.run), None::<StartContainerOptions>).await;
        match started {
            Err(error) if status(&error) != Some(304) => Err(failed("start", &task.run)(error)),
            _ => Ok(()),
        }
    }
}

fn time(text: Option<&String>) -> Timestamp {
    let time = text.and_then(|text| humantime::parse_rfc3339_weak(text).ok());
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or_default())
}

/// None while it runs.
fn ended(state: &ContainerState) -> Option<Ended> {
    if state.running == Some(true) || state.paused == Some(true) || state.restarting == Some(true) {
        return None;
    }
    let code = state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
    let signal = (code > 128).then(|| code - 128);
    let cause = if state.oom_killed == Some(true) { Cause::OutOfMemory } else { Cause::Itself };
    let message = state.error.clone().unwrap_or_default();
    let (started, ended) = (time(state.started_at.as_ref()), time(state.finished_at.as_ref()));
    Some(Ended { code: signal.is_none().then_some(code), signal, cause, message, started, ended })
}

impl Runtime for DockerRuntime {
    fn prepare<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            let image = task.image.as_deref().unwrap_or_default();
            if self.docker.inspect_image(image).await.is_ok() {
                return Ok(());
            }
            let options =
                CreateImageOptions { from_image: Some(image.to_owned()), ..CreateImageOptions::default() };
            let mut pulled = self.docker.create_image(Some(options), None, None);
            while let Some(step) = pulled.next().await {
                step.map_err(failed("fetch the image of", &task.run))?;
            }
            Ok(())
        }
        .boxed()
    }

    fn start<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            let Err(error) = self.begin(task).await else { return Ok(()) };
            // Not begun means never begun.
            self.take_away(&task.run).await?;
            Err(error)
        }
        .boxed()
    }

    fn find<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Found, RuntimeError>> {
        async move {
            let Some(state) = self.state(run).await? else { return Ok(Found::Never) };
            // Made and not started: it never will be.
            let never = time(state.started_at.as_ref()) == Timestamp(0) && state.running != Some(true);
            match ended(&state) {
                _ if never => {
                    self.take_away(run).await?;
                    Ok(Found::Never)
                }
                Some(ended) => Ok(Found::Ended(ended)),
                None => Ok(Found::Running { started: time(state.started_at.as_ref()) }),
            }
        }
        .boxed()
    }

    fn wait<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Ended, RuntimeError>> {
        async move {
            loop {
                let Some(state) = self.state(run).await? else {
                    let message = "the container was removed".to_owned();
                    return Ok(Ended { cause: Cause::Lost, message, ..Ended::default() });
                };
                if let Some(ended) = ended(&state) {
                    return Ok(ended);
                }
                // Whatever it says, also that it took too long: the container is looked at again.
                let waiting = self.docker.wait_container(&name(run), None::<WaitContainerOptions>);
                let said = std::pin::pin!(waiting).next().await;
                if !matches!(said, Some(Ok(_) | Err(Error::DockerContainerWaitError { .. }))) {
                    sleep(LOOK_AGAIN).await;
                }
            }
        }
        .boxed()
    }

    fn order<'a>(&'a self, run: &'a RunId, order: Order) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            let signal = match order {
                Order::Terminate => "SIGTERM",
                Order::Kill => "SIGKILL",
            };
            let options = KillContainerOptions { signal: signal.to_owned() };
            match self.docker.kill_container(&name(run), Some(options)).await {
                // Gone, or not running.
                Err(error) if !matches!(status(&error), Some(404 | 409)) => Err(failed("stop", run)(error)),
                _ => Ok(()),
            }
        }
        .boxed()
    }

    fn exec<'a>(
        &'a self,
        task: &'a Task,
        command: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Option<i32>, RuntimeError>> {
        async move {
            let run = async {
                let options = CreateExecOptions {
                    cmd: Some(command.to_vec()),
                    attach_stdout: Some(true),
                    attach_stderr: Some(true),
                    ..CreateExecOptions::default()
                };
                let made = self.docker.create_exec(&name(&task.run), options).await?;
                if let StartExecResults::Attached { mut output, .. } =
                    self.docker.start_exec(&made.id, None).await?
                {
                    while output.next().await.is_some() {}
                }
                let about = self.docker.inspect_exec(&made.id).await?;
                Ok(about.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1))
            };
            match timeout(limit, run).await {
                Ok(status) => status.map(Some).map_err(failed("run a command beside", &task.run)),
                Err(_) => Ok(None),
            }
        }
        .boxed()
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, RuntimeError>> {
        async move {
            let filters = HashMap::from([("label".to_owned(), vec![format!("{NODE}={}", self.node)])]);
            let options = ListContainersOptions {
                all: true,
                filters: Some(filters),
                ..ListContainersOptions::default()
            };
            let listed = self.docker.list_containers(Some(options)).await;
            let none = RunId { replica: Default::default(), number: 0 };
            let listed = listed.map_err(failed("list the containers of", &none))?;
            let run = |labels: HashMap<String, String>| {
                RunId::parse(&format!("{}-{}", labels.get(REPLICA)?, labels.get(RUN)?))
            };
            Ok(listed.into_iter().filter_map(|it| it.labels.and_then(run)).collect())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move { self.take_away(run).await }.boxed()
    }
}
