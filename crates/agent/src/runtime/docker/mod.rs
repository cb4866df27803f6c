//! Replicas as containers of a Docker engine on this host.
//!
//! - [`container`]: a run as the engine is told of it, and what the engine's words mean; [`beside`]: commands beside a container
//! - this file: what is asked of the engine, and what becomes of it if the engine is not there
//!
//! A container is called after its run, so that none is made twice, and is labelled with its replica and with the agent, so that it is
//! found again, and by no other agent. It has the network of the host: ports mean the same as for processes. The engine keeps what it
//! writes, bounded as for processes.
//!
//! The engine may come and go. Whoever asks while it is gone gets an error that says nothing about containers; what became of them
//! is found out when it is back.
//!
//! Weaker than processes in one thing: there is no shim. If the agent itself is dead or hangs, nobody ends an exclusive container when
//! the lease of its node runs out; the agent does so when it is back.

mod beside;
mod container;

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, InspectContainerOptions, KillContainerOptions,
    ListContainersOptions, RemoveContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use self::beside::Overdue;
use super::{Cause, Ended, Found, Order, RunId, Runtime, RuntimeError, Task};
use crate::machine::wall_now;

/// Between two looks at an engine that broke off.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long the engine may take to say that it is there.
const PING_LIMIT: Duration = Duration::from_secs(5);

/// How long the engine may take to begin an answer, in seconds: bollard's own default.
const ANSWER_SECONDS_MAX: u64 = 120;

/// What exists on every host and is no socket: nobody answers there.
const NOBODY: &str = "/";

/// How containers are run here.
#[derive(Clone, Debug)]
pub struct DockerSettings {
    pub socket: String,
    /// Of the node, for people who look at containers.
    pub node: String,
    /// Of the agent: it knows no containers but those that carry it.
    pub mark: String,
    pub open_files: Option<u64>,
    pub log_bytes: u64,
    pub log_files: u32,
    /// How long the fetching of an image may take.
    pub fetch_limit: Duration,
}

/// Runs containers.
pub struct DockerRuntime {
    settings: DockerSettings,
    /// Set when the engine has answered for the first time, and good from then on: it connects anew for each request.
    docker: OnceCell<Docker>,
    nobody: Docker,
    overdue: Overdue,
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
    /// The engine at a socket. It need not be there yet.
    pub fn new(settings: DockerSettings) -> Result<Self, Error> {
        let nobody = Docker::connect_with_unix(NOBODY, ANSWER_SECONDS_MAX, bollard::API_DEFAULT_VERSION)?;
        Ok(Self { settings, docker: OnceCell::new(), nobody, overdue: Overdue::default() })
    }

    /// The engine as it was when it last answered: one that nobody answers for, if it never did.
    pub fn engine(&self) -> &Docker {
        self.docker.get().unwrap_or(&self.nobody)
    }

    /// What a run is called by the engine.
    pub fn container(run: &RunId) -> String {
        container::name(run)
    }

    pub async fn is_running(&self, run: &RunId) -> bool {
        let about = self.inspect(run).await;
        about.is_ok_and(|about| about.and_then(|about| about.state?.running) == Some(true))
    }

    /// The engine, once it has answered.
    async fn known(&self) -> Result<&Docker, RuntimeError> {
        let connect = async || {
            let socket = &self.settings.socket;
            let docker = Docker::connect_with_unix(socket, ANSWER_SECONDS_MAX, bollard::API_DEFAULT_VERSION)?;
            docker.negotiate_version().await
        };
        self.docker.get_or_try_init(connect).await.map_err(|source| self.silent(source))
    }

    fn silent(&self, source: Error) -> RuntimeError {
        RuntimeError::NoEngine { socket: self.settings.socket.clone(), source: Box::new(source) }
    }

    /// The engine, which answers now.
    async fn present(&self) -> Result<&Docker, RuntimeError> {
        let asked = async {
            let docker = self.known().await?;
            docker.ping().await.map_err(|source| self.silent(source))?;
            Ok(docker)
        };
        timeout(PING_LIMIT, asked).await.unwrap_or_else(|_| Err(self.silent(Error::RequestTimeoutError)))
    }

    /// The container of a run, if there is one and it is ours.
    async fn inspect(&self, run: &RunId) -> Result<Option<ContainerInspectResponse>, RuntimeError> {
        let docker = self.known().await?;
        match docker.inspect_container(&container::name(run), None::<InspectContainerOptions>).await {
            Ok(about) => Ok(Some(about).filter(|about| {
                let labels = about.config.as_ref().and_then(|config| config.labels.as_ref());
                container::is_of(labels, &self.settings.mark)
            })),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(failed("look at", run)(error)),
        }
    }

    async fn take_away(&self, run: &RunId) -> Result<(), RuntimeError> {
        if self.inspect(run).await?.is_none() {
            return Ok(());
        }
        let options = RemoveContainerOptions { v: true, force: true, ..RemoveContainerOptions::default() };
        match self.known().await?.remove_container(&container::name(run), Some(options)).await {
            Err(error) if status(&error) != Some(404) => Err(failed("remove", run)(error)),
            _ => Ok(()),
        }
    }

