//! One started program: its process, its log, its end.
//!
//! It runs in a process group of its own, so that Ctrl-C in a terminal reaches only `setpoint dev`, which then stops everything
//! in order. It is told to stop by the kernel if `setpoint dev` itself is killed: for that, `setpoint` is started in between
//! and becomes the program ([`become_program`]), since nothing may happen between fork and exec.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use super::layout::{Program, Stage};

/// Lines of its log that a message about a program carries.
const TAIL_LINES: usize = 15;
/// Where they are looked for.
const TAIL_BYTES: u64 = 16 << 10;

pub struct Child {
    pub name: String,
    pub stage: Stage,
    pub http: u16,
    pub log: PathBuf,
    process: Process,
}

impl Child {
    /// Starts the program of this file. What it wrote in the run before is kept beside, as `.log.1`.
    pub fn start(program: &Program, file: &Path, log: &Path) -> io::Result<Self> {
        if log.exists() {
            fs::rename(log, log.with_extension("log.1"))?;
        }
        let output = File::create(log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["dev", "--child-of", &std::process::id().to_string(), "--"]).arg(file);
        command.args(&program.arguments);
        // Whoever started us may have settings for a cluster of their own.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"SETPOINT_") {
                command.env_remove(name);
            }
        }
        command.envs(program.environment.iter().map(|(name, value)| (*name, value)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let process = command.spawn()?;
        let (name, stage, http) = (program.name.clone(), program.stage, program.http);
        Ok(Self { name, stage, http, log: log.to_owned(), process })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) {
        // One that has ended and was waited for: its number may be another's by now.
        if self.ended().is_some() {
            return;
        }
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It can only fail because the process has just ended.
            let _ = kill_process(pid, signal);
        }
    }

    pub fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }
}

/// A child that nobody stopped is not left behind.
impl Drop for Child {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
            let _ = self.process.wait();
        }
    }
}

/// The last lines of a file.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
}

/// Becomes the program, which is told to stop when the parent ends. Returns only if that failed.
pub fn become_program(parent: u32, program: &[OsString]) -> io::Error {
    let Some((file, arguments)) = program.split_first() else {
        return io::Error::other("there is no program to become");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return error.into();
    }
    let is_there = getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent));
    match is_there {
        true => Command::new(file).args(arguments).exec(),
        false => io::Error::other("`setpoint dev` has ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_of_a_file_however_long_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let text: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
        fs::write(&path, text).expect("written");
        let tail = tail(&path).expect("read");
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("line 9999"), "{tail}");
    }
}
