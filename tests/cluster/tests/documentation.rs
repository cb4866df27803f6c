//! The commands in README.md and docs/operations.md, run as they stand.
//!
//! Every block of the kind `sh` is run, in order, in one folder, by bash. Three things differ from a reader's machine: the
//! programs are those built beside this test, `74` at the start of a port becomes another number, so that nothing else on
//! the machine is in the way, and a node that a reader would watch in a terminal of its own runs in the background.
//! `make` lines are not run; their targets have to exist. Blocks with `etcdctl` need one (`scripts/etcd-peer`) and are
//! passed over, with a line that says so, where there is none.
//!
//! A command is tried until it succeeds, as a reader would who waits for an election or for a node that still catches up.
//!
//! The nodes have a small quota, and it is used up before the documents tell how to make room. That recipe has to work at
//! once, line by line.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use setpoint_etcd_tests::cluster::{scratch_directory, setpointd};
use setpoint_etcd_tests::peer::EtcdBinaries;
use setpoint_etcd_tests::skip::skipped;
use tempfile::TempDir;

const DOCUMENTS: [&str; 2] = ["README.md", "docs/operations.md"];
/// Little, so that it is soon used up.
const QUOTA_BYTES: &str = "4000000";
/// How long to wait.
const PATIENCE: Duration = Duration::from_secs(90);
/// Complaints that no waiting will mend.
const WRONG: [&str; 5] =
    ["unexpected argument", "unknown flag", "unknown shorthand", "unknown command", "command not found"];

