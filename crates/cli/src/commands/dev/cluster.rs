//! The running cluster: programs are started stage by stage, watched, and stopped in order, with a bound on everything.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::Child;
use super::http;
use super::layout::{AGENT_SECONDS, Layout, Program, Stage};
use crate::session::Session;

/// How long a stage may take until all of it is ready: an election and a first sync, on a machine that is busy.
const READY: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "there is no {binary} beside this program (looked for {looked_at}); build all of them: make build"
    )]
    Missing { binary: &'static str, looked_at: PathBuf },
    #[error("{name} cannot be started")]
    Start {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("{name} has ended ({how}); the end of its log, {log}:\n{tail}")]
    Ended { name: String, how: String, log: PathBuf, tail: String },
    #[error("{name} is not ready after {} seconds: {problem}; the end of its log, {log}:\n{tail}", READY.as_secs())]
    NotReady { name: String, problem: String, log: PathBuf, tail: String },
}

/// Everything that was started.
#[derive(Default)]
pub struct Cluster {
    children: Vec<Child>,
}

impl Cluster {
    /// Starts all programs; returns when all of them are ready.
    pub async fn start(
        &mut self,
        layout: &Layout,
        programs: &[Program],
        session: &mut Session,
    ) -> Result<(), ClusterError> {
        let folder = std::env::current_exe().ok().and_then(|own| own.parent().map(PathBuf::from));
        let folder = folder.unwrap_or_default();
        let file = |program: &Program| folder.join(program.binary);
        if let Some(missing) = programs.iter().find(|it| !file(it).is_file()) {
            return Err(ClusterError::Missing { binary: missing.binary, looked_at: file(missing) });
        }
        for stage in Stage::STARTED {
            let of_stage: Vec<&Program> = programs.iter().filter(|it| it.stage == stage).collect();
            for program in &of_stage {
                let started = Child::start(program, &file(program), &layout.log(&program.name));
                let failed = |source| ClusterError::Start { name: program.name.clone(), source };
                self.children.push(started.map_err(failed)?);
            }
            let names: Vec<&str> = of_stage.iter().map(|it| it.name.as_str()).collect();
            session.note(format!("  {}: starting", names.join(", ")));
            self.ready(stage).await?;
            session.note(format!("  {}: ready", names.join(", ")));
        }
        Ok(())
    }

    async fn ready(&mut self, stage: Stage) -> Result<(), ClusterError> {
        let deadline = Instant::now() + READY;
        let mut waiting: Vec<usize> =
            (0..self.children.len()).filter(|at| self.children[*at].stage == stage).collect();
        while let Some(at) = waiting.last().copied() {
            self.check()?;
            let child = &self.children[at];
            let problem = match http::get(&format!("127.0.0.1:{}", child.http), "/readyz").await {
                Some((200, _)) => {
                    waiting.pop();
                    continue;
                }
                Some((_, answer)) => answer,
                None => "it does not answer".to_owned(),
            };
            if Instant::now() >= deadline {
                let (name, log) = (child.name.clone(), child.log.clone());
                return Err(ClusterError::NotReady { name, problem, log, tail: child.log_tail() });
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// The first program that has ended though nobody stopped it.
    fn check(&mut self) -> Result<(), ClusterError> {
        for child in &mut self.children {
            if let Some(status) = child.ended() {
                let (name, log) = (child.name.clone(), child.log.clone());
                let tail = child.log_tail();
                return Err(ClusterError::Ended { name, how: status.to_string(), log, tail });
            }
        }
        Ok(())
    }

    /// Goes on until a program ends.
    pub async fn watch(&mut self) -> ClusterError {
        loop {
            if let Err(ended) = self.check() {
                return ended;
            }
            sleep(POLL).await;
        }
    }

    /// Stops everything, stage by stage. What does not stop in time is killed, and named in the answer.
    pub async fn stop(&mut self) -> Vec<String> {
        let mut killed = Vec::new();
        for stage in Stage::STOPPED {
            let mut of_stage: Vec<&mut Child> =
                self.children.iter_mut().filter(|child| child.stage == stage).collect();
            of_stage.iter_mut().for_each(|child| child.terminate());
            let deadline = Instant::now() + patience(stage);
            while of_stage.iter_mut().any(|child| child.ended().is_none()) && Instant::now() < deadline {
                sleep(POLL).await;
            }
            for child in of_stage {
                if child.ended().is_none() {
                    child.kill();
                    killed.push(child.name.clone());
                }
            }
        }
        self.children.clear();
        killed
    }
}

/// How long a stage may take to stop.
fn patience(stage: Stage) -> Duration {
    match stage {
        Stage::Agents => Duration::from_secs(AGENT_SECONDS + 5),
        Stage::Deciders | Stage::Nodes => Duration::from_secs(10),
    }
}
