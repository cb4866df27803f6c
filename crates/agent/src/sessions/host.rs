//! What the agent has that sessions are about: records of its replicas, what they wrote, and where commands can be run.

use std::sync::Arc;

use futures::stream::StreamExt;
use setpoint_client::{Gone, HostInput, HostLine, HostOutput, LogQuery, Served, Wanted};
use setpoint_types::Uid;
use tokio::sync::Semaphore;

use super::{docker, exec};
use crate::logs::{docker_stream, follow};
use crate::record::{Record, Records};
use crate::runtime::RunId;
use crate::runtime::docker::DockerRuntime;
use crate::runtime::process::ProcessRuntime;
use crate::supervisor::chain;

/// Sessions at a time, from all nodes of the cluster; the next is told to come again.
const SESSIONS_MAX: usize = 64;

/// Serves sessions.
pub struct SessionHost {
    records: Records,
    processes: ProcessRuntime,
    docker: Option<Arc<DockerRuntime>>,
    places: Semaphore,
}

/// Where a replica runs.
enum Place {
    Process(RunId),
    Container(Arc<DockerRuntime>, RunId),
}

/// Why there is nothing to read or to run anything in.
enum Missing {
    NotFound(String),
    Unavailable(String),
}

impl SessionHost {
    pub fn new(records: Records, processes: ProcessRuntime, docker: Option<Arc<DockerRuntime>>) -> Self {
        Self { records, processes, docker, places: Semaphore::new(SESSIONS_MAX) }
    }

    /// Takes the session of this word, and serves it to its end.
    pub async fn session(self: Arc<Self>, line: HostLine, word: String) {
        let served = match line.serve(word).await {
            Ok(served) => served,
            // Whoever asked for it has gone, or the node of the cluster has.
            Err(error) => return tracing::debug!(error = chain(&error), "a session was not taken"),
        };
        let Served { wanted, input, output } = served;
        let Ok(_place) = self.places.try_acquire() else {
            let text = format!("this agent serves {SESSIONS_MAX} sessions, its most; try again");
            let _ = output.unavailable(text, input).await;
            return;
        };
        // Either way the session is over.
        let _ = match wanted {
            Wanted::Logs { namespace, replica, uid, query } => {
                match self.place(&namespace, &replica, &uid).await {
                    Ok((record, place)) => self.logs(record, place, query, input, output).await,
                    Err(missing) => refuse(missing, input, output).await,
                }
            }
            Wanted::Exec { namespace, replica, uid } => {
                match self.running(&namespace, &replica, &uid).await {
                    Ok(place) => self.exec(place, input, output).await,
                    Err(missing) => refuse(missing, input, output).await,
                }
            }
        };
    }

    /// A replica that is, or was, here.
    async fn place(&self, namespace: &str, replica: &str, uid: &Uid) -> Result<(Record, Place), Missing> {
        let none = || Missing::NotFound(format!("no replica {namespace}/{replica} is, or was, here"));
        let (records, wanted) = (self.records.clone(), uid.clone());
        let found = tokio::task::spawn_blocking(move || records.find(&wanted)).await.ok().flatten();
        let record = found.filter(|it| it.namespace == namespace && it.name == replica).ok_or_else(none)?;
        let run = RunId { replica: record.uid.clone(), number: record.memory.number };
        let place = match (record.spec.template.image.is_some(), &self.docker) {
            (false, _) => Place::Process(run),
            (true, Some(docker)) => Place::Container(docker.clone(), run),
            (true, None) => return Err(Missing::Unavailable("there is no Docker engine here".to_owned())),
        };
        Ok((record, place))
    }

    /// The same, if it runs.
    async fn running(&self, namespace: &str, replica: &str, uid: &Uid) -> Result<Place, Missing> {
        let (record, place) = self.place(namespace, replica, uid).await?;
        let runs = match &place {
            // Before the first run there is no folder, either.
            Place::Process(run) => self.processes.is_running(run),
            Place::Container(docker, run) => docker.is_running(run).await,
        };
        match runs {
            true => Ok(place),
            false => {
                let text = format!(
                    "{namespace}/{replica} does not run at the moment (run {}); `setpoint describe replica/{replica}` says why",
                    record.memory.number
                );
                Err(Missing::NotFound(text))
            }
        }
    }

    async fn logs(
        &self,
        record: Record,
        place: Place,
        query: LogQuery,
        mut input: HostInput,
        output: HostOutput,
    ) -> Result<(), Gone> {
        output.ready().await?;
        let reading = async {
            match place {
                Place::Process(newest) => {
                    let last = record.memory.number;
                    let folder = |number| self.processes.folder(&RunId { number, ..newest.clone() });
                    let runs = (last.saturating_sub(1).max(1)..=last).map(|it| folder(it).path().to_owned());
                    let mut lines = follow(runs.collect(), query);
                    while let Some(bytes) = lines.recv().await {
                        output.output(bytes).await?;
                    }
                }
                Place::Container(docker, run) => {
                    let lines = docker_stream(docker.engine(), &DockerRuntime::container(&run), &query);
                    let mut lines = std::pin::pin!(lines);
                    while let Some(bytes) = lines.next().await {
                        output.output(bytes).await?;
                    }
                }
            }
            Ok(())
        };
        let over = async { while input.next().await.is_some() {} };
        tokio::select! {
            read = reading => read?,
            () = over => return Err(Gone),
        }
        output.end(0, input).await
    }

    async fn exec(&self, place: Place, input: HostInput, output: HostOutput) -> Result<(), Gone> {
        output.ready().await?;
        match place {
            Place::Process(run) => exec::serve(&self.processes, &run, input, output).await,
            Place::Container(docker, run) => docker::serve(&docker, &run, input, output).await,
        }
    }
}

async fn refuse(missing: Missing, input: HostInput, output: HostOutput) -> Result<(), Gone> {
    match missing {
        Missing::NotFound(text) => output.not_found(text, input).await,
        Missing::Unavailable(text) => output.unavailable(text, input).await,
    }
}
