//! A command in a container, by the engine's own means.
//!
//! The engine has no way to end a command: when the session is over before the command, its processes are killed by their numbers on
//! this host. Where the agent does not see them (it runs in a container itself) a command that does not end with its input goes on
//! until its container ends.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecResults};
use futures::stream::{Stream, StreamExt};
use setpoint_client::{Gone, HostInput, HostOutput, Said};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::machine::kill;
use crate::machine::{ProcessId, descendants};
use crate::runtime::RunId;
use crate::runtime::docker::DockerRuntime;

/// How long the engine may take to say how a command ended, or who it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command that the client says, to its end or the client's.
pub async fn serve(
    docker: &DockerRuntime,
    run: &RunId,
    mut input: HostInput,
    output: HostOutput,
) -> Result<(), Gone> {
    let Some(Said::Run { command, interactive }) = input.next().await else { return Err(Gone) };
    let engine = docker.engine();
    let started = start(engine, &DockerRuntime::container(run), command, interactive).await;
    let (id, outputs, stdin) = match started {
        Ok(started) => started,
        Err(error) => {
            let text = format!("the engine runs no command: {error}");
            return output.unavailable(text, input).await;
        }
    };
    let guard =
        Unfinished { engine: engine.clone(), id: Some(id.clone()), container: DockerRuntime::container(run) };
    let ended = async {
        pass_on(outputs, &output).await?;
        let about = timeout(PATIENCE, engine.inspect_exec(&id)).await;
        let code = about.ok().and_then(Result::ok).and_then(|about| about.exit_code);
        Ok(code.and_then(|code| u32::try_from(code).ok()).unwrap_or(128))
    };
    let code = tokio::select! {
        code = ended => code?,
        () = feed(stdin, interactive, &mut input) => return Err(Gone),
        () = output.closed() => return Err(Gone),
    };
    guard.finished();
    output.end(code, input).await
}

type Outputs = std::pin::Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;
type Stdin = std::pin::Pin<Box<dyn AsyncWrite + Send>>;

async fn start(
    engine: &Docker,
    container: &str,
    command: Vec<String>,
    interactive: bool,
) -> Result<(String, Outputs, Stdin), Error> {
    let options = CreateExecOptions {
        cmd: Some(command),
        attach_stdin: Some(interactive),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..CreateExecOptions::default()
    };
    let id = engine.create_exec(container, options).await?.id;
    match engine.start_exec(&id, None).await? {
        StartExecResults::Attached { output, input } => Ok((id, output, input)),
        StartExecResults::Detached => Err(Error::from(std::io::Error::other("it was started detached"))),
    }
}

async fn pass_on(mut outputs: Outputs, output: &HostOutput) -> Result<(), Gone> {
    while let Some(Ok(written)) = outputs.next().await {
        match written {
            LogOutput::StdErr { message } => output.errors(message).await?,
            LogOutput::StdOut { message } | LogOutput::Console { message } => output.output(message).await?,
            LogOutput::StdIn { .. } => {}
        }
    }
    Ok(())
}

/// Gives a command what the client says, until the session is over.
async fn feed(stdin: Stdin, interactive: bool, input: &mut HostInput) {
    let mut stdin = Some(stdin).filter(|_| interactive);
    while let Some(said) = input.next().await {
        match (said, &mut stdin) {
            // One that has ended is found by its output.
            (Said::Input(bytes), Some(stdin)) => drop(stdin.write_all(&bytes).await),
            (Said::InputEnd, Some(open)) => {
                open.shutdown().await.ok();
                stdin = None;
            }
            _ => {}
        }
    }
}

/// A command that is not known to have ended. Dropped, it is killed.
struct Unfinished {
    engine: Docker,
    id: Option<String>,
    container: String,
}

impl Unfinished {
    fn finished(mut self) {
        self.id = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let (engine, container) = (self.engine.clone(), self.container.clone());
        tokio::spawn(async move { timeout(PATIENCE, end(&engine, &id, &container)).await });
    }
}

/// Kills a command and what it has started, if they can be seen from here.
async fn end(engine: &Docker, id: &str, container: &str) -> Option<()> {
    let about = engine.inspect_exec(id).await.ok()?;
    if about.running != Some(true) {
        return None;
    }
    let pid = u32::try_from(about.pid?).ok().filter(|pid| *pid > 1)?;
    let process = ProcessId::of(pid)?;
    // By a number of another machine, or from another namespace, somebody else could be meant.
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let state =
        engine.inspect_container(container, None::<bollard::query_parameters::InspectContainerOptions>);
    let container_id = state.await.ok()?.id?;
    if !groups.contains(&container_id) {
        tracing::warn!(
            container,
            "a command goes on in a container after its session: it cannot be seen from here"
        );
        return None;
    }
    descendants(pid).into_iter().for_each(kill);
    if process.is_alive() {
        kill(pid);
    }
    Some(())
}
