//! The runtime of containers alone, against a real engine.

use std::path::Path;
use std::time::{Duration, Instant};

use setpoint_agent::runtime::docker::{DockerRuntime, DockerSettings};
use setpoint_agent::runtime::process::cgroup::Limits;
use setpoint_agent::runtime::{Cause, Ended, Found, Order, RunId, Runtime, RuntimeError, Task};
use setpoint_types::Uid;
use tokio::time::{sleep, timeout};

use crate::engine::Engine;

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    engine: Engine,
    runtime: DockerRuntime,
    folder: tempfile::TempDir,
    mark: String,
}

fn runtime(socket: &str, mark: &str) -> DockerRuntime {
    let settings = DockerSettings {
        socket: socket.to_owned(),
        node: "n1".to_owned(),
        mark: mark.to_owned(),
        open_files: None,
        log_bytes: 1 << 20,
        log_files: 2,
        fetch_limit: PATIENCE,
    };
    DockerRuntime::new(settings).expect("settings that fit")
}

impl Bench {
    async fn new(name: &str) -> Option<Self> {
        let engine = Engine::find(name).await?;
        let mark = format!("test-{}-{name}", std::process::id());
        let runtime = runtime(&engine.socket, &mark);
        Some(Self { engine, runtime, folder: tempfile::tempdir().expect("a folder"), mark })
    }

    fn task(&self, number: u32, script: &str) -> Task {
        Task {
            run: RunId { replica: Uid::new(&self.mark), number },
            name: "default/test".to_owned(),
            image: Some(self.engine.image.clone()),
            command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            args: Vec::new(),
            env: vec![("GREETING".into(), "hello".into())],
            working_dir: None,
            folder: self.folder.path().to_owned(),
            limits: Limits { memory_bytes: Some(64 << 20), ..Limits::default() },
            endpoints: Vec::new(),
            fence_grace: None,
        }
    }

    async fn end(&self, run: &RunId) -> Ended {
        timeout(PATIENCE, self.runtime.wait(run)).await.expect("in time").expect("an end")
    }

    async fn run(&self, number: u32, script: &str) -> Ended {
        let task = self.task(number, script);
        self.runtime.start(&task).await.expect("started");
        self.end(&task.run).await
    }

