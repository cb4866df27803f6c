//! The shim: a small process per run that owns its process, keeps what it writes, waits for it and writes down how it ended.
//!
//! It survives the agent. It has one thread and no timers but those it waits with. Everything it is told comes from the run's folder,
//! everything it says goes there (`run_folder`). As a *subreaper* it is the parent of whatever the process leaves behind, so that
//! nothing escapes by losing its parent.
//!
//! It never says that a run has ended while anything of it is alive.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open, set_child_subreaper,
    setsid, wait,
};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use setpoint_types::Timestamp;

use super::log_file::{LogFile, Stream};
use super::run_folder::{Claim, Plan, RunFolder, Started, read_deadline};
use crate::machine::{BootTime, ProcessId, descendants, kill, wall_now};
use crate::runtime::{Cause, Ended, Order};

/// What the agent reads when the process runs.
pub const READY: &[u8] = b"started\n";

/// How often those are looked for that the process left to the shim and that are dead.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// Between two looks whether all of a run is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How much is read from a pipe at once: what a pipe holds.
const PIPE_BYTES: usize = 64 << 10;

/// Runs what the folder says, to its end.
pub fn run(folder: &Path) -> io::Result<()> {
    std::env::set_current_dir(folder)?;
    // Relative from here on: the folder may be moved, or gone.
    let folder = RunFolder::new(".");
    let Some(lock) = folder.lock()? else { return Ok(()) };
    let Some(plan) = folder.plan()? else { return Ok(()) };
    let own = ProcessId::of(std::process::id()).ok_or(io::ErrorKind::NotFound)?;
    if !folder.claim(&Claim::Shim(own))? {
        return Ok(());
    }
    setpoint_failpoint::hit("shim.claimed");
    let ended = match Shim::start(&folder, &plan) {
        Ok(mut shim) => shim.attend(&folder),
        Err(problem) => {
            destroy(&folder, &plan);
            let (started, ended) = (wall_now(), wall_now());
            let (cause, message) = match problem {
                Problem::Fenced => (Cause::Fenced, "the lease of the node had run out".to_owned()),
                Problem::Io(error) => (Cause::NotStarted, error.to_string()),
            };
            Ended { cause, message, started, ended, ..Ended::default() }
        }
    };
    setpoint_failpoint::hit("shim.before-exit-record");
    folder.write_ended(&ended)?;
    plan.cgroup.remove();
    drop(lock);
    Ok(())
}

