//! A host of the tests: an agent with a folder and a control group of its own, its way to the store, and what runs there.
//!
//! All hosts are this machine: what belongs to one is told by its folder, which everything that its agent starts works in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use setpoint_cluster_tests::door::Door;

use crate::program::Program;

const CGROUPS: &str = "/sys/fs/cgroup";
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub struct Host {
    pub name: String,
    pub agent: Program,
    /// To each node of the store.
    doors: Vec<Door>,
    state: PathBuf,
    /// The control group of all agents of its name; each has one of its own below.
    group: PathBuf,
    /// Whether it runs containers, too.
    has_engine: bool,
}

impl Host {
    /// Not started yet. `group` is the control group of all hosts of the test.
    pub async fn new(
        name: &str,
        zone: &str,
        http: String,
        folder: &Path,
        group: &str,
        store: &[String],
        socket: &str,
    ) -> Self {
        let mut doors = Vec::new();
        for node in store {
            doors.push(Door::to(node).await.expect("a port"));
        }
        let endpoints: Vec<String> = doors.iter().map(Door::address).collect();
        let state = folder.join(name);
        let agent = Program::new(&format!("agent-{name}"), "setpoint-agent", http, folder)
            .with(&["--name", name, "--zone", zone, "--capacity", "cpu=4,memory=4Gi"])
            .with(&["--endpoints", &endpoints.join(","), "--lease-ttl-seconds", "6"])
            .with(&["--state-dir", &state.display().to_string(), "--cgroup-parent", group])
            .with(&["--docker-socket", socket]);
        let (name, group, has_engine) = (name.to_owned(), Path::new(group).join(name), !socket.is_empty());
        Self { name, agent, doors, state, group, has_engine }
    }

    /// The agent hears nothing from the store, and is not heard.
    pub fn cut(&self) {
        for door in &self.doors {
            door.hold_requests();
            door.hold_answers();
        }
    }

    pub fn mend(&self) {
        self.doors.iter().for_each(Door::open);
    }

    /// The agent and everything it has started, as if the host had lost its power.
    pub fn kill(&mut self) {
        self.agent.kill();
        self.clear();
    }

    /// Ends what the agent has started.
    fn clear(&self) {
        if self.has_engine {
            let remove = format!(
                "docker ps --all --quiet --filter label=setpoint.agent={} | xargs --no-run-if-empty docker rm --force",
                self.mark()
            );
            let _ = Command::new("sh").args(["-c", &remove]).stdout(Stdio::null()).status();
        }
        loop {
            let running = self.processes();
            if running.is_empty() {
                return;
            }
            for pid in running.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
                // It may have ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Everything that runs in this host's folder, but for the agent.
    pub fn processes(&self) -> Vec<u32> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| Some(*pid) != self.agent.pid() && self.is_own(*pid)).collect()
    }

    fn is_own(&self, pid: u32) -> bool {
        let of = |file: &str| PathBuf::from(format!("/proc/{pid}/{file}"));
        // Empty of one that is dead and not waited for.
        let words = fs::read(of("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let folder = format!("{}/", self.state.display());
        let works_there = fs::read_link(of("cwd")).is_ok_and(|folder| folder.starts_with(&self.state));
        !words.is_empty() && (words.contains(&folder) || works_there)
    }

    /// Control groups that runs of this host have.
    pub fn groups(&self) -> Vec<PathBuf> {
        self.trees().iter().flat_map(|tree| folders_in(tree)).collect()
    }

    /// The control group of this host in each tree.
    fn trees(&self) -> Vec<PathBuf> {
        let trees = folders_in(Path::new(CGROUPS)).into_iter().chain([PathBuf::from(CGROUPS)]);
        let group = self.group.join(self.mark());
        trees.map(|tree| tree.join(&group)).filter(|folder| folder.is_dir()).collect()
    }

    /// What everything carries that this host's agent makes.
    pub fn mark(&self) -> String {
        let text = fs::read_to_string(self.state.join("agent.json")).unwrap_or_default();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        written["instance"].as_str().unwrap_or("none").to_owned()
    }

    /// What the agent has written down about replicas and runs.
    pub fn files(&self) -> Vec<PathBuf> {
        ["replicas", "runs"].iter().flat_map(|kind| folders_in(&self.state.join(kind))).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
        for folder in self.groups().iter().chain(&self.trees()) {
            for folder in folder.ancestors().take(3) {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
