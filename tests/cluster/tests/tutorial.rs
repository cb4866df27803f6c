//! The commands of docs/tutorial/your-first-controller.md, in order, with what each should lead to.
//!
//! A command block that is not known here, or not in its turn, fails the test: whoever changes the tutorial follows it here. Four things
//! differ from a reader's machine. The programs are those built beside this test: `cargo run` is the example `greeter`, whose files
//! the new crate has, so that no crate is compiled here (its tests and the code of sections 4 and 7 are in `examples/greeter/tests`).
//! Ports are others, and so the clients have a config file. `setpoint` is told where the source is. And what a reader does with keys,
//! Ctrl-C, Ctrl-Z and `fg`, are signals, to processes of this test alone.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use setpoint_cluster_tests::document::{blocks, free_hundred};
use setpoint_etcd_tests::cluster::scratch_directory;
use setpoint_etcd_tests::process::{ServerProcess, TAIL_LINES, tail};
use tempfile::TempDir;

/// How long to wait for what a reader waits for. A lease lasts 15 s, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);
const APPLY: &str = "setpoint apply -f greeter.json";
const LEASE: &str = "setpoint get lease greeter.shard-0-of-1";

/// A program that runs in a terminal of its own, with all that it says.
struct Terminal {
    process: ServerProcess,
    log: PathBuf,
}

struct Desk {
    folder: TempDir,
    root: PathBuf,
    ports: String,
    text: String,
    blocks: VecDeque<String>,
    started: usize,
}

