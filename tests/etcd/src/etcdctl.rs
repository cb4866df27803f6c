//! The real `etcdctl`, as a user runs it: arguments and input in, output and exit status out.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::peer::EtcdBinaries;

/// Longer than any command takes, except for the load test.
const PATIENCE: Duration = Duration::from_secs(90);

/// Between two looks at something that is about to change.
const POLL: Duration = Duration::from_millis(200);

pub struct Etcdctl {
    program: PathBuf,
    endpoints: Vec<String>,
}

/// What a command printed.
#[derive(Clone, Debug)]
pub struct Printed {
    pub succeeded: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Etcdctl {
    pub fn new(binaries: &EtcdBinaries, endpoints: &[String]) -> Self {
        Self { program: binaries.etcdctl(), endpoints: endpoints.to_vec() }
    }

    /// The same, talking to one endpoint only.
    pub fn at(&self, endpoint: &str) -> Self {
        Self { program: self.program.clone(), endpoints: vec![endpoint.to_owned()] }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(format!("--endpoints={}", self.endpoints.join(",")));
        command.args(["--dial-timeout=20s", "--command-timeout=60s"]);
        command.args(arguments);
        // Settings of whoever runs the test must not leak in.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCDCTL_")) {
            command.env_remove(name);
        }
        command.kill_on_drop(true);
        command
    }

    /// Runs a command with input.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn feed(&self, arguments: &[&str], input: &str, patience: Duration) -> Printed {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("etcdctl can be started");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        stdin.write_all(input.as_bytes()).await.expect("it reads its input");
        drop(stdin);
        let ended = timeout(patience, child.wait_with_output()).await;
        let output = ended
            .unwrap_or_else(|_| panic!("etcdctl {arguments:?} does not end"))
            .expect("it can be waited for");
        Printed {
            succeeded: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub async fn run(&self, arguments: &[&str]) -> Printed {
        self.feed(arguments, "", PATIENCE).await
    }

    /// Runs a command that must succeed, and returns what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub async fn ok(&self, arguments: &[&str]) -> String {
        let printed = self.run(arguments).await;
        assert!(printed.succeeded, "etcdctl {arguments:?} failed: {}{}", printed.stdout, printed.stderr);
        printed.stdout
    }

    /// Runs a command that must fail, and returns its complaint.
    ///
    /// # Panics
    /// If it succeeds.
    pub async fn fails(&self, arguments: &[&str]) -> String {
        let printed = self.run(arguments).await;
        assert!(!printed.succeeded, "etcdctl {arguments:?} succeeded: {}", printed.stdout);
        printed.stderr
    }

    /// Runs a command that prints JSON.
    ///
    /// # Panics
    /// If it fails, or prints something else.
    pub async fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let mut all = arguments.to_vec();
        all.push("--write-out=json");
        let text = self.ok(&all).await;
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("etcdctl {all:?} printed {text:?}: {error}"))
    }

    /// Runs a command that prints JSON, until what it prints satisfies the condition: for what the nodes of a cluster
    /// come to know one after the other.
    ///
    /// # Panics
    /// If it fails, prints something else, or the condition does not come about in time.
    pub async fn json_until(
        &self,
        arguments: &[&str],
        condition: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.json(arguments).await;
            if condition(&printed) {
                return printed;
            }
            assert!(Instant::now() < deadline, "etcdctl {arguments:?} goes on to print {printed}");
            sleep(POLL).await;
        }
    }

    /// Starts a command that runs until it is dropped.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("etcdctl can be started");
        let stdin = child.stdin.take().expect("its input is a pipe");
        let stdout = child.stdout.take().expect("its output is a pipe");
        Running { _child: child, stdin, lines: BufReader::new(stdout).lines() }
    }
}

/// A command that goes on, like a watch.
pub struct Running {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Types a line.
    ///
    /// # Panics
    /// If the command has ended.
    pub async fn type_line(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.expect("the command reads its input");
    }

    /// The next line it prints.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("a line is printed in time");
        line.expect("the output can be read").expect("the command still runs")
    }

    /// The next lines it prints.
    pub async fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::with_capacity(count);
        for _ in 0..count {
            lines.push(self.line().await);
        }
        lines
    }
}