/// Why nothing was started.
enum Problem {
    Fenced,
    Io(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for Problem {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

struct Shim<'a> {
    plan: &'a Plan,
    child: Pid,
    pidfd: OwnedFd,
    control: File,
    /// None once it has ended.
    outputs: [Option<PipeReader>; 2],
    timer: OwnedFd,
    /// When the timer is due: to look at the deadline, or to kill.
    due: Option<BootTime>,
    log: LogFile,
    started: Timestamp,
    fenced: bool,
    killed: bool,
}

impl<'a> Shim<'a> {
    fn start(folder: &RunFolder, plan: &'a Plan) -> Result<Self, Problem> {
        if deadline(plan).is_some_and(|deadline| deadline <= BootTime::now()) {
            return Err(Problem::Fenced);
        }
        setsid()?;
        set_child_subreaper(Some(getpid()))?;
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.file("control"), Mode::RUSR | Mode::WUSR)?;
        // For reading and writing, so that it has no end when an agent goes.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let control = File::from(rustix::fs::open(folder.file("control"), flags, Mode::empty())?);
        plan.cgroup.create()?;
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = io::pipe()?;
        for pipe in [output.as_fd(), errors.as_fd()] {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let mut launch = Command::new("/proc/self/exe");
        launch.arg("launch").arg(std::process::id().to_string());
        launch.stdin(Stdio::null()).stdout(output_end).stderr(errors_end).env_clear();
        let child = launch.spawn()?;
        // Else the pipes would be held open here, too.
        drop(launch);
        let process = ProcessId::of(child.id()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let child = child.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let started = wall_now();
        let mut shim = Self {
            plan,
            child,
            pidfd: pidfd_open(child, PidfdFlags::empty())?,
            control,
            outputs: [Some(output), Some(errors)],
            timer: timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?,
            due: None,
            log: LogFile::new(folder.file("log"), plan.log_bytes, plan.log_files),
            started,
            fenced: false,
            killed: false,
        };
        shim.wake_at(deadline(plan));
        folder.write_started(&Started { process, at: started, boot_time: BootTime::now() })?;
        setpoint_failpoint::hit("shim.started");
        // The agent may be gone.
        io::stdout().write_all(READY).ok();
        close_stdout();
        Ok(shim)
    }

    /// Until nothing of the run is alive.
    fn attend(&mut self, folder: &RunFolder) -> Ended {
        let status = loop {
            self.wait();
            self.read(Stream::Output);
            self.read(Stream::Errors);
            self.obey();
            self.watch();
            if let Some(status) = self.reap() {
                break status;
            }
        };
        // Who is left is not waited for: the run ends with its process.
        let oom = self.plan.cgroup.oom_kills() > 0;
        destroy(folder, self.plan);
        self.read(Stream::Output);
        self.read(Stream::Errors);
        self.log.finish(wall_now());
        self.ended(status, oom)
    }

    fn ended(&self, status: WaitStatus, oom: bool) -> Ended {
        let problem = std::fs::read_to_string("problem").ok();
        let signal = status.terminating_signal();
        let cause = match problem {
            Some(_) => Cause::NotStarted,
            None if self.fenced => Cause::Fenced,
            None if oom && (signal.is_some() || status.exit_status() > Some(128)) => Cause::OutOfMemory,
            None if self.killed => Cause::Killed,
            None => Cause::Itself,
        };
        let message = problem.unwrap_or_default();
        Ended { code: status.exit_status(), signal, cause, message, started: self.started, ended: wall_now() }
    }

    /// Until something happens.
    fn wait(&self) {
        let mut polled = vec![
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.timer, PollFlags::IN),
        ];
        polled.extend(self.outputs.iter().flatten().map(|output| PollFd::new(output, PollFlags::IN)));
        let timeout = Timespec { tv_sec: i64::try_from(REAP_EVERY.as_secs()).unwrap_or(1), tv_nsec: 0 };
        // Interrupted or not, everything is looked at.
        poll(&mut polled, Some(&timeout)).ok();
    }

    /// Takes what an output has, up to so much that the other one has its turn.
    fn read(&mut self, stream: Stream) {
        let Some(pipe) = &mut self.outputs[stream as usize] else { return };
        let mut bytes = [0; PIPE_BYTES];
        for _ in 0..16 {
            match pipe.read(&mut bytes) {
                Ok(0) => {
                    self.outputs[stream as usize] = None;
                    return;
                }
                Ok(read) => self.log.take(stream, &bytes[..read], wall_now()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn obey(&mut self) {
        let mut orders = [0; 64];
        let read = self.control.read(&mut orders).unwrap_or(0);
        for order in orders[..read].iter().filter_map(|byte| Order::of(*byte)) {
            match order {
                Order::Terminate => self.terminate(),
                Order::Kill => self.kill(),
            }
        }
    }

    /// Looks whether the run may still be there, if that is due.
    fn watch(&mut self) {
        rustix::io::read(&self.timer, &mut [0; 8]).ok();
        let (Some(due), Some(watchdog)) = (self.due, &self.plan.watchdog) else { return };
        if BootTime::now() < due {
            return;
        }
        if self.fenced {
            self.kill();
            self.wake_at(None);
            return;
        }
        match read_deadline(&watchdog.deadline) {
            Some(deadline) if deadline > BootTime::now() => self.wake_at(Some(deadline)),
            // Also if nobody can tell: nobody has said that it may go on.
            _ => {
                self.fenced = true;
                self.terminate();
                self.wake_at(Some(due.after(Duration::from_millis(watchdog.grace_ms))));
            }
        }
    }

    fn terminate(&self) {
        // It is a child that was not waited for: the number is its own.
        kill_process(self.child, Signal::TERM).ok();
    }

    fn kill(&mut self) {
        self.killed = true;
        kill_process(self.child, Signal::KILL).ok();
    }

    fn wake_at(&mut self, due: Option<BootTime>) {
        self.due = due;
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would mean never.
        let value = due.map_or(nothing, |due| Timespec {
            tv_sec: i64::try_from(due.0 / 1000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(due.0 % 1000).unwrap_or(0) * 1_000_000 + 1,
        });
        let setting = Itimerspec { it_interval: nothing, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting).ok();
    }

    /// Takes note of all children that are dead: the process itself, whose end is returned, and those it left behind.
    fn reap(&self) -> Option<WaitStatus> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.child {
                return Some(status);
            }
        }
        None
    }
}

fn deadline(plan: &Plan) -> Option<BootTime> {
    let watchdog = plan.watchdog.as_ref()?;
    Some(read_deadline(&watchdog.deadline).unwrap_or(BootTime(0)))
}

/// Kills all that is left of a run and waits until it is gone.
fn destroy(folder: &RunFolder, plan: &Plan) {
    // First: guests find that the run ends, or are found.
    folder.evict();
    plan.cgroup.kill_all();
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

/// So that the agent, which reads it, sees its end.
fn close_stdout() {
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(nothing).ok();
    }
}
