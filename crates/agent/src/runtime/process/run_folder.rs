//! The folder of one run: what agent and shim tell each other, file by file.
//!
//! ```text
//! plan.json     what to run; by the agent, before it starts the shim
//! lock          held by the shim as long as it lives
//! claim.json    who decided the fate of the run: the shim that starts it, or an agent that found it never started. Made once
//! started.json  the process
//! exit.json     how it ended: nothing of the run is alive any more. By the shim; by an agent if the shim died
//! control       a pipe by which the agent tells the shim to stop the process
//! problem       why the program could not be started
//! guest-PID-TICKS  a command that somebody runs beside it; there as long as that lives
//! ending        the run ends: nothing more is begun in it
//! log, log.1 …  what it wrote
//! ```
//!
//! A run happens once because its claim is made once: a shim that comes late finds it taken and ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use setpoint_types::Timestamp;

use super::cgroup::Cgroup;
use crate::durable;
use crate::machine::{BootTime, ProcessId, boot_id, descendants, kill};
use crate::runtime::{Ended, Order};

/// What to run, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub program: Vec<String>,
    pub env: Vec<(String, String)>,
    pub folder: PathBuf,
    pub cgroup: Cgroup,
    /// Open files, at most; none: as the agent has.
    pub open_files: Option<u64>,
    pub log_bytes: u64,
    pub log_files: u32,
    pub watchdog: Option<Watchdog>,
}

/// Stops a run that may not outlive its node's lease, also if the agent is gone or hangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watchdog {
    /// Where the agent writes until when the lease is good.
    pub deadline: PathBuf,
    /// From the deadline until it is killed.
    pub grace_ms: u64,
}

/// Who decided the fate of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// This shim starts it.
    Shim(ProcessId),
    /// Nobody ever will.
    Void,
}

/// The process of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub process: ProcessId,
    pub at: Timestamp,
    pub boot_time: BootTime,
}

/// What the files of guests begin with.
const GUEST: &str = "guest-";
/// Between two looks whether a guest is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A guest that is written down.
pub struct Registered(PathBuf);

impl Drop for Registered {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// The folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write_plan(&self, plan: &Plan) -> io::Result<()> {
        durable::replace(&self.file("plan.json"), plan)
    }

    pub fn plan(&self) -> io::Result<Option<Plan>> {
        durable::read(&self.file("plan.json"))
    }

    /// Decides the fate of the run. False: it is decided.
    pub fn claim(&self, claim: &Claim) -> io::Result<bool> {
        durable::create_new(&self.file("claim.json"), claim)
    }

    pub fn claimed(&self) -> io::Result<Option<Claim>> {
        durable::read(&self.file("claim.json"))
    }

    pub fn write_started(&self, started: &Started) -> io::Result<()> {
        durable::replace(&self.file("started.json"), started)
    }

    pub fn started(&self) -> io::Result<Option<Started>> {
        durable::read(&self.file("started.json"))
    }

    pub fn write_ended(&self, ended: &Ended) -> io::Result<()> {
        durable::replace(&self.file("exit.json"), ended)
    }

    pub fn ended(&self) -> io::Result<Option<Ended>> {
        durable::read(&self.file("exit.json"))
    }

    /// Writes down a guest. It is there until what is returned is dropped.
    pub fn register(&self, guest: &ProcessId) -> io::Result<Registered> {
        let path = self.file(&format!("{GUEST}{}-{}", guest.pid, guest.started_ticks));
        File::options().create_new(true).write(true).open(&path)?;
        Ok(Registered(path))
    }

    /// Those that are written down, whether they live or not.
    fn guests(&self) -> Vec<ProcessId> {
        let names = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let read = |name: &str| {
            let (pid, ticks) = name.strip_prefix(GUEST)?.split_once('-')?;
            let (pid, started_ticks) = (pid.parse().ok()?, ticks.parse().ok()?);
            Some(ProcessId { pid, started_ticks, boot_id: boot_id() })
        };
        names.filter_map(|entry| read(entry.file_name().to_str()?)).collect()
    }

    /// Nothing more is begun in the run from now on, and guests that there are are ended with all they have started. Returns when
    /// they are gone.
    pub fn evict(&self) {
        // A folder that is gone has no guests either.
        File::create(self.file("ending")).ok();
        for guest in self.guests() {
            while guest.is_alive() {
                let left = descendants(guest.pid);
                match left.is_empty() {
                    // Last: while it lives, nothing that it left behind is lost.
                    true => kill(guest.pid),
                    false => left.into_iter().for_each(kill),
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    pub fn is_ending(&self) -> bool {
        self.file("ending").exists()
    }

    /// The lock that the shim holds. None: somebody has it.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let file = File::options().create(true).truncate(false).write(true).open(self.file("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Tells the shim. False: there is none that listens.
    pub fn order(&self, order: Order) -> io::Result<bool> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = match rustix::fs::open(self.file("control"), flags, Mode::empty()) {
            Ok(pipe) => pipe,
            Err(rustix::io::Errno::NXIO | rustix::io::Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match rustix::io::write(&pipe, &[order.byte()]) {
            // Full of orders that say the same.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(true),
            Err(rustix::io::Errno::PIPE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Until when the lease of the node is good, as the agent tells the watchdogs: 20 digits, so that no reader finds half of it.
pub fn write_deadline(path: &Path, deadline: BootTime) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    file.write_all_at(format!("{:020}\n", deadline.0).as_bytes(), 0)
}

/// What the agent wrote last. None: nothing that can be read.
pub fn read_deadline(path: &Path) -> Option<BootTime> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok().map(BootTime)
}
