//! Replicas as processes of the host.
//!
//! ```text
//! agent ──▶ shim (one per run, survives the agent) ──▶ launch ──becomes──▶ the program
//! ```
//!
//! - [`shim`], [`launch`], [`guest`]: the same binary, with a hidden first argument; a guest is a command beside the program
//! - [`run_folder`]: what agent and shim tell each other
//! - [`cgroup`]: limits, and how all of a run is found
//! - [`log_file`]: what the program wrote
//!
//! This file is the agent's side: it starts shims, finds them again, and settles what became of those that are gone.

pub mod cgroup;
pub mod guest;
pub mod launch;
pub mod log_file;
pub mod run_folder;
pub mod shim;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use self::cgroup::{Cgroup, Hierarchy, Limits};
use self::run_folder::{Claim, Plan, RunFolder, Watchdog};
use super::{Cause, Ended, Found, Order, RunId, Runtime, RuntimeError, Task};
use crate::machine::{ProcessId, in_session, kill, wall_now};

/// How processes are run here.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// Where runs have their folders.
    pub runs: PathBuf,
    /// Where the agent writes until when the lease is good.
    pub deadline: PathBuf,
    pub hierarchy: Hierarchy,
    pub open_files: Option<u64>,
    pub log_bytes: u64,
    pub log_files: u32,
    /// The program of the shim: this one.
    pub program: PathBuf,
}

/// Runs processes.
#[derive(Clone)]
pub struct ProcessRuntime {
    settings: Arc<ProcessSettings>,
}