impl Desk {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().expect("the source is there");
        let text =
            fs::read_to_string(root.join("docs/tutorial/your-first-controller.md")).expect("a document");
        let folder = scratch_directory().expect("a folder");
        let (blocks, ports) = (blocks(&text, "sh").into(), free_hundred());
        fs::create_dir_all(folder.path().join("setpoint/bin")).expect("made");
        let config = format!(
            "current-context: here\nclusters: [{{name: here, endpoints: ['127.0.0.1:{ports}00']}}]\n\
             contexts: [{{name: here, cluster: here}}]\nusers: []\n"
        );
        fs::write(folder.path().join("config"), config).expect("written");
        let desk = Self { folder, root, ports, text, blocks, started: 0 };
        desk.script("setpoint", &program("setpoint"));
        desk
    }

    /// A program of `./bin`, which is told where the source is if it makes something new: a reader has it beside the program.
    fn script(&self, name: &str, program: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.path().join("setpoint/bin").join(name);
        let (program, root) = (program.display(), self.root.display());
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = new ] && exec {program} \"$@\" --sdk {root}\nexec {program} \"$@\"\n"
        );
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permitted");
    }

    /// The next block of commands is this one.
    fn comes(&mut self, block: &str) {
        let next = self.blocks.pop_front().expect("the document goes on");
        assert_eq!(next.trim_end(), block, "the tutorial says something else by now: follow it here");
    }

    fn start(&mut self, name: &str, program: &Path, arguments: &str) -> Terminal {
        self.started += 1;
        let log = self.folder.path().join(format!("{}-{name}.log", self.started));
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        let config = self.folder.path().join("config").display().to_string();
        // Also for the node: who has exported it for clients may start one in the same terminal.
        let environment =
            [("SETPOINT_CONFIG".to_owned(), config), ("RUST_LOG".to_owned(), "info".to_owned())];
        let process = ServerProcess::spawn_with(name, program, &arguments, &environment, &log);
        Terminal { process: process.expect("it starts"), log }
    }

    fn cargo_run(&mut self, arguments: &str) -> Terminal {
        self.start("greeter", &program("greeter"), arguments)
    }

    /// Runs commands in a folder; what they print, if they succeed.
    fn run(&self, folder: &str, commands: &str) -> Result<String, String> {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", commands]).current_dir(self.folder.path().join(folder));
        bash.env("SETPOINT_CONFIG", self.folder.path().join("config")).env("HOME", self.folder.path());
        let bin = self.folder.path().join("setpoint/bin");
        bash.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
        let output = bash.output().expect("bash starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("{commands}\n{}: {}", output.status, text(&output.stderr))),
        }
    }

    /// Runs commands of the third terminal until they print what they should.
    fn until(&self, what: &str, commands: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.run("greeter", commands);
            match printed {
                Ok(printed) if is_so(&printed) => return printed,
                printed if Instant::now() >= deadline => panic!("not {what}: {printed:?}\n{}", self.logs()),
                _ => std::thread::sleep(Duration::from_millis(300)),
            }
        }
    }

    /// Sets the number of replicas in `greeter.json`, as an editor would, and applies it.
    fn apply(&self, replicas: u32) {
        let path = self.folder.path().join("greeter/greeter.json");
        let mut object: Value = serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("JSON");
        object["spec"]["replicas"] = replicas.into();
        fs::write(&path, object.to_string()).expect("written");
        self.until("applied", APPLY, |_| true);
    }

    fn workload_has(&self, replicas: u32) {
        let what = format!("a Workload of {replicas} replicas");
        let replicas = replicas.to_string();
        self.until(&what, "setpoint get workload hello -o jsonpath={.spec.replicas}", |it| {
            it.trim() == replicas
        });
    }

    /// Who holds the lease and at which epoch, once it is another epoch than this.
    fn holder_after(&self, epoch: u64) -> (String, u64) {
        let held = |it: &str| (json(it)["status"]["holder"].clone(), json(it)["status"]["epoch"].as_u64());
        let what = format!("held after epoch {epoch}");
        let printed = self.until(&what, &format!("{LEASE} -o json"), |it| {
            let (holder, now) = held(it);
            now > Some(epoch) && holder.as_str().is_some_and(|it| !it.is_empty())
        });
        let (holder, now) = held(&printed);
        (holder.as_str().unwrap_or_default().to_owned(), now.unwrap_or_default())
    }

    /// Waits until a process has said something.
    fn says(&self, terminal: &Terminal, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !fs::read_to_string(&terminal.log).is_ok_and(|text| text.contains(words)) {
            assert!(Instant::now() < deadline, "nobody said {words:?}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn logs(&self) -> String {
        let files = fs::read_dir(self.folder.path()).into_iter().flatten().flatten().map(|it| it.path());
        let logs = files.filter(|path| path.extension().is_some_and(|it| it == "log"));
        let tail = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(10).collect();
            format!("{}\n{}", path.display(), lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
        };
        logs.map(tail).collect::<Vec<_>>().join("\n--\n")
    }
}

/// A program that was built with this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.parent().and_then(Path::parent).expect("a test is in `deps`");
    let path = folder.join(name);
    assert!(path.is_file(), "{} is not built: cargo build --workspace --bins --examples", path.display());
    path
}

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap_or_default()
}

/// Ctrl-C, and it ends in order.
async fn interrupt(mut terminal: Terminal) {
    terminal.process.signal(Signal::INT).expect("it runs");
    let ended = terminal.process.ended().await;
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}\n{}", tail(&terminal.log, TAIL_LINES));
}