    async fn begin(&self, docker: &Docker, task: &Task) -> Result<(), RuntimeError> {
        let name = container::name(&task.run);
        let options =
            CreateContainerOptions { name: Some(name.clone()), ..CreateContainerOptions::default() };
        match docker.create_container(Some(options), container::body(task, &self.settings)).await {
            // It is there. What was started is begun: started again it would run twice.
            Err(error) if status(&error) == Some(409) => {
                let Some(about) = self.inspect(&task.run).await? else {
                    return Err(failed("create", &task.run)(error));
                };
                if !container::was_never_started(&about.state.unwrap_or_default()) {
                    return Ok(());
                }
            }
            created => drop(created.map_err(failed("create", &task.run))?),
        }
        setpoint_failpoint::hit("docker.created");
        match docker.start_container(&name, None::<StartContainerOptions>).await {
            Err(error) if status(&error) != Some(304) => Err(failed("start", &task.run)(error)),
            _ => Ok(()),
        }
    }

    async fn settle(&self, run: &RunId) -> Result<Found, RuntimeError> {
        let Some(about) = self.inspect(run).await? else { return Ok(Found::Never) };
        let state = about.state.unwrap_or_default();
        // Made and not started: it never will be.
        if container::was_never_started(&state) {
            self.take_away(run).await?;
            return Ok(Found::Never);
        }
        Ok(match container::ended(&state) {
            Some(ended) => Found::Ended(ended),
            None => Found::Running { started: container::time(state.started_at.as_ref()) },
        })
    }

    async fn fetch(&self, image: &str) -> Result<(), RuntimeError> {
        let docker = self.present().await?;
        if docker.inspect_image(image).await.is_ok() {
            return Ok(());
        }
        let failed =
            |source: Error| RuntimeError::Image { image: image.to_owned(), source: Box::new(source) };
        let from_image = Some(container::reference(image));
        let options = CreateImageOptions { from_image, ..CreateImageOptions::default() };
        let mut steps = docker.create_image(Some(options), None, None);
        let fetched = async {
            while let Some(step) = steps.next().await {
                step?;
            }
            Ok(())
        };
        let late = |_| Err(Error::RequestTimeoutError);
        timeout(self.settings.fetch_limit, fetched).await.unwrap_or_else(late).map_err(failed)
    }
}

/// What the image wants to be told so that it ends.
fn stop_signal(about: ContainerInspectResponse) -> String {
    let wanted = about.config.and_then(|config| config.stop_signal);
    wanted.filter(|signal| !signal.is_empty()).unwrap_or_else(|| "SIGTERM".to_owned())
}

impl Runtime for DockerRuntime {
    fn answers(&self) -> BoxFuture<'_, bool> {
        async move { self.present().await.is_ok() }.boxed()
    }

    fn prepare<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move { self.fetch(task.image.as_deref().unwrap_or_default()).await }.boxed()
    }

    fn start<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            // Of an engine that is not there nothing was asked.
            let docker = self.present().await?;
            std::fs::create_dir_all(&task.folder)
                .map_err(|source| RuntimeError::Files { run: task.run.clone(), source })?;
            let Err(error) = self.begin(docker, task).await else { return Ok(()) };
            // It may have begun all the same, if an answer was lost. Not begun means never begun: it is found out, however long
            // that takes.
            loop {
                match self.settle(&task.run).await {
                    Ok(Found::Never) => return Err(error),
                    Ok(_) => return Ok(()),
                    Err(_) => sleep(LOOK_AGAIN).await,
                }
            }
        }
        .boxed()
    }

    fn find<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Found, RuntimeError>> {
        self.settle(run).boxed()
    }

    fn wait<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Ended, RuntimeError>> {
        async move {
            loop {
                let Some(about) = self.inspect(run).await? else {
                    let (message, now) = ("the container was removed".to_owned(), wall_now());
                    let (started, ended) = (now, now);
                    return Ok(Ended { cause: Cause::Lost, message, started, ended, ..Ended::default() });
                };
                if let Some(ended) = container::ended(&about.state.unwrap_or_default()) {
                    return Ok(ended);
                }
                // Whatever it says, also that it took too long: the container is looked at again.
                let docker = self.known().await?;
                let waiting = docker.wait_container(&container::name(run), None::<WaitContainerOptions>);
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
            let Some(about) = self.inspect(run).await? else { return Ok(()) };
            let signal = match order {
                Order::Terminate => stop_signal(about),
                Order::Kill => "SIGKILL".to_owned(),
            };
            let options = KillContainerOptions { signal };
            match self.known().await?.kill_container(&container::name(run), Some(options)).await {
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
            let docker = self.known().await?;
            let done = beside::exec(docker, &task.run, command, limit, &self.overdue).await;
            done.map_err(failed("run a command beside", &task.run))
        }
        .boxed()
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, RuntimeError>> {
        async move {
            let docker = self.present().await?;
            let mark = format!("{}={}", container::AGENT, self.settings.mark);
            let filters = HashMap::from([("label".to_owned(), vec![mark])]);
            let options = ListContainersOptions {
                all: true,
                filters: Some(filters),
                ..ListContainersOptions::default()
            };
            let listed = docker.list_containers(Some(options)).await.map_err(|source| self.silent(source))?;
            Ok(listed.into_iter().filter_map(|it| it.labels.as_ref().and_then(container::run)).collect())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            self.take_away(run).await?;
            self.overdue.forget(run);
            Ok(())
        }
        .boxed()
    }
}
