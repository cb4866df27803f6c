//! What this machine says of itself: its clocks, when it was started, and which process a number means.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use setpoint_types::Timestamp;

/// Milliseconds since the machine was started, those it slept included. Never goes back; means nothing after a restart of
/// the machine or on another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BootTime(pub u64);

impl BootTime {
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Self(seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000)
    }

    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long until then; nothing if it is past.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

/// The time of day, for what people read.
pub fn wall_now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the agent's shell and the shim are sources of time")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Another one after every start of the machine.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// One process, and none that has its number later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// When it was started, in ticks since the machine was.
    pub started_ticks: u64,
    pub boot_id: String,
}

impl ProcessId {
    /// The process that has this number now; none if nobody has.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started_ticks: started_ticks(pid)?, boot_id: boot_id() })
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        let alive = |(state, _, started): (char, u32, u64)| {
            started == self.started_ticks && !matches!(state, 'Z' | 'X')
        };
        boot_id() == self.boot_id && stat(self.pid).is_some_and(alive)
    }

    /// Whether it still runs (or waits to be reaped).
    pub fn is_there(&self) -> bool {
        boot_id() == self.boot_id && started_ticks(self.pid) == Some(self.started_ticks)
    }
}

/// The parent of a process, and when it was started: the 4th and 22nd words of `/proc/PID/stat`, counted behind the name,
/// which may hold anything.
fn stat(pid: u32) -> Option<(char, u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let words: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some((words.first()?.chars().next()?, words.get(1)?.parse().ok()?, words.get(19)?.parse().ok()?))
}

fn started_ticks(pid: u32) -> Option<u64> {
    stat(pid).map(|(_, _, started)| started)
}

/// The processes of the session that this process leads, or led before it died, without those that are dead already.
pub fn in_session(leader: &ProcessId) -> Vec<u32> {
    // The number of a session is not given to another process while one of its members is there. If somebody else has it,
    // the session is no more.
    let usurped = started_ticks(leader.pid).is_some_and(|started| started != leader.started_ticks);
    if usurped || boot_id() != leader.boot_id {
        return Vec::new();
    }
    let is_member = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let words = text.rsplit_once(')').map_or("", |(_, words)| words);
        let mut words = words.split_ascii_whitespace();
        let alive = words.next().is_some_and(|state| !matches!(state, "Z" | "X"));
        alive && words.nth(2).and_then(|session| session.parse().ok()) == Some(leader.pid)
    };
    numbers().filter(is_member).collect()
}

fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

/// Kills a process. Nothing happens if it is gone by itself.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::KILL).ok();
    }
}

/// All processes that descend from one, without it and without those that are dead already.
pub fn descendants(of: u32) -> Vec<u32> {
    let all: Vec<(u32, char, u32)> =
        numbers().filter_map(|pid| stat(pid).map(|(state, parent, _)| (pid, state, parent))).collect();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|(_, _, of)| *of == parent).map(|(pid, _, _)| *pid));
        next += 1;
    }
    let dead = |pid: &u32| all.iter().any(|(other, state, _)| other == pid && matches!(state, 'Z' | 'X'));
    found.into_iter().skip(1).filter(|pid| !dead(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let own = ProcessId::of(std::process::id()).expect("this process");
        assert!(own.is_there());
        assert!(!ProcessId { started_ticks: own.started_ticks + 1, ..own.clone() }.is_there());
        assert!(!ProcessId { boot_id: "another".into(), ..own }.is_there());
    }

    #[test]
    fn children_are_found_until_they_are_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        assert!(descendants(std::process::id()).contains(&child.id()));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(!descendants(std::process::id()).contains(&child.id()));
    }
}
