//! Real processes, by real shims: what they write, how they end, and that nothing of them is left. Each with the control groups of this
//! machine, with a tree of version 2 if the machine has one beside its others, and without any.

// What a test was not able to try, or saw when it failed, is said to whoever runs it.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use setpoint_agent::machine::{BootTime, ProcessId};
use setpoint_agent::runtime::process::cgroup::{Hierarchy, Limits};
use setpoint_agent::runtime::process::run_folder::{Claim, RunFolder, write_deadline};
use setpoint_agent::runtime::process::{ProcessRuntime, ProcessSettings};
use setpoint_agent::runtime::{Cause, Ended, Found, Order, RunId, Runtime, Task};
use setpoint_types::Uid;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime in a folder of its own, which takes everything away with it.
struct Bench {
    folder: tempfile::TempDir,
    runtime: ProcessRuntime,
    hierarchy: Hierarchy,
    mount: PathBuf,
    parent: PathBuf,
}

/// Where this machine has its control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Where a real tree of version 2 is mounted.
fn version_2() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|words| words.get(2) == Some(&"cgroup2")).map(|words| PathBuf::from(words[1]))
}

impl Bench {
    fn new(name: &str, with_groups: bool) -> Self {
        Self::at(name, with_groups.then_some(Path::new(CGROUPS)))
    }

    /// With the control groups that are mounted there.
    fn at(name: &str, mount: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let parent = PathBuf::from(format!("setpoint-test-{}-{name}", std::process::id()));
        let hierarchy = mount.map_or(Hierarchy::None, |mount| Hierarchy::detect(mount, &parent));
        let mount = mount.unwrap_or(Path::new(CGROUPS)).to_owned();
        let runtime = Self::runtime(folder.path(), &hierarchy);
        Self { folder, runtime, hierarchy, mount, parent }
    }

    fn runtime(folder: &Path, hierarchy: &Hierarchy) -> ProcessRuntime {
        ProcessRuntime::new(ProcessSettings {
            runs: folder.join("runs"),
            deadline: folder.join("deadline"),
            hierarchy: hierarchy.clone(),
            open_files: Some(256),
            log_bytes: 64 << 10,
            log_files: 2,
            program: env!("CARGO_BIN_EXE_setpoint-agent").into(),
        })
        .expect("a runtime")
    }

    fn task(&self, script: &str) -> Task {
        Task {
            run: RunId { replica: Uid::new("0000-replica"), number: 1 },
            name: "default/test".to_owned(),
            image: None,
            command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            args: Vec::new(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("GREETING".into(), "hello".into())],
            working_dir: None,
            folder: self.folder.path().join("work"),
            limits: Limits::default(),
            endpoints: Vec::new(),
            fence_grace: None,
        }
    }

    fn run_folder(&self, task: &Task) -> RunFolder {
        self.runtime.folder(&task.run)
    }

    async fn end(&self, task: &Task) -> Ended {
        timeout(PATIENCE, self.runtime.wait(&task.run)).await.expect("an end in time").expect("an end")
    }

    fn log(&self, task: &Task) -> String {
        let file = |name| std::fs::read_to_string(self.run_folder(task).file(name)).unwrap_or_default();
        file("log.1") + &file("log")
    }