/// How long a shim that was found alive may take until it says what it started.
const SHIM_PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at a file that a shim is about to write.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl ProcessRuntime {
    pub fn new(settings: ProcessSettings) -> io::Result<Self> {
        fs::create_dir_all(&settings.runs)?;
        Ok(Self { settings: Arc::new(settings) })
    }

    /// The folder of a run: its logs are there.
    pub fn folder(&self, run: &RunId) -> RunFolder {
        RunFolder::new(self.settings.runs.join(run.to_string()))
    }

    /// Starts a command in a run. It ends with its standard input, which is made of [`guest::pieces`], and with the run; none of it is
    /// left when the process has ended.
    pub fn invite(&self, run: &RunId, command: &[String]) -> io::Result<Child> {
        let mut guest = Command::new(&self.settings.program);
        guest.arg("guest").arg(self.folder(run).path()).args(command).env_clear();
        guest.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        guest.spawn()
    }

    /// Whether a run goes on, as far as is written down.
    pub fn is_running(&self, run: &RunId) -> bool {
        let folder = self.folder(run);
        folder.started().is_ok_and(|it| it.is_some()) && folder.ended().is_ok_and(|it| it.is_none())
    }

    fn plan(&self, task: &Task, command: Vec<String>) -> Plan {
        let settings = &self.settings;
        let relative = task.working_dir.as_deref().map_or(Path::new(""), Path::new);
        let watchdog = |grace: Duration| Watchdog {
            deadline: settings.deadline.clone(),
            grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
        };
        Plan {
            program: command,
            env: task.env.clone(),
            folder: task.folder.join(relative),
            cgroup: settings.hierarchy.group(&task.run.to_string(), &task.limits),
            open_files: settings.open_files,
            log_bytes: settings.log_bytes,
            log_files: settings.log_files,
            watchdog: task.fence_grace.map(watchdog),
        }
    }

    async fn begin(&self, task: &Task) -> io::Result<()> {
        let folder = self.folder(&task.run);
        fs::create_dir_all(folder.path())?;
        fs::create_dir_all(&task.folder)?;
        let command = task.command.iter().chain(&task.args).cloned().collect();
        folder.write_plan(&self.plan(task, command))?;
        setpoint_failpoint::hit("agent.planned");
        let mut shim = Command::new(&self.settings.program);
        shim.arg("shim").arg(folder.path()).env_clear();
        // What a test wants to happen in the shim.
        shim.envs(
            std::env::var_os(setpoint_failpoint::VARIABLE).map(|it| (setpoint_failpoint::VARIABLE, it)),
        );
        let complaints = File::create(folder.file("shim.log"))?;
        shim.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        let mut shim = shim.spawn()?;
        setpoint_failpoint::hit("agent.spawned");
        let mut said = Vec::new();
        if let Some(mut stdout) = shim.stdout.take() {
            stdout.read_to_end(&mut said).await?;
        }
        // Whatever it said: it lives, or has written down why not, or `wait` finds that it is gone.
        setpoint_failpoint::hit("agent.started");
        // Reaped by tokio, which otherwise keeps it until it is.
        tokio::spawn(async move { shim.wait().await });
        Ok(())
    }

    /// The same off the async workers: it may have to wait for processes to go.
    async fn settled(&self, run: &RunId) -> io::Result<Settled> {
        let (this, run) = (self.clone(), run.clone());
        tokio::task::spawn_blocking(move || this.settle(&run)).await.map_err(io::Error::other)?
    }

    /// What became of a run, and who watches over it if it goes on.
    fn settle(&self, run: &RunId) -> io::Result<Settled> {
        let folder = self.folder(run);
        if !folder.path().exists() {
            return Ok(Settled::Found(Found::Never));
        }
        if let Some(ended) = folder.ended()? {
            return Ok(Settled::Found(Found::Ended(ended)));
        }
        let Some(lock) = folder.lock()? else {
            let Some(Claim::Shim(shim)) = folder.claimed()? else { return Ok(Settled::Soon) };
            let Some(started) = folder.started()? else { return Ok(Settled::Soon) };
            return Ok(Settled::Alive { shim, found: Found::Running { started: started.at } });
        };
        // No shim lives. One that was started and has not come to its claim finds it taken from now on.
        if folder.claim(&Claim::Void)? || folder.claimed()? == Some(Claim::Void) {
            return Ok(Settled::Found(Found::Never));
        }
        // It may have written its last word between our looks.
        let ended = match folder.ended()? {
            Some(ended) => ended,
            None => self.bury(&folder)?,
        };
        drop(lock);
        Ok(Settled::Found(Found::Ended(ended)))
    }

    /// Ends what is left of a run whose shim died, and writes down that nobody saw how it ended.
    fn bury(&self, folder: &RunFolder) -> io::Result<Ended> {
        folder.evict();
        if let Some(plan) = folder.plan()? {
            plan.cgroup.kill_all();
            plan.cgroup.remove();
        }
        let started = folder.started()?;
        if let Some(started) = &started {
            end_session(&started.process);
        }
        let now = wall_now();
        let message = "what watched over it is gone: the host was started anew, or it was killed".to_owned();
        let started = started.map_or(now, |started| started.at);
        let ended = Ended { cause: Cause::Lost, message, started, ended: now, ..Ended::default() };
        folder.write_ended(&ended)?;
        Ok(ended)
    }

    async fn wait_for(&self, run: &RunId) -> io::Result<Ended> {
        loop {
            match self.settled(run).await? {
                Settled::Found(Found::Ended(ended)) => return Ok(ended),
                Settled::Found(_) => {
                    let now = wall_now();
                    return Ok(Ended {
                        cause: Cause::NotStarted,
                        started: now,
                        ended: now,
                        ..Ended::default()
                    });
                }
                Settled::Soon => tokio::time::sleep(LOOK_AGAIN).await,
                Settled::Alive { shim, .. } => gone(&shim).await?,
            }
        }
    }
}

/// What can be said of a run now.
enum Settled {
    Found(Found),
    /// A shim lives and has not said yet what it started.
    Soon,
    Alive {
        shim: ProcessId,
        found: Found,
    },
}

/// Waits until a process is gone.
async fn gone(process: &ProcessId) -> io::Result<()> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // Looked at after it was opened: from here on the number means this process.
    if !process.is_there() {
        return Ok(());
    }
    #[expect(
        deprecated,
        reason = "it is unsound for types whose descriptor may change; one that is owned does not"
    )]
    let pidfd = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
    drop(pidfd.readable().await?);
    Ok(())
}

