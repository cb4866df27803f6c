//! `setpoint dev` as its users have it: real programs on loopback, a workload that answers over HTTP, and nothing left behind.
//!
//! The other programs have to be built (`cargo build --workspace --bins`): they are found beside this one.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use setpoint_client::{Client, Settings};
use setpoint_types::kinds::Workload;
use tempfile::TempDir;

/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(100);

/// One `setpoint dev`. Killed if the test fails, and with it, by the kernel, what it started.
struct Dev {
    process: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Dev {
    fn start(folder: &Path, base: u16, options: &[&str]) -> Self {
        Self::start_in(folder, "data", base, options)
    }

    fn start_in(folder: &Path, data: &str, base: u16, options: &[&str]) -> Self {
        let number = fs::read_dir(folder).map_or(0, Iterator::count);
        let [out, err] = ["out", "err"].map(|kind| folder.join(format!("{kind}-{number}")));
        let process = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(["dev", "--data-dir", data, "--port-base", &base.to_string()])
            .args(options)
            .current_dir(folder)
            // Settings of whoever runs the tests do not reach the programs.
            .env("SETPOINT_LISTEN_HTTP", "nonsense")
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("made"))
            .stderr(File::create(&err).expect("made"))
            .spawn()
            .expect("the program starts");
        Self { process, out, err }
    }

    fn said(&self) -> String {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        format!("{}{}", read(&self.err), read(&self.out))
    }

    /// Waits until it has said this.
    fn says(&mut self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.said();
            if said.contains(words) {
                return said;
            }
            let ended = self.process.try_wait().expect("a child");
            assert!(ended.is_none(), "it ended ({ended:?}) and did not say {words:?}:\n{said}");
            assert!(Instant::now() < deadline, "it does not say {words:?}:\n{said}");
            std::thread::sleep(POLL);
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.said());
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder, in memory if there is such a place (an agent takes no replicas on a disk that is nearly full), and a port from which on those of a cluster are free; below what other tests and the kernel give out.
fn desk() -> (TempDir, u16) {
    let builder = || tempfile::Builder::new().prefix("setpoint-dev-").to_owned();
    let folder = builder().tempdir_in("/dev/shm").or_else(|_| builder().tempdir()).expect("a folder");
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = u16::try_from(std::process::id() % 16).expect("small");
    let bases = (0..16).map(|step| 10_000 + 100 * ((start + step) % 16));
    let base = bases.into_iter().find(|base| (0..80).all(|offset| free(base + offset)));
    (folder, base.expect("some hundred ports are free"))
}

/// Processes that have to do with this folder: by an argument, or because they run in it.
fn processes(folder: &Path) -> Vec<(u32, String)> {
    let folder = fs::canonicalize(folder).expect("it is there");
    let entries = fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let of_folder = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).ok()?).replace('\0', " ");
        let runs_in = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
        (runs_in || line.contains(folder.to_str()?)).then_some((pid, line))
    });
    of_folder.filter(|(_, line)| !line.is_empty()).collect()
}

fn nothing_is_left(folder: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = processes(folder);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "still running: {left:#?}");
        std::thread::sleep(POLL);
    }
}

/// What the address in the guide answers.
fn visit(said: &str) -> String {
    let url = said.split("curl http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    let mut connection = TcpStream::connect(url).expect("it listens");
    connection.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    write!(connection, "GET / HTTP/1.1\r\nHost: {url}\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("answered");
    answer
}

fn hello_uid(base: u16) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let endpoint = format!("127.0.0.1:{base}").parse().expect("an address");
        let client = Client::new(Settings::new(vec![endpoint])).expect("a client");
        let hello =
            client.api::<Workload>().namespace("default").get("hello").await.expect("the sample is there");
        hello.metadata.uid.to_string()
    })
}

#[test]
fn it_serves_stops_cleanly_and_finds_its_data_again() {
    let (folder, base) = desk();
    let mut first = Dev::start(folder.path(), base, &[]);
    let said = first.says("Ctrl-C stops everything");
    assert!(visit(&said).contains("Hello from hello-"), "{said}");
    let uid = hello_uid(base);

    let mut same_folder = Dev::start(folder.path(), base, &[]);
    assert_eq!(same_folder.ends().code(), Some(8));
    let refusal = same_folder.said();
    assert!(refusal.contains(&format!("process {}", first.process.id())), "{refusal}");

    let mut same_ports = Dev::start_in(folder.path(), "other", base, &[]);
    assert_eq!(same_ports.ends().code(), Some(8));
    let refusal = same_ports.said();
    assert!(refusal.contains(&format!("port {base} (clients of n1) is taken")), "{refusal}");
    assert!(refusal.contains("--port-base"), "{refusal}");

    first.signal(Signal::INT);
    assert_eq!(first.ends().code(), Some(0), "{}", first.said());
    assert!(first.said().ends_with("Stopped\n") || first.said().contains("\nStopped\n"), "{}", first.said());
    nothing_is_left(folder.path());

    let mut second = Dev::start(folder.path(), base, &[]);
    let said = second.says("Ctrl-C stops everything");
    assert!(said.contains("goes on with what is in"), "{said}");
    assert!(visit(&said).contains("Hello from hello-"), "{said}");
    assert_eq!(hello_uid(base), uid, "it is another workload");
    second.signal(Signal::TERM);
    assert_eq!(second.ends().code(), Some(0), "{}", second.said());
    nothing_is_left(folder.path());
}

#[test]
fn of_three_nodes_one_that_dies_is_named_with_its_log_and_all_is_stopped() {
    let (folder, base) = desk();
    let mut dev = Dev::start(folder.path(), base, &["--nodes", "3"]);
    let said = dev.says("Ctrl-C stops everything");
    assert!(visit(&said).contains("Hello from hello-"), "{said}");
    let of_second = |(_, line): &&(u32, String)| line.contains("setpointd") && line.contains("--name n2 ");
    let running = processes(folder.path());
    let (pid, _) = running.iter().find(of_second).expect("the second node");
    let pid = Pid::from_raw(i32::try_from(*pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it runs");
    assert_eq!(dev.ends().code(), Some(8));
    let said = dev.said();
    assert!(said.contains("n2 has ended (signal: 9 (SIGKILL))"), "{said}");
    assert!(said.contains("logs/n2.log:\n"), "its log is shown: {said}");
    nothing_is_left(folder.path());
}

#[test]
fn asked_twice_it_kills_everything_and_leaves_nothing() {
    let (folder, base) = desk();
    let mut dev = Dev::start(folder.path(), base, &["--agents", "1"]);
    dev.says("Ctrl-C stops everything");
    // A program that does not stop by itself.
    let of_node = |(_, line): &&(u32, String)| line.contains("setpointd") && line.contains("--name n1 ");
    let running = processes(folder.path());
    let (pid, _) = running.iter().find(of_node).expect("the node");
    let pid = Pid::from_raw(i32::try_from(*pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::STOP).expect("it runs");
    dev.signal(Signal::INT);
    dev.says("once more");
    std::thread::sleep(Duration::from_millis(1200));
    dev.signal(Signal::INT);
    assert_eq!(dev.ends().code(), Some(0), "{}", dev.said());
    assert!(dev.said().contains("Killed"), "{}", dev.said());
    nothing_is_left(folder.path());
}

#[test]
fn if_it_is_killed_itself_what_it_started_ends_too() {
    let (folder, base) = desk();
    let mut dev = Dev::start(folder.path(), base, &["--agents", "1"]);
    dev.says("Ctrl-C stops everything");
    dev.signal(Signal::KILL);
    dev.ends();
    nothing_is_left(folder.path());
}