    fn wrote(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    /// Once a run has made a file: it has come that far.
    async fn until(&self, file: &str) {
        let made = async {
            while !Path::new(&self.folder.path().join(file)).exists() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, made).await.expect("in time");
    }
}

#[tokio::test]
async fn a_container_runs_once_is_found_again_and_is_ended() {
    let Some(bench) = Bench::new("once").await else { return };
    let first = bench.task(1, "echo $GREETING $PATH >>/setpoint/said; exit 3");
    bench.runtime.prepare(&first).await.expect("the image is there");
    assert_eq!(bench.runtime.find(&first.run).await.expect("found"), Found::Never);
    bench.runtime.start(&first).await.expect("started");
    let ended = bench.end(&first.run).await;
    // Begun is begun: it does not run twice.
    bench.runtime.start(&first).await.expect("it is there");
    assert_eq!(bench.end(&first.run).await, ended);
    assert_eq!((ended.code, ended.cause), (Some(3), Cause::Itself));
    assert!(ended.started.0 > 0 && ended.ended >= ended.started);
    // The image's own variables stay.
    assert_eq!(bench.wrote("said"), "hello /bin:/own\n");

    let second = bench.task(2, "trap '' USR1; >/setpoint/up; while :; do sleep 1; done");
    bench.runtime.start(&second).await.expect("started");
    let next = runtime(&bench.engine.socket, &bench.mark);
    assert!(matches!(next.find(&second.run).await, Ok(Found::Running { .. })));
    assert_eq!(next.runs().await.expect("the runs").len(), 2);
    let other = runtime(&bench.engine.socket, "another");
    assert_eq!(other.runs().await.expect("the runs"), [], "an agent is told of what another one runs");
    // Nor does it touch what has the name of a run of its own.
    assert_eq!(other.find(&second.run).await.expect("found"), Found::Never);
    other.order(&second.run, Order::Kill).await.expect("nothing of its own is there");
    other.remove(&second.run).await.expect("nothing of its own is there");
    other.start(&second).await.expect_err("the name is taken");
    let ask = ["/bin/sh", "-c", "exit 4"].map(str::to_owned);
    assert_eq!(next.exec(&second, &ask, PATIENCE).await.expect("asked"), Some(4));
    bench.until("up").await;
    next.order(&second.run, Order::Terminate).await.expect("told");
    next.order(&second.run, Order::Kill).await.expect("told");
    assert_eq!(bench.end(&second.run).await.signal, Some(9));
    // It has ended: nothing happens.
    next.order(&second.run, Order::Kill).await.expect("told");

    for run in [&first.run, &second.run] {
        next.remove(run).await.expect("removed");
        next.remove(run).await.expect("it is gone");
    }
    assert!(next.runs().await.expect("the runs").is_empty());
    bench.engine.clear(&bench.mark).await;
}

#[tokio::test]
async fn limits_are_the_engines_limits_and_an_end_for_lack_of_memory_is_told() {
    let Some(bench) = Bench::new("limits").await else { return };
    let mut task = bench.task(1, "sleep 1000");
    // More processors than there are: allowed for processes, and so for containers.
    task.limits = Limits {
        memory_bytes: Some(32 << 20),
        cpu_milli: Some(512_000),
        cpu_reserved_milli: Some(500),
        pids: Some(33),
    };
    task.working_dir = Some("within".to_owned());
    bench.runtime.start(&task).await.expect("started");
    let about = bench.engine.docker.inspect_container(&DockerRuntime::container(&task.run), None).await;
    let about = about.expect("a container");
    let host = about.host_config.expect("a host's part");
    assert_eq!((host.memory, host.cpu_quota, host.cpu_shares), (Some(32 << 20), Some(51_200_000), Some(512)));
    assert_eq!((host.pids_limit, host.network_mode.as_deref()), (Some(33), Some("host")));
    assert_eq!(about.config.and_then(|it| it.working_dir).as_deref(), Some("/setpoint/within"));
    bench.runtime.order(&task.run, Order::Kill).await.expect("told");
    bench.end(&task.run).await;

    let grow = "x=aaaaaaaa; while :; do x=$x$x; done";
    let ended = bench.run(2, grow).await;
    assert_eq!((ended.cause, ended.signal), (Cause::OutOfMemory, Some(9)));
    // Not its own end: a child was killed, and it came to terms with that.
    let ended = bench.run(3, &format!("/bin/sh -c '{grow}'; exit 5")).await;
    assert_eq!((ended.cause, ended.code), (Cause::Itself, Some(5)));
    bench.engine.clear(&bench.mark).await;
}

#[tokio::test]
async fn a_container_is_asked_to_end_in_the_way_of_its_image() {
    let Some(bench) = Bench::new("asked").await else { return };
    let task =
        bench.task(1, "trap 'exit 7' USR1; trap 'exit 8' TERM; >/setpoint/up; while :; do sleep 0.05; done");
    bench.runtime.start(&task).await.expect("started");
    bench.until("up").await;
    bench.runtime.order(&task.run, Order::Terminate).await.expect("told");
    assert_eq!(bench.end(&task.run).await.code, Some(7));
    bench.engine.clear(&bench.mark).await;
}

#[tokio::test]
async fn a_command_beside_that_takes_too_long_is_killed_with_all_it_started() {
    let Some(bench) = Bench::new("beside").await else { return };
    let task = bench.task(1, "sleep 1000");
    bench.runtime.start(&task).await.expect("started");
    let command = ["/bin/sh", "-c", "sleep 987654 & sleep 987654"].map(str::to_owned);
    let began = Instant::now();
    let answer = bench.runtime.exec(&task, &command, Duration::from_secs(1)).await.expect("asked");
    assert_eq!(answer, None);
    assert!(began.elapsed() < PATIENCE);
    let gone = async {
        while processes().iter().any(|words| words.contains("987654")) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("what took too long was left running");
    // The next one is not in its way.
    let well = ["/bin/sh", "-c", "exit 0"].map(str::to_owned);
    assert_eq!(bench.runtime.exec(&task, &well, PATIENCE).await.expect("asked"), Some(0));
    // What cannot be run is a failure, and not silence: a probe with a wrong command has to fail.
    let missing = ["/no/such/program".to_owned()];
    match bench.runtime.exec(&task, &missing, PATIENCE).await {
        Ok(status) => assert!(matches!(status, Some(126 | 127)), "{status:?}"),
        Err(error) => assert!(!error.is_silence(), "{error:?}"),
    }
    bench.runtime.order(&task.run, Order::Kill).await.expect("told");
    bench.end(&task.run).await;
    bench.engine.clear(&bench.mark).await;
}

fn processes() -> Vec<String> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let words = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    words.map(|words| String::from_utf8_lossy(&words).replace('\0', " ")).collect()
}

#[tokio::test]
async fn what_cannot_be_started_is_never_started_and_says_why() {
    let Some(bench) = Bench::new("never").await else { return };
    let mut missing = bench.task(1, "");
    missing.command = vec!["/no/such/program".to_owned()];
    let problem = bench.runtime.start(&missing).await.expect_err("there is no such program");
    assert!(setpoint_agent::supervisor::chain(&problem).contains("/no/such/program"), "{problem:?}");
    assert_eq!(bench.runtime.find(&missing.run).await.expect("found"), Found::Never);
    assert_eq!(bench.engine.containers(&bench.mark).await, [], "something of it is left");

    let mut unknown = bench.task(2, "");
    unknown.image = Some("127.0.0.1:1/no/such/image".to_owned());
    let problem = bench.runtime.prepare(&unknown).await.expect_err("there is no such image");
    let said = setpoint_agent::supervisor::chain(&problem);
    assert!(said.contains("127.0.0.1:1/no/such/image") && said.contains("refused"), "{said}");
    bench.engine.clear(&bench.mark).await;
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_named_and_nothing_is_concluded() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("nobody").display().to_string();
    let runtime = runtime(&socket, "nobody");
    let run = RunId { replica: Uid::new("r"), number: 1 };
    assert!(!runtime.answers().await);
    for problem in [
        runtime.find(&run).await.expect_err("nobody is there"),
        runtime.wait(&run).await.expect_err("nobody is there"),
        runtime.remove(&run).await.expect_err("nobody is there"),
        runtime.runs().await.expect_err("nobody is there"),
    ] {
        assert!(matches!(problem, RuntimeError::NoEngine { .. }) && problem.is_silence(), "{problem:?}");
        assert!(problem.to_string().contains(&socket), "{problem}");
    }
}
