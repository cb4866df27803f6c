//! Control groups: what bounds the memory and processors of a run, and what finds all of its processes when it has to end.
//!
//! - [`hierarchy`]: how this machine mounts them: version 2, version 1 with or without a version 2 beside it, or not for us
//! - this file: the groups of one run, as data that the shim carries out
//!
//! Where there are none (an agent without rights), nothing is limited, and processes are found as descendants of the shim.

mod hierarchy;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use hierarchy::Hierarchy;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// What a run may use. None: as much as there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    /// Thousandths of a processor, at most.
    pub cpu_milli: Option<u64>,
    /// Thousandths of a processor that it has a right to when others want them, too.
    pub cpu_reserved_milli: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// The groups of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Folders to make, in order, with what is written to their files.
    pub folders: Vec<Folder>,
    /// The folder whose `cgroup.kill` ends everything in it at once.
    pub kill: Option<PathBuf>,
    /// The file that tells how often something was killed for lack of memory.
    pub oom: Option<PathBuf>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    pub path: PathBuf,
    /// File and content.
    pub settings: Vec<(String, String)>,
}

/// Between two looks whether a group is empty. Killed processes take about that long to go.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Cgroup {
    /// Makes the groups. What is there already is used.
    pub fn create(&self) -> io::Result<()> {
        for folder in &self.folders {
            fs::create_dir_all(&folder.path)?;
            for (file, content) in &folder.settings {
                fs::write(folder.path.join(file), content)?;
            }
        }
        Ok(())
    }

    /// Puts the calling process, and all it will start, into the groups.
    pub fn join(&self) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| fs::write(folder.path.join("cgroup.procs"), "0"))
    }

    /// Who is in one of the groups, unless dead.
    pub fn members(&self) -> Vec<u32> {
        let mut members: Vec<u32> = self.folders.iter().flat_map(|folder| members(&folder.path)).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// Kills everything in the groups and waits until they are empty. Does not return before: whoever asked wants to know
    /// that nothing runs.
    pub fn kill_all(&self) {
        loop {
            if let Some(folder) = &self.kill {
                // Also ends what is born in this moment. If it fails, the next lines do the same, slower.
                fs::write(folder.join("cgroup.kill"), "1").ok();
            }
            let members = self.members();
            if members.is_empty() {
                return;
            }
            for pid in members {
                kill(pid);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// How often something in the group was killed for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        let text = self.oom.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }

    /// Takes the groups away. They must be empty.
    pub fn remove(&self) {
        for folder in self.folders.iter().rev() {
            fs::remove_dir(&folder.path).ok();
        }
    }
}

pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may be gone by itself.
        kill_process(pid, Signal::KILL).ok();
    }
}

fn members(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
