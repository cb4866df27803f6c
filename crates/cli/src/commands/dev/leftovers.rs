//! What agents leave behind that had to be killed: replicas outlive their agent, each under a shim of its own.
//!
//! The shims are found by the folder of their run, which is an argument of theirs; when one is killed, the kernel kills what it runs.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Kills the replicas of all agents whose state is below this folder. How many there were.
pub fn kill(folder: &Path) -> usize {
    let Ok(folder) = fs::canonicalize(folder) else { return 0 };
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let shims = processes.filter_map(|process| {
        let pid: i32 = process.file_name().to_str()?.parse().ok()?;
        let line = fs::read(process.path().join("cmdline")).ok()?;
        is_shim(&line, &folder).then(|| Pid::from_raw(pid))?
    });
    // It can only fail because the process has just ended.
    shims.filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count()
}

/// `PROGRAM shim FOLDER/...`, as the kernel shows it.
fn is_shim(line: &[u8], folder: &Path) -> bool {
    let mut words = line.split(|byte| *byte == 0).skip(1).filter_map(|word| str::from_utf8(word).ok());
    words.next() == Some("shim") && words.next().is_some_and(|run| Path::new(run).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shims_of_this_folder_are_meant() {
        let folder = Path::new("/home/me/.setpoint");
        assert!(is_shim(b"/proc/self/exe\0shim\0/home/me/.setpoint/a1/runs/x-1\0", folder));
        assert!(!is_shim(b"/proc/self/exe\0shim\0/home/me/.setpoint-other/a1/runs/x-1\0", folder));
        assert!(!is_shim(b"vim\0/home/me/.setpoint/a1/runs/x-1\0", folder));
        assert!(!is_shim(b"", folder));
    }
}
