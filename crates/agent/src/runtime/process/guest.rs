//! A guest: a command that somebody runs in a replica, beside its program. This is the process that watches over it, one per command.
//!
//! It joins the groups of the run, takes on its limits, its environment and its folder as the program did, and starts the command. As a
//! *subreaper* it finds whatever the command leaves behind. It ends all of that when the command ends, when its standard input does
//! (the session is over, or the agent is gone), and when the shim of the run does. It is written down in the run's folder before
//! the command is started, so that the shim ends it before it says that the run has ended.
//!
//! Its standard input is what is meant for the command's, in pieces with their length before; one without anything is the end of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, set_child_subreaper, wait,
};

use super::launch;
use super::run_folder::{Claim, Plan, RunFolder};
use crate::machine::kill;
use crate::machine::{ProcessId, descendants};

/// As a shell says that there is no such program, and that it cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// What a shell adds to the number of a signal.
const BY_SIGNAL: i32 = 128;

/// How often those are looked for that the command left behind and that are dead.
const REAP_EVERY: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Input as it is sent: in pieces, none of which is large.
pub fn pieces(bytes: &[u8]) -> Vec<u8> {
    let pieces = bytes.chunks(PIPE_BYTES).map(|piece| {
        let length = u32::try_from(piece.len()).unwrap_or_default();
        [&length.to_le_bytes()[..], piece].concat()
    });
    pieces.collect::<Vec<_>>().concat()
}

/// The end of the input, as it is sent.
pub const INPUT_END: [u8; 4] = [0; 4];

/// What a pipe holds.
const PIPE_BYTES: usize = 64 << 10;

/// Runs a command in the run of this folder, to its end or the session's.
pub fn run(folder: &Path, command: Vec<OsString>) -> io::Result<ExitCode> {
    let folder = RunFolder::new(std::path::absolute(folder)?);
    let own = ProcessId::of(std::process::id()).ok_or(io::ErrorKind::NotFound)?;
    let guest = folder.register(&own)?;
    let code = attend(&folder, &command);
    drop(guest);
    Ok(match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Whoever asked for the command reads this.
            writeln!(io::stderr(), "setpoint: {}: {error}", name(&command)).ok();
            let missing = error.kind() == io::ErrorKind::NotFound;
            ExitCode::from(if missing { NOT_FOUND } else { NOT_RUN })
        }
    })
}

fn name(command: &[OsString]) -> String {
    command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}

fn attend(folder: &RunFolder, command: &[OsString]) -> io::Result<u8> {
    let ended = || io::Error::other("the replica does not run any more");
    let plan = folder.plan()?.ok_or_else(ended)?;
    let Some(Claim::Shim(shim)) = folder.claimed()? else { return Err(ended()) };
    let pid = i32::try_from(shim.pid).ok().and_then(Pid::from_raw).ok_or_else(ended)?;
    let shim_pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| ended())?;
    launch::prepare(&plan)?;
    // Looked at last: whoever ends the run says so first, and looks for guests and members of its groups after that.
    if !shim.is_alive() || folder.is_ending() {
        return Err(ended());
    }
    set_child_subreaper(Some(getpid()))?;
    launch::enter(&plan)?;
    let mut guest = Guest::start(&plan, command, shim_pidfd)?;
    let status = guest.watch();
    destroy();
    Ok(code(status))
}

/// The exit code of a command; of one that was ended with its session, that of being killed.
fn code(status: Option<WaitStatus>) -> u8 {
    let code = match status {
        Some(status) => status
            .exit_status()
            .or_else(|| status.terminating_signal().map(|signal| BY_SIGNAL + signal))
            .unwrap_or(BY_SIGNAL),
        None => BY_SIGNAL + 9,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

struct Guest {
    child: Pid,
    pidfd: OwnedFd,
    shim: OwnedFd,
    control: File,
    /// None once it has ended.
    stdin: Option<ChildStdin>,
    /// Read, and not whole yet.
    incoming: Vec<u8>,
    /// For the command.
    outgoing: Vec<u8>,
}

impl Guest {
    fn start(plan: &Plan, command: &[OsString], shim: OwnedFd) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let variables = plan.env.iter().map(|(name, value)| (name, value));
        let mut started = Command::new(program);
        started.args(arguments).env_clear().envs(variables).stdin(Stdio::piped());
        let mut child = started.spawn()?;
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        let control = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        rustix::io::ioctl_fionbio(&control, true)?;
        let child =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let pidfd = pidfd_open(child, PidfdFlags::empty())?;
        Ok(Self { child, pidfd, shim, control, stdin, incoming: Vec::new(), outgoing: Vec::new() })
    }

    /// Until the command has ended; none if it has to be ended.
    fn watch(&mut self) -> Option<WaitStatus> {
        loop {
            let over = self.wait();
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                if pid == self.child {
                    return Some(status);
                }
            }
            if over {
                return None;
            }
            self.pass_on();
        }
    }

    /// Until something happens. True: the session or the run is over.
    fn wait(&self) -> bool {
        // What is not taken by the command is not read; that the session is over is told in any case.
        let reads = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        let mut polled = vec![
            PollFd::new(&self.control, reads),
            PollFd::new(&self.shim, PollFlags::IN),
            PollFd::new(&self.pidfd, PollFlags::IN),
        ];
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.outgoing.is_empty()) {
            polled.push(PollFd::new(stdin, PollFlags::OUT));
        }
        // What was read together with what is passed on by now need not be waited for.
        let pause = if self.outgoing.is_empty() && self.has_piece() { Duration::ZERO } else { REAP_EVERY };
        let limit = Timespec { tv_sec: i64::try_from(pause.as_secs()).unwrap_or(1), tv_nsec: 0 };
        // Interrupted or not, everything is looked at.
        poll(&mut polled, Some(&limit)).ok();
        polled[0].revents().contains(PollFlags::HUP) || polled[1].revents().contains(PollFlags::IN)
    }

    fn pass_on(&mut self) {
        if self.outgoing.is_empty() {
            self.read();
        }
        if self.outgoing.is_empty() {
            return;
        }
        let Some(stdin) = &mut self.stdin else {
            self.outgoing.clear();
            return;
        };
        match stdin.write(&self.outgoing) {
            Ok(written) => drop(self.outgoing.drain(..written)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // It takes no more.
            Err(_) => {
                self.stdin = None;
                self.outgoing.clear();
            }
        }
    }

    /// How long the next piece is, if its length is there.
    fn length(&self) -> Option<usize> {
        self.incoming.first_chunk::<4>().map(|head| u32::from_le_bytes(*head) as usize)
    }

    fn has_piece(&self) -> bool {
        self.length().is_some_and(|length| self.incoming.len() >= 4 + length)
    }

    /// The next piece, if it is there.
    fn read(&mut self) {
        if !self.has_piece() {
            let mut bytes = [0; PIPE_BYTES];
            if let Ok(read) = self.control.read(&mut bytes) {
                self.incoming.extend_from_slice(&bytes[..read]);
            }
        }
        while let Some(length) = self.length().filter(|_| self.has_piece()) {
            let piece: Vec<u8> = self.incoming.drain(..4 + length).skip(4).collect();
            if piece.is_empty() {
                // What was sent before it was taken, or is in its pipe.
                self.stdin = None;
                continue;
            }
            self.outgoing = piece;
            return;
        }
    }
}

/// Kills all that is left, and waits until it is gone.
fn destroy() {
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let left = descendants(std::process::id());
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(kill);
        std::thread::sleep(LOOK_AGAIN);
    }
}
