//! A server process that never outlives the benchmark.
//!
//! Dropping it kills it and waits for its end, which covers errors, panics and Ctrl-C (the run is then dropped).
//! Should the benchmark itself be killed, the kernel ends the server, provided `setpriv` is installed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SETPRIV: &str = "/usr/bin/setpriv";
/// How much of a log is quoted when a node fails.
const LAST_WORDS_BYTES: u64 = 1_200;

#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the command with its output appended to `log`.
    pub fn start(command: Command, log: &Path) -> io::Result<Self> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let errors = output.try_clone()?;
        let mut command = ending_with_parent(command);
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends it at once (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks it to end (SIGTERM) and waits; kills it if it has not ended within `patience`.
    pub fn terminate(&mut self, patience: Duration) -> io::Result<()> {
        // The standard library only knows SIGKILL, and every system has a shell that knows the others.
        Command::new("/bin/sh").arg("-c").arg(format!("kill -TERM {}", self.pid())).status()?;
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            if started.elapsed() > patience {
                return self.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The end of its log, on one line.
    pub fn last_words(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error here means that it has ended already, which is all that is wanted.
        let _ = self.kill();
    }
}

fn ending_with_parent(command: Command) -> Command {
    if !Path::new(SETPRIV).exists() {
        return command;
    }
    // `setpriv` replaces itself by the program, so the process id is that of the server.
    let mut wrapped = Command::new(SETPRIV);
    wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().replace('\n', " | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Process::start(command, log).expect("a shell can be started")
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let process = shell("sleep 100", &folder.path().join("log"));
        let pid = process.pid();
        assert!(is_alive(pid));
        drop(process);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_process_that_ignores_the_request_is_killed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        let mut process = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", &log);
        while process.last_words() != "ready" {
            std::thread::sleep(Duration::from_millis(5));
        }
        process.terminate(Duration::from_millis(100)).expect("it can be killed");
        assert!(!is_alive(process.pid()));
    }

    #[test]
    fn the_end_of_the_log_is_quoted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut process = shell("echo one; echo two >&2; exit 3", &folder.path().join("log"));
        while process.ended().expect("its state is known").is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(process.last_words(), "one | two");
    }
}