    /// Waits for a file that a script writes, and reads it.
    async fn written(&self, name: &str) -> String {
        let path = self.folder.path().join("work").join(name);
        let found = async {
            loop {
                match std::fs::read_to_string(&path) {
                    Ok(text) if text.ends_with('\n') => return text,
                    _ => sleep(Duration::from_millis(5)).await,
                }
            }
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("{name} was not written"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.folder.path().join("runs")).into_iter().flatten().flatten() {
            if let Ok(Some(Claim::Shim(shim))) = RunFolder::new(entry.path()).claimed()
                && shim.is_there()
            {
                kill(shim.pid);
            }
        }
        for run in self.hierarchy.runs().unwrap_or_default() {
            let group = self.hierarchy.group(&run, &Limits::default());
            group.kill_all();
            group.remove();
        }
        for tree in ["", "memory", "cpu", "pids", "unified"] {
            std::fs::remove_dir(self.mount.join(tree).join(&self.parent)).ok();
        }
    }
}

fn kill(pid: u32) {
    std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().ok();
}

fn is_there(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Runs a check with and without control groups.
async fn each<F: Future<Output = ()>>(name: &str, check: impl Fn(Bench) -> F) {
    let beside = version_2().filter(|mount| mount != Path::new(CGROUPS));
    for mount in [None, Some(PathBuf::from(CGROUPS))].into_iter().chain(beside.map(Some)) {
        let bench = Bench::at(name, mount.as_deref());
        if let Some(mount) = mount
            && bench.hierarchy == Hierarchy::None
        {
            println!("SKIPPED: {name} with the control groups of {}, which we may not use", mount.display());
            continue;
        }
        check(bench).await;
    }
}

#[tokio::test]
async fn what_it_writes_is_kept_and_its_end_is_told() {
    each("ends", async |bench| {
        let task = bench.task("echo $GREETING; echo oops >&2; pwd; exit 3");
        bench.runtime.start(&task).await.expect("started");
        let ended = bench.end(&task).await;
        assert_eq!((ended.code, ended.signal, ended.cause), (Some(3), None, Cause::Itself));
        let log = bench.log(&task);
        assert!(
            log.contains(" o F hello\n") && log.contains(" e F oops\n") && log.contains("/work\n"),
            "{log}"
        );
        assert!(ended.started.0 > 0 && ended.ended >= ended.started);
    })
    .await;
}

#[tokio::test]
async fn a_process_that_writes_without_end_is_not_held_up_and_fills_no_disk() {
    each("writes", async |bench| {
        let task =
            bench.task("yes 'a line that is written again and again' | head -c 20000000; echo; echo last");
        bench.runtime.start(&task).await.expect("started");
        assert_eq!(bench.end(&task).await.code, Some(0));
        let log = bench.log(&task);
        assert!(log.ends_with(" o F last\n"), "{}", &log[log.len().saturating_sub(100)..]);
        assert!(log.len() <= 2 * (64 << 10), "{} bytes are kept", log.len());
    })
    .await;
}

#[tokio::test]
async fn those_it_leaves_behind_are_ended_with_it() {
    each("leaves", async |bench| {
        // A grandchild in a session of its own that ignores everything.
        let script = "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > grandchild; sleep 1000' & \
                      while ! [ -s grandchild ]; do sleep 0.01; done; exit 0";
        let task = bench.task(script);
        bench.runtime.start(&task).await.expect("started");
        assert_eq!(bench.end(&task).await.code, Some(0));
        let grandchild = bench.written("grandchild").await;
        assert!(!is_there(&grandchild), "the grandchild is alive");
        assert!(bench.hierarchy.runs().expect("the groups").is_empty(), "a group is left");
    })
    .await;
}

#[tokio::test]
async fn who_does_not_listen_is_killed() {
    each("stubborn", async |bench| {
        let task =
            bench.task("trap 'echo asked > asked' TERM; echo ready > ready; while :; do sleep 0.05; done");
        bench.runtime.start(&task).await.expect("started");
        bench.written("ready").await;
        bench.runtime.order(&task.run, Order::Terminate).await.expect("told");
        bench.written("asked").await;
        assert!(matches!(bench.runtime.find(&task.run).await, Ok(Found::Running { .. })));
        bench.runtime.order(&task.run, Order::Kill).await.expect("told");
        let ended = bench.end(&task).await;
        assert_eq!((ended.signal, ended.cause), (Some(9), Cause::Killed));
    })
    .await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told() {
    each("missing", async |bench| {
        let mut task = bench.task("");
        task.command = vec!["./no-such-program".to_owned()];
        bench.runtime.start(&task).await.expect("a shim");
        let ended = bench.end(&task).await;
        assert_eq!(ended.cause, Cause::NotStarted);
        assert!(
            ended.message.contains("no-such-program") && ended.message.contains("No such file"),
            "{}",
            ended.message
        );
        task.run.number = 2;
        task.working_dir = Some("/no/such/folder".to_owned());
        bench.runtime.start(&task).await.expect("a shim");
        assert!(bench.end(&task).await.message.contains("/no/such/folder"));
    })
    .await;
}

#[tokio::test]
async fn too_much_memory_is_named() {
    let bench = Bench::new("memory", true);
    if !matches!(&bench.hierarchy, Hierarchy::V2 { .. } | Hierarchy::V1 { memory: Some(_), .. }) {
        println!("SKIPPED: this machine does not limit memory");
        return;
    }
    let mut task = bench.task("exec tail /dev/zero");
    task.limits.memory_bytes = Some(32 << 20);
    bench.runtime.start(&task).await.expect("started");
    assert_eq!(bench.end(&task).await.cause, Cause::OutOfMemory);
}

#[tokio::test]
async fn an_exclusive_one_is_ended_by_its_shim_when_nobody_renews() {
    each("fenced", async |bench| {
        let deadline = bench.folder.path().join("deadline");
        let in_ms = |ms| BootTime::now().after(Duration::from_millis(ms));
        write_deadline(&deadline, in_ms(1000)).expect("written");
        let mut task = bench.task("trap 'echo asked > asked' TERM; while :; do sleep 0.05; done");
        task.fence_grace = Some(Duration::from_millis(200));
        bench.runtime.start(&task).await.expect("started");
        // Renewed once: the first deadline is not the last.
        let renewed = in_ms(2000);
        write_deadline(&deadline, renewed).expect("written");
        let ended = bench.end(&task).await;
        assert_eq!(ended.cause, Cause::Fenced);
        assert!(BootTime::now() >= renewed, "it was ended before its time");
        bench.written("asked").await;
        // Past the deadline nothing is begun.
        task.run.number = 2;
        std::fs::remove_file(bench.folder.path().join("work/asked")).expect("removed");
        bench.runtime.start(&task).await.expect("a shim");
        assert_eq!(bench.end(&task).await.cause, Cause::Fenced);
    })
    .await;
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_all_of_its_run_with_it() {
    each("lost", async |bench| {
        let task = bench.task("sleep 1000 & echo $! > child; echo $$ > own; wait");
        bench.runtime.start(&task).await.expect("started");
        let (child, own) = (bench.written("child").await, bench.written("own").await);
        let Ok(Some(Claim::Shim(shim))) = bench.run_folder(&task).claimed() else { panic!("no shim") };
        kill(shim.pid);
        let ended = bench.end(&task).await;
        assert_eq!(ended.cause, Cause::Lost);
        assert!(!is_there(&child) && !is_there(&own), "something of it is alive");
    })
    .await;
}

#[tokio::test]
async fn another_agent_takes_up_what_runs_and_sees_its_end() {
    each("adopted", async |bench| {
        let task = bench.task("echo up > up; while ! [ -e go ]; do sleep 0.01; done; exit 7");
        bench.runtime.start(&task).await.expect("started");
        bench.written("up").await;
        let next = Bench::runtime(bench.folder.path(), &bench.hierarchy);
        assert!(matches!(next.find(&task.run).await, Ok(Found::Running { .. })));
        assert_eq!(next.runs().await.expect("the runs"), std::slice::from_ref(&task.run));
        std::fs::write(bench.folder.path().join("work/go"), "").expect("written");
        let ended = timeout(PATIENCE, next.wait(&task.run)).await.expect("in time").expect("an end");
        assert_eq!(ended.code, Some(7));
        assert!(matches!(next.find(&task.run).await, Ok(Found::Ended(ended)) if ended.code == Some(7)));
        next.remove(&task.run).await.expect("removed");
        assert_eq!(next.find(&task.run).await.expect("found"), Found::Never);
    })
    .await;
}

#[tokio::test]
async fn a_run_that_was_given_up_is_never_begun_however_late_its_shim_comes() {
    let bench = Bench::new("late", false);
    let task = bench.task("echo ran > ran");
    let folder = bench.run_folder(&task);
    // As an agent leaves it that died between the plan and the shim.
    bench.runtime.start(&task).await.expect("started");
    bench.end(&task).await;
    let plan = folder.plan().expect("read").expect("a plan");
    std::fs::remove_dir_all(folder.path()).expect("removed");
    std::fs::remove_file(bench.folder.path().join("work/ran")).expect("removed");
    std::fs::create_dir_all(folder.path()).expect("made");
    folder.write_plan(&plan).expect("written");
    assert_eq!(bench.runtime.find(&task.run).await.expect("found"), Found::Never);
    let shim = std::process::Command::new(env!("CARGO_BIN_EXE_setpoint-agent"))
        .arg("shim")
        .arg(folder.path())
        .status();
    assert!(shim.expect("a shim").success());
    assert!(!bench.folder.path().join("work/ran").exists(), "it ran");
}

#[tokio::test]
async fn commands_beside_a_run_tell_their_status_or_are_ended() {
    each("beside", async |bench| {
        let task = bench.task("sleep 1000");
        bench.runtime.start(&task).await.expect("started");
        let command = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let ask = async |script: &str, limit: Duration| {
            bench.runtime.exec(&task, &command(script), limit).await.expect("run")
        };
        assert_eq!(ask("test \"$GREETING\" = hello", PATIENCE).await, Some(0));
        assert_eq!(ask("exit 4", PATIENCE).await, Some(4));
        assert_eq!(ask("echo $$ > hangs; sleep 1000", Duration::from_secs(1)).await, None);
        let hung = bench.written("hangs").await;
        let gone = async {
            while is_there(&hung) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("it is ended");
        bench.runtime.order(&task.run, Order::Kill).await.expect("told");
        bench.end(&task).await;
    })
    .await;
}

#[tokio::test]
async fn a_shim_is_small() {
    let bench = Bench::new("small", false);
    let task = bench.task("sleep 1000");
    bench.runtime.start(&task).await.expect("started");
    let Ok(Some(Claim::Shim(ProcessId { pid, .. }))) = bench.run_folder(&task).claimed() else {
        panic!("no shim")
    };
    let about = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        line.expect("a line").trim().to_owned()
    };
    assert_eq!(about("Threads:"), "1");
    let kilobytes: u64 = about("RssAnon:").trim_end_matches("kB").trim().parse().expect("a number");
    assert!(kilobytes < 2048, "{kilobytes} KiB of its own");
    println!("a shim has {kilobytes} KiB of its own");
}

#[tokio::test]
async fn the_limits_of_a_version_2_tree_are_the_kernels_and_what_is_frozen_can_be_ended() {
    let Some(mount) = version_2() else {
        println!("SKIPPED: no tree of version 2 is mounted");
        return;
    };
    let bench = Bench::at("v2", Some(&mount));
    if bench.hierarchy == Hierarchy::None {
        println!("SKIPPED: the tree at {} is not ours to write", mount.display());
        return;
    }
    assert_eq!(bench.hierarchy.name(), "v2");
    let mut task = bench.task("echo $$ > up; sleep 1000");
    task.limits = Limits {
        memory_bytes: Some(32 << 20),
        cpu_milli: Some(500),
        cpu_reserved_milli: Some(250),
        pids: Some(20),
    };
    bench.runtime.start(&task).await.expect("started");
    let pid = bench.written("up").await;
    let group = mount.join(&bench.parent).join(task.run.to_string());
    let read = |file: &str| std::fs::read_to_string(group.join(file)).expect("a file of the kernel");
    assert!(read("cgroup.procs").lines().any(|line| line == pid.trim()), "it is not in its group");
    let given = std::fs::read_to_string(mount.join("cgroup.controllers")).expect("the controllers");
    for (controller, file, wanted) in [
        ("memory", "memory.max", "33554432"),
        ("memory", "memory.oom.group", "1"),
        ("cpu", "cpu.max", "50000 100000"),
        ("cpu", "cpu.weight", "25"),
        ("pids", "pids.max", "20"),
    ] {
        if given.split_ascii_whitespace().any(|it| it == controller) {
            assert_eq!(read(file).trim(), wanted, "{file}");
        } else {
            println!("SKIPPED: {file}: this tree does not have the controller {controller}");
        }
    }
    // What is frozen does not hear; killed it is all the same, with all that is in the group.
    std::fs::write(group.join("cgroup.freeze"), "1").expect("frozen");
    bench.runtime.order(&task.run, Order::Kill).await.expect("told");
    assert_eq!(bench.end(&task).await.signal, Some(9));
    assert!(!is_there(&pid), "it is alive");
    assert!(!group.exists(), "the group is left");
}
