//! One program beside the store, which is killed and started again on the same settings.

use std::path::{Path, PathBuf};

use setpoint_etcd_tests::cluster::program;
use setpoint_etcd_tests::process::{ServerProcess, tail};

pub struct Program {
    pub name: String,
    pub http: String,
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    process: Option<ServerProcess>,
}

impl Program {
    /// Not started yet. Its log is in the folder, under its name.
    pub fn new(name: &str, file: &str, http: String, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: program(file).expect("the program is built"),
            arguments: vec!["--listen-http".to_owned(), http.clone()],
            http,
            environment: Vec::new(),
            log: folder.join(format!("{name}.log")),
            process: None,
        }
    }

    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it without waiting for it.
    pub fn start(&mut self) {
        let (arguments, environment) = (&self.arguments, &self.environment);
        let started = ServerProcess::spawn_with(&self.name, &self.path, arguments, environment, &self.log);
        self.process = Some(started.expect("the program starts"));
    }

    pub async fn ready(&mut self) {
        let process = self.process.as_mut().expect("it was started");
        if let Err(error) = process.ready(&self.http, "/readyz").await {
            panic!("{error}");
        }
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Tells it to end, and waits until it has.
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let ended = process.stop().await.expect("a signal");
            let status = ended.unwrap_or_else(|| panic!("{} does not end", self.name));
            assert!(status.success(), "{}: {status}\n{}", self.name, tail(&self.log, 20));
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ServerProcess::pid)
    }

    /// It runs, unless it was stopped, and has never panicked.
    pub fn check(&mut self) {
        let text = self.text();
        assert!(!text.contains("panicked"), "{} has panicked:\n{}", self.name, tail(&self.log, 60));
        if let Some(process) = &mut self.process {
            assert!(process.is_running(), "{} has ended:\n{}", self.name, tail(&self.log, 40));
        }
    }

    /// It has said so in its log.
    pub fn says(&self, words: &str) -> bool {
        self.text().contains(words)
    }

    fn text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of its log, under its name.
    pub fn log_tail(&self, lines: usize) -> String {
        format!("--- {} ---\n{}\n", self.name, tail(&self.log, lines))
    }
}