/// Kills all of a session whose leader this process is or was.
fn end_session(leader: &ProcessId) {
    loop {
        let left = in_session(leader);
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(kill);
        std::thread::sleep(LOOK_AGAIN);
    }
}

impl Runtime for ProcessRuntime {
    fn prepare<'a>(&'a self, _: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn start<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move {
            let begun = self.begin(task).await;
            if let Err(source) = begun {
                let failed = |source| RuntimeError::Files { run: task.run.clone(), source };
                // Not begun means never begun: if that cannot be written down either, it is not known.
                return match self.settled(&task.run).await {
                    Ok(Settled::Found(Found::Never)) | Err(_) => Err(failed(source)),
                    Ok(_) => Ok(()),
                };
            }
            Ok(())
        }
        .boxed()
    }

    fn find<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Found, RuntimeError>> {
        let failed = |source| RuntimeError::Files { run: run.clone(), source };
        async move {
            let found = async {
                loop {
                    match self.settled(run).await.map_err(failed)? {
                        Settled::Found(found) | Settled::Alive { found, .. } => return Ok(found),
                        Settled::Soon => tokio::time::sleep(LOOK_AGAIN).await,
                    }
                }
            };
            let late = || failed(io::Error::other("its shim lives and does not say what it does"));
            timeout(SHIM_PATIENCE, found).await.unwrap_or_else(|_| Err(late()))
        }
        .boxed()
    }

    fn wait<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Ended, RuntimeError>> {
        let failed = |source| RuntimeError::Files { run: run.clone(), source };
        async move { self.wait_for(run).await.map_err(failed) }.boxed()
    }

    fn order<'a>(&'a self, run: &'a RunId, order: Order) -> BoxFuture<'a, Result<(), RuntimeError>> {
        let sent = self.folder(run).order(order);
        let sent = sent.map(drop).map_err(|source| RuntimeError::Files { run: run.clone(), source });
        std::future::ready(sent).boxed()
    }

    fn exec<'a>(
        &'a self,
        task: &'a Task,
        command: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Option<i32>, RuntimeError>> {
        let failed = |source| RuntimeError::Files { run: task.run.clone(), source };
        async move {
            let plan = serde_json::to_vec(&self.plan(task, command.to_vec())).map_err(io::Error::from);
            let plan = plan.map_err(failed)?;
            let mut beside = Command::new(&self.settings.program);
            beside.arg("beside").env_clear().kill_on_drop(true);
            beside.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = beside.spawn().map_err(failed)?;
            let leader = child.id().and_then(ProcessId::of);
            let run = async {
                if let Some(mut stdin) = child.stdin.take() {
                    stdin.write_all(&plan).await?;
                }
                child.wait().await
            };
            let status = timeout(limit, run).await;
            if status.is_err()
                && let Some(leader) = leader
            {
                // What it started goes with it.
                in_session(&leader).into_iter().for_each(kill);
            }
            match status {
                Ok(status) => Ok(Some(status.map_err(failed)?.code().unwrap_or(-1))),
                Err(_) => Ok(None),
            }
        }
        .boxed()
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunId>, RuntimeError>> {
        let names = fs::read_dir(&self.settings.runs).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let groups = self.settings.hierarchy.runs().unwrap_or_default();
        let mut runs: Vec<RunId> = names.chain(groups).filter_map(|name| RunId::parse(&name)).collect();
        runs.sort();
        runs.dedup();
        std::future::ready(Ok(runs)).boxed()
    }

    fn remove<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        let failed = |source| RuntimeError::Files { run: run.clone(), source };
        let group: Cgroup = self.settings.hierarchy.group(&run.to_string(), &Limits::default());
        let folder = self.folder(run);
        let work = move || {
            group.kill_all();
            group.remove();
            match fs::remove_dir_all(folder.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        async move { tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten().map_err(failed) }
            .boxed()
    }
}
