//! A server process of a test: its output goes to a log file, it never outlives its owner.
//!
//! Children stay in the test's process group, so whoever kills the test (a timeout of the test runner, Ctrl-C) ends
//! them too; dropping a [`ServerProcess`] kills it in every other case.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::HarnessError;

/// How long a server may take until it serves.
const READY_SECONDS_MAX: u64 = 60;
/// How long a server may take to end after it was asked to.
const STOP_SECONDS_MAX: u64 = 20;
const POLL: Duration = Duration::from_millis(20);
/// Lines of a log that a message carries.
pub const TAIL_LINES: usize = 40;

/// A server of one or more processes.
pub trait Server: Send + Sync {
    /// The name of a process that has ended although it should be running.
    fn fallen(&mut self) -> Option<String>;
    /// The end of every log, with names.
    fn log_tails(&self) -> String;
}

#[derive(Debug)]
pub struct ServerProcess {
    name: String,
    log: PathBuf,
    child: Child,
}

impl ServerProcess {
    /// Starts the program. Its output is appended to the log, so that a restarted server's log stays one story.
    pub fn spawn(name: &str, program: &Path, arguments: &[String], log: &Path) -> Result<Self, HarnessError> {
        Self::spawn_with(name, program, arguments, &[], log)
    }

    /// The same with variables added to the environment.
    pub fn spawn_with(
        name: &str,
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> Result<Self, HarnessError> {
        let open = |path: &Path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.map_err(|source| HarnessError::File { path: path.to_owned(), source })
        };
        let output: File = open(log)?;
        let errors: File = open(log)?;
        let child = Command::new(program)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|source| HarnessError::Spawn { program: program.to_owned(), source })?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), child })
    }

    /// Waits until the path answers 200.
    pub async fn ready(&mut self, address: &str, path: &str) -> Result<(), HarnessError> {
        let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = tail(&self.log, TAIL_LINES);
                return Err(HarnessError::ExitedEarly { name: self.name.clone(), status, log });
            }
            if http_status(address, path).await == Some(200) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        let log = tail(&self.log, TAIL_LINES);
        Err(HarnessError::NotReady { name: self.name.clone(), seconds: READY_SECONDS_MAX, log })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process, which must not have been waited for.
    pub fn signal(&self, signal: Signal) -> Result<(), HarnessError> {
        let pid = self.child.id();
        let failed = |source: std::io::Error| HarnessError::Signal { pid, source };
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let target = raw.ok_or_else(|| failed(std::io::Error::other("not a process id")))?;
        kill_process(target, signal).map_err(|errno| failed(errno.into()))
    }

    /// Ends the process without giving it a chance to do anything.
    pub fn kill(&mut self) {
        // Fails only if the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the process to end, and kills it if it does not. `None` if it had to be killed.
    pub async fn stop(&mut self) -> Result<Option<ExitStatus>, HarnessError> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Ok(Some(status));
        }
        self.signal(Signal::TERM)?;
        let ended = self.ended().await;
        if ended.is_none() {
            self.kill();
        }
        Ok(ended)
    }

    /// Waits for the process to end; `None` if it does not within the time that a stop may take.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            tokio::time::sleep(POLL).await;
        }
        None
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a log.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The status code of a plain HTTP GET; `None` if the server does not answer.
pub async fn http_status(address: &str, path: &str) -> Option<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut response = [0_u8; 12];
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        stream.read_exact(&mut response).await.ok()?;
        // "HTTP/1.1 200"
        std::str::from_utf8(&response[9..12]).ok()?.parse().ok()
    };
    tokio::time::timeout(Duration::from_secs(2), exchange).await.ok().flatten()
}