/// The blocks of shell commands in a document.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => open = Some((kind.trim() == "sh", String::new())),
            (None, None) => {}
            (Some(_), Some(_)) => {
                if let Some((true, block)) = open.take() {
                    blocks.push(block);
                }
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// A reader's folder, with the programs, and everything that was started from it.
struct Desk {
    folder: TempDir,
    root: PathBuf,
    path: String,
    ports: String,
    has_etcdctl: bool,
    running: Vec<Running>,
}

/// A process that stays until the end.
enum Running {
    Node(Child),
    /// A shell that ends what it started in the background when it is told to end.
    Shell(Child),
}

impl Desk {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = scratch_directory().expect("a folder");
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).expect("made");
        let server = setpointd().expect("the program is built");
        symlink(server.with_file_name("setpoint"), bin.join("setpoint")).expect("linked");
        symlink(server, bin.join("setpointd")).expect("linked");
        let etcdctl = EtcdBinaries::find();
        match &etcdctl {
            Ok(found) => symlink(found.etcdctl(), bin.join("etcdctl")).expect("linked"),
            Err(reason) => skipped(&format!("blocks with etcdctl ({reason})")),
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let has_etcdctl = etcdctl.is_ok();
        Self { folder, root, path, ports: free_hundred(), has_etcdctl, running: Vec::new() }
    }

    /// The cluster that `make run` starts, until the sample serves.
    fn make_run(&mut self) {
        let dev = self.spawn(&format!("exec setpoint dev --port-base {}00", self.ports));
        self.running.push(Running::Shell(dev));
        let deadline = Instant::now() + PATIENCE;
        let log = self.folder.path().join(format!("{}.log", self.running.len() - 1));
        while !fs::read_to_string(&log).unwrap_or_default().contains("serves. One of its replicas:") {
            assert!(Instant::now() < deadline, "the sample does not serve\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn bash(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(self.folder.path());
        command.env("SETPOINT_QUOTA_BYTES", QUOTA_BYTES).env("ETCDCTL_COMMAND_TIMEOUT", "60s");
        command.env("PATH", &self.path).stdin(Stdio::null());
        // The machine may be busy with something else.
        command.env("SETPOINT_ELECTION_TIMEOUT", "5s");
        command
    }

    /// Starts a script with its output in a log.
    fn spawn(&self, script: &str) -> Child {
        let log = File::create(self.folder.path().join(format!("{}.log", self.running.len()))).expect("made");
        let mut command = self.bash(script);
        command.stdout(log.try_clone().expect("a handle")).stderr(log);
        command.spawn().expect("bash starts")
    }

    /// Starts a node that stays, and waits until it is ready, as a reader would before going on.
    fn background(&mut self, script: &str) {
        let address = script.split("--listen-http ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let health = format!("setpointd health --endpoint {}", address.expect("a node has an address"));
        let deadline = Instant::now() + PATIENCE;
        let mut node = self.spawn(script);
        while let Err(problem) = self.once(&health) {
            let ended = node.try_wait().expect("a child").is_some();
            let hopeless = ended && WRONG.iter().any(|wrong| self.log().contains(wrong));
            if hopeless || Instant::now() >= deadline {
                let _ = node.kill();
                panic!("{script}\n{problem}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(300));
            if ended {
                // An election was under way, or another node was just joining.
                node = self.spawn(script);
            }
        }
        self.running.push(Running::Node(node));
    }

    /// What the process started last has said.
    fn log(&self) -> String {
        let log = self.folder.path().join(format!("{}.log", self.running.len()));
        fs::read_to_string(log).unwrap_or_default()
    }

    /// Runs a script once; the output if it fails.
    fn once(&self, script: &str) -> Result<(), String> {
        let output = self.folder.path().join("output");
        let file = File::create(&output).expect("made");
        let mut command = self.bash(script);
        command.stdout(file.try_clone().expect("a handle")).stderr(file);
        let status = command.status().expect("bash starts");
        if status.success() {
            return Ok(());
        }
        Err(format!("{status}: {}", fs::read_to_string(output).unwrap_or_default()))
    }

    fn patiently(&self, script: &str) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(problem) = self.once(script) {
            let hopeless = WRONG.iter().any(|wrong| problem.contains(wrong));
            assert!(!hopeless && Instant::now() < deadline, "{script}\n{problem}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn logs(&self) -> String {
        let read = |place: usize| fs::read_to_string(self.folder.path().join(format!("{place}.log"))).ok();
        let tail = |text: String| text.lines().rev().take(5).collect::<Vec<_>>().join("\n");
        (0..=self.running.len()).filter_map(read).map(tail).collect::<Vec<_>>().join("\n--\n")
    }

    fn block(&mut self, block: &str) {
        if block.contains("etcdctl") && !self.has_etcdctl {
            return;
        }
        let block = block.replace("127.0.0.1:74", &format!("127.0.0.1:{}", self.ports));
        if block.contains("alarm disarm") {
            self.use_up_the_quota();
        }
        let mut variables = String::new();
        for command in commands(&block) {
            // A reader's cluster is on the default ports, where the command line looks for it.
            let at = if command.starts_with("./bin/setpoint ") {
                "export SETPOINT_CONFIG=.setpoint/dev-config\n"
            } else {
                ""
            };
            let script = format!("{at}{variables}{command}");
            if let Some(target) = command.trim().strip_prefix("make ") {
                self.target_exists(target);
                if target == "run" {
                    self.make_run();
                }
            } else if is_assignment(&command) {
                variables = script;
            } else if command.starts_with("setpointd --") || command.starts_with("./bin/setpointd --") {
                self.background(&format!("{variables}exec {command}"));
            } else if command.contains("&\n") {
                let shell = self.spawn(&format!("trap 'kill -9 $(jobs -p)' TERM\n{script}\nwait"));
                self.running.push(Running::Shell(shell));
            } else if command.contains(" watch ") {
                // Goes on until it is interrupted, which is what has to be seen of it.
                self.patiently(&format!("{variables}timeout 3 {} || test $? = 124", command.trim()));
            } else if block.contains("alarm disarm") && !command.starts_with("until ") {
                self.at_once(&script);
            } else {
                self.patiently(&script);
            }
        }
        if block.contains("alarm disarm") {
            self.every_node_takes_a_put();
        }
    }

    /// Puts until there is no room left.
    fn use_up_the_quota(&self) {
        let endpoint = format!("127.0.0.1:{}10", self.ports);
        self.at_once(&format!(
            "value=$(head -c 100000 /dev/zero | tr '\\0' x)
            for n in $(seq 1000); do
              if ! said=$(etcdctl --endpoints {endpoint} put large/$((n % 5)) $value 2>&1); then
                grep 'database space exceeded' <<<$said; exit
              fi
            done
            exit 1"
        ));
    }

    fn every_node_takes_a_put(&self) {
        for node in 1..=3 {
            self.at_once(&format!("etcdctl --endpoints 127.0.0.1:{}{node}0 put room again", self.ports));
        }
    }

    fn at_once(&self, script: &str) {
        if let Err(problem) = self.once(script) {
            panic!("{script}\n{problem}\n{}", self.logs());
        }
    }

    fn target_exists(&self, target: &str) {
        let makefile = fs::read_to_string(self.root.join("Makefile")).expect("there is a Makefile");
        let exists = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
        assert!(exists, "there is no target `{target}`");
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Fails for those that have ended, which is what is wanted.
        for running in &mut self.running {
            match running {
                Running::Node(node) => {
                    let _ = node.kill();
                    let _ = node.wait();
                }
                Running::Shell(shell) => {
                    if let Some(pid) = i32::try_from(shell.id()).ok().and_then(Pid::from_raw) {
                        let _ = kill_process(pid, Signal::TERM);
                    }
                    let _ = shell.wait();
                }
            }
        }
    }
}

/// A variable that later commands of the block use.
fn is_assignment(command: &str) -> bool {
    command.split_once('=').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Cuts a block between commands: where what there is so far is a whole one.
fn commands(block: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut command = String::new();
    for line in block.lines().filter(|line| !line.trim().is_empty()) {
        command.push_str(line);
        command.push('\n');
        let whole = Command::new("bash").args(["-n", "-c", &command]).stderr(Stdio::null()).status();
        if !line.ends_with('\\') && whole.expect("bash starts").success() {
            commands.push(std::mem::take(&mut command));
        }
    }
    assert!(command.is_empty(), "not a whole command: {command}");
    commands
}

/// The first digits of a hundred ports that nothing listens on.
fn free_hundred() -> String {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = u16::try_from(std::process::id() % 100).unwrap_or(0);
    // Below those that other tests take, and far below those that the kernel gives out.
    let hundreds = (0..80).map(|place| 120 + (start + place) % 80);
    let found = hundreds.into_iter().find(|hundred| (0..80).all(|port| free(hundred * 100 + port)));
    found.expect("some hundred ports are free").to_string()
}

#[test]
fn every_command_in_the_documents_works() {
    let mut desk = Desk::new();
    let mut run = 0;
    for document in DOCUMENTS {
        let text = fs::read_to_string(desk.root.join(document)).expect("the document is there");
        for block in blocks(&text) {
            eprintln!("{document}:\n{block}");
            desk.block(&block);
            run += 1;
        }
    }
    assert!(run >= 8, "the documents have {run} blocks of commands");
}

#[test]
fn a_block_is_cut_between_commands() {
    let text = "words\n```sh\na=1\nfor n in 1 2; do\n  echo $n\ndone\nsetpointd --x \\\n  --y\n```\n```text\nno\n```\n";
    let blocks = blocks(text);
    assert_eq!(blocks.len(), 1);
    let commands = commands(&blocks[0]);
    assert_eq!(commands, ["a=1\n", "for n in 1 2; do\n  echo $n\ndone\n", "setpointd --x \\\n  --y\n"]);
    assert!(is_assignment(&commands[0]) && !is_assignment(&commands[2]));
}
