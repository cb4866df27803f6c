//! Commands beside a container.
//!
//! The engine starts them and tells how they ended, but has no way to end one. One that takes too long is killed by its number on this
//! host; where the agent may not do that, no further one is begun for this run until it has ended, so that they do not pile up.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecResults};
use futures::stream::StreamExt;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::container;
use crate::machine::{descendants, kill};
use crate::runtime::RunId;

/// Commands that took too long, by the run they were begun beside.
#[derive(Default)]
pub struct Overdue {
    begun: Mutex<HashMap<RunId, String>>,
}

impl Overdue {
    /// Nothing is beside this run any more.
    pub fn forget(&self, run: &RunId) {
        self.begun.lock().remove(run);
    }

    /// Whether a command of before still runs.
    async fn is_in_the_way(&self, docker: &Docker, run: &RunId) -> bool {
        let Some(id) = self.begun.lock().get(run).cloned() else { return false };
        let runs = docker.inspect_exec(&id).await.is_ok_and(|about| about.running == Some(true));
        if !runs {
            self.forget(run);
        }
        runs
    }
}

/// Runs a command to its end, and tells its exit status; none if it took too long.
pub async fn exec(
    docker: &Docker,
    run: &RunId,
    command: &[String],
    limit: Duration,
    overdue: &Overdue,
) -> Result<Option<i32>, Error> {
    if overdue.is_in_the_way(docker, run).await {
        return Ok(None);
    }
    let options = CreateExecOptions {
        cmd: Some(command.to_vec()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..CreateExecOptions::default()
    };
    let made = docker.create_exec(&container::name(run), options).await?;
    let attended = async {
        if let StartExecResults::Attached { mut output, .. } = docker.start_exec(&made.id, None).await? {
            while output.next().await.is_some() {}
        }
        let about = docker.inspect_exec(&made.id).await?;
        Ok(about.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1))
    };
    match timeout(limit, attended).await {
        Ok(status) => status.map(Some),
        Err(_) => {
            end(docker, &made.id).await;
            overdue.begun.lock().insert(run.clone(), made.id);
            Ok(None)
        }
    }
}

/// Kills a command and what it has started.
async fn end(docker: &Docker, id: &str) {
    let Ok(about) = docker.inspect_exec(id).await else { return };
    let pid = about.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    let (Some(pid), Some(container), Some(true)) = (pid, about.container_id, about.running) else { return };
    // The number means something else if the engine has other numbers than this process.
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if groups.contains(&container) {
        let started = descendants(pid);
        kill(pid);
        started.into_iter().for_each(kill);
    }
}