/// Sections 1 and 2: a cluster, a new crate, and the controller at work.
async fn begin(desk: &mut Desk) -> (Terminal, Terminal) {
    desk.comes("make run ARGS=--no-sample");
    let data = desk.folder.path().join("data").display().to_string();
    let here = format!("dev --no-sample --data-dir {data} --port-base {}00", desk.ports);
    let cluster = desk.start("dev", &program("setpoint"), &here);
    desk.says(&cluster, "Ctrl-C stops everything");

    let new = "cd ..\nsetpoint/bin/setpoint new controller greeter\ncd greeter";
    desk.comes(new);
    desk.run("setpoint", new).expect("a new crate");
    for file in
        ["src/kind.rs", "src/reconciler.rs", "src/lib.rs", "src/main.rs", "tests/sweep.rs", "greeter.json"]
    {
        assert!(desk.text.contains(&format!("| `{file}` |")), "the table has {file}");
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).expect(file);
        let (made, example) =
            (read(&desk.folder.path().join("greeter")), read(&desk.root.join("examples/greeter")));
        assert_eq!(made, example, "{file}: what is run below is what was made");
    }
    desk.comes("cargo test");
    desk.comes("cargo run");
    let controller = desk.cargo_run("");

    desk.comes(&format!("PATH=$PWD/bin:$PATH\ncd ../greeter\n{APPLY}\nsetpoint get greeters"));
    desk.until("applied", APPLY, |it| it.starts_with("greeter/hello "));
    desk.until("a Greeter with a status", "setpoint get greeters", |it| {
        let row: Vec<&str> = it.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        row.starts_with(&["hello", "Hello!", "2"])
    });
    desk.until("described", "setpoint describe greeter hello", |it| it.contains("AllServe"));
    desk.comes("setpoint get workload hello");
    desk.workload_has(2);
    desk.apply(3);
    desk.workload_has(3);
    desk.comes("setpoint delete workload hello\nsetpoint wait workload hello --for=create\nsetpoint get workload hello");
    desk.until("deleted", "setpoint delete workload hello", |it| it.contains("deleted"));
    desk.workload_has(3);
    (cluster, controller)
}

/// Section 5: killed, doubled, put to sleep. What is left of it are two that run.
async fn breaking(desk: &mut Desk, mut controller: Terminal) -> [Terminal; 2] {
    desk.comes(&format!("pkill -9 -x greeter\n{APPLY}      # with another number of replicas"));
    let (_, epoch) = desk.holder_after(0);
    controller.process.kill();
    desk.apply(5);
    let first = desk.cargo_run("");
    desk.workload_has(5);
    let (holder, epoch) = desk.holder_after(epoch);

    let second = desk.cargo_run("");
    desk.comes(&format!("{LEASE} -o yaml"));
    interrupt(first).await;
    let (other, epoch) = desk.holder_after(epoch);
    assert_ne!(holder, other, "the other goes on");
    desk.says(&second, "work begins");

    let first = desk.cargo_run("");
    second.process.signal(Signal::STOP).expect("it runs");
    let (_, taken) = desk.holder_after(epoch);
    assert_eq!(taken, epoch + 1, "the next epoch");
    desk.says(&first, "work begins");
    desk.apply(6);
    desk.workload_has(6);
    second.process.signal(Signal::CONT).expect("it sleeps");
    desk.says(&second, "shard lost");
    assert_eq!(desk.holder_after(epoch).1, taken, "it stands by");
    [first, second]
}

/// Section 6: what it shows of itself.
async fn looking(desk: &mut Desk) {
    desk.comes("cargo run -- --listen-http 127.0.0.1:7480");
    let address = format!("127.0.0.1:{}80", desk.ports);
    let mut controller = desk.cargo_run(&format!("--listen-http {address}"));
    controller.process.ready(&address, "/readyz").await.expect("it is ready");
    let curl = "curl http://127.0.0.1:7480/readyz\ncurl http://127.0.0.1:7480/metrics";
    desk.comes(curl);
    let curl = curl.replace("127.0.0.1:7480", &address);
    let named = |it: &str| {
        it.starts_with("setpoint_") && it.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let metrics: Vec<&str> = desk.text.split('`').filter(|it| named(it)).collect();
    assert!(metrics.len() >= 6, "{metrics:?}");
    desk.until("every metric of the table", &curl, |printed| {
        printed.starts_with("ok") && metrics.iter().all(|metric| printed.contains(metric))
    });
    interrupt(controller).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_can_be_followed_to_its_end() {
    let mut desk = Desk::new();
    let (cluster, controller) = begin(&mut desk).await;
    // Section 4, without its change: the commands work all the same.
    let events = format!("{APPLY}\nsetpoint events --for greeter/hello");
    desk.comes(&events);
    desk.until("listed", &events, |_| true);
    for left in breaking(&mut desk, controller).await {
        interrupt(left).await;
    }
    looking(&mut desk).await;
    assert!(desk.blocks.is_empty(), "nobody has followed these: {:?}", desk.blocks);
    interrupt(cluster).await;
}
