//! A document that is walked through: its `console` blocks, typed into a shell beside a cluster of `setpoint dev`, with what each
//! command prints compared with what the document shows.
//!
//! ```text
//! $ setpoint get workloads            a command; it ends where bash says that it is whole
//! NAME   DESIRED   …                  what it prints
//! ```
//!
//! What differs from run to run is made alike before it is compared: ages, hashes in names, the names of nodes, addresses, the width of
//! columns. A line `…` stands for any lines, `…` at the end of a line for the rest of it. A command is typed again until it prints
//! what it should if it only reads; one that changes something has to do so the first time. `cargo run -p NAME -- ARGUMENTS` starts
//! that example, waits until it works, and leaves it running.
//!
//! Not here: which documents (`tests/walks.rs`), and what a reader does before the first block.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use setpoint_etcd_tests::cluster::{program, scratch_directory, setpointd};
use setpoint_etcd_tests::process::{ServerProcess, TAIL_LINES, tail};
use tempfile::TempDir;

use crate::document::{blocks, free_hundred};

/// How long to wait for what a reader waits for; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(500);
/// Commands that only look.
const LOOKS: [&str; 10] = [
    "get ",
    "describe ",
    "events",
    "top ",
    "rollout history",
    "watch",
    "diff ",
    "explain ",
    "auth ",
    "cluster status",
];

/// A reader's folder, the repository in it, and the cluster.
pub struct Walk {
    folder: TempDir,
    ports: String,
    started: Vec<(ServerProcess, PathBuf)>,
}

/// A command, and what a document shows of it.
struct Step {
    command: String,
    shown: Vec<String>,
}

impl Walk {
    /// A folder like the root of the repository, with its programs in `./bin`, and a cluster.
    pub fn begin(root: &Path, arguments: &str) -> Self {
        let folder = scratch_directory().expect("a folder");
        for name in ["examples", "docs"] {
            symlink(root.join(name).canonicalize().expect(name), folder.path().join(name)).expect("linked");
        }
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).expect("made");
        let setpoint = setpointd().expect("the server is built").with_file_name("setpoint");
        symlink(setpoint, bin.join("setpoint")).expect("linked");
        let mut walk = Self { folder, ports: free_hundred(), started: Vec::new() };
        let dev = format!("dev --port-base {}00 {arguments}", walk.ports);
        let log = walk.start("setpoint", &dev);
        walk.wait_for("the cluster runs", |_| {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("Ctrl-C stops everything"))
        });
        walk
    }

    /// Starts a program of the workspace and leaves it running; where what it says is written.
    fn start(&mut self, name: &str, arguments: &str) -> PathBuf {
        let log = self.folder.path().join(format!("{}-{name}.log", self.started.len()));
        let arguments = format!("cd \"$0\" && exec {} {arguments}", program(name).expect(name).display());
        let words = ["-c".to_owned(), arguments, self.folder.path().display().to_string()];
        let environment = [("SETPOINT_CONFIG".to_owned(), self.config())];
        let process = ServerProcess::spawn_with(name, Path::new("bash"), &words, &environment, &log);
        self.started.push((process.expect("it starts"), log.clone()));
        log
    }

    fn config(&self) -> String {
        self.folder.path().join(".setpoint/dev-config").display().to_string()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "not so: {what}\n{}", self.logs());
            std::thread::sleep(PAUSE);
        }
    }

    fn logs(&self) -> String {
        self.started.iter().map(|(_, log)| tail(log, TAIL_LINES)).collect::<Vec<_>>().join("\n--\n")
    }

    /// Types every command of a document, in order; how many there were.
    pub fn through(&mut self, text: &str) -> usize {
        let steps: Vec<Step> = blocks(text, "console").iter().flat_map(|block| steps(block)).collect();
        for step in &steps {
            match step.command.strip_prefix("cargo run -p ") {
                Some(line) => {
                    let (name, arguments) = line.split_once(" -- ").unwrap_or((line, ""));
                    let log = self.start(name, arguments);
                    self.wait_for("the controller works", |_| {
                        fs::read_to_string(&log).is_ok_and(|text| text.contains("work begins"))
                    });
                }
                None => self.step(step),
            }
        }
        steps.len()
    }

    fn step(&self, step: &Step) {
        let only_looks = is_look(&step.command);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.run(&step.command);
            let Err(differs) = compare(&step.shown, &printed) else { return };
            assert!(
                only_looks && Instant::now() < deadline,
                "$ {}\n{differs}\nIt printed:\n{printed}\n{}",
                step.command,
                self.logs()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// What a command prints, on both streams, as a terminal shows it; and its exit code unless it is 0.
    fn run(&self, command: &str) -> String {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{command}\n")]).current_dir(self.folder.path()).stdin(Stdio::null());
        let path =
            format!("{}/bin:{}", self.folder.path().display(), std::env::var("PATH").unwrap_or_default());
        bash.env("PATH", path).env("HOME", self.folder.path()).env("SETPOINT_CONFIG", self.config());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        bash.stdout(writer.try_clone().expect("a handle")).stderr(writer);
        let mut child = bash.spawn().expect("bash starts");
        drop(bash);
        let printed = std::io::read_to_string(reader).expect("text");
        let code = child.wait().expect("it ends").code().unwrap_or(-1);
        if code == 0 { printed } else { format!("{printed}[{code}]\n") }
    }

    /// Ctrl-C in every terminal: everything ends in order.
    pub async fn end(mut self) {
        for (process, log) in self.started.iter_mut().rev() {
            process.signal(Signal::INT).expect("it runs");
            let ended = process.ended().await;
            assert!(ended.is_some_and(|it| it.success()), "{ended:?}\n{}", tail(log, TAIL_LINES));
        }
    }
}

/// Nothing changes if it is typed once more.
fn is_look(command: &str) -> bool {
    let Some(line) = command.strip_prefix("setpoint ") else { return !command.contains("setpoint ") };
    !command.contains("&& ") && LOOKS.iter().any(|look| line.starts_with(look))
}

/// The commands of a block, each with what follows it. A command goes on while bash wants more.
fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("$ ") {
            Some(command) => {
                let mut command = command.to_owned();
                while !is_whole(&command) {
                    command.push('\n');
                    command.push_str(lines.next().expect("the command goes on"));
                }
                steps.push(Step { command, shown: Vec::new() });
            }
            None => steps.last_mut().expect("a command comes first").shown.push(line.to_owned()),
        }
    }
    steps
}

fn is_whole(command: &str) -> bool {
    let checked =
        Command::new("bash").args(["-n", "-c", &format!("{command}\n")]).stderr(Stdio::piped()).output();
    let checked = checked.expect("bash starts");
    // A document within the command that has no end yet is a warning only.
    checked.status.success() && checked.stderr.is_empty()
}

/// What differs, if anything does.
fn compare(shown: &[String], printed: &str) -> Result<(), String> {
    let printed: Vec<String> = printed.lines().map(alike).collect();
    let mut rest = &printed[..];
    let mut anything = false;
    for line in shown {
        if line.trim() == "…" {
            anything = true;
            continue;
        }
        let place = if anything {
            rest.iter().position(|it| fits(line, it))
        } else {
            rest.first().filter(|it| fits(line, it)).map(|_| 0)
        };
        let place = place.ok_or_else(|| {
            format!(
                "expected  {}\nfound     {}",
                alike(line),
                rest.first().map_or("nothing more", String::as_str)
            )
        })?;
        rest = &rest[place + 1..];
        anything = false;
    }
    match rest.first() {
        Some(more) if !anything => Err(format!("more than is shown: {more}")),
        _ => Ok(()),
    }
}

fn fits(shown: &str, printed: &str) -> bool {
    match shown.trim_end().strip_suffix('…') {
        Some(begin) => printed.starts_with(alike(begin).trim_end()),
        None => alike(shown) == printed,
    }
}

/// A line without what differs from run to run.
fn alike(line: &str) -> String {
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> String {
    let bare = word.trim_matches(['(', ')', ',', '.', ':', ';']);
    let kept = |put: &str| word.replacen(bare, put, 1);
    let is_age = |text: &str| {
        let unit = text.trim_start_matches(|it: char| it.is_ascii_digit());
        unit.len() < text.len() && (["ms", "s", "m", "h", "d"].contains(&unit) || is_two_units(unit))
    };
    let is_node = bare.len() == 2 && bare.starts_with('a') && bare.ends_with(|it: char| it.is_ascii_digit());
    match bare {
        _ if is_age(bare) => kept("AGE"),
        _ if is_node => kept("NODE"),
        _ if is_uid(bare) => kept("UID"),
        _ if bare.contains("127.0.0.1:") => kept("ADDRESS"),
        _ => word.split('-').map(hash).collect::<Vec<_>>().join("-"),
    }
}

fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|it| it == b'-' || it.is_ascii_hexdigit())
}

/// `m30s` of `1m30s`.
fn is_two_units(text: &str) -> bool {
    let rest = text.trim_start_matches(['d', 'h', 'm']);
    rest.len() + 1 == text.len() && rest.trim_start_matches(|it: char| it.is_ascii_digit()).len() == 1
}

/// Ten hexadecimal digits or more are the hash of something.
fn hash(part: &str) -> String {
    part.split('.')
        .map(|part| {
            let digits = part.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
            let is_hash = digits.len() >= 10 && digits.bytes().all(|it| it.is_ascii_hexdigit());
            if is_hash { part.replacen(digits, "HASH", 1) } else { part.to_owned() }
        })
        .collect::<Vec<_>>()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_differs_from_run_to_run_is_alike_and_nothing_else() {
        let shown = lines("NAME   NODE\nweb-75bd754f63-0   serving   a3   12s\n…\nend of it …");
        let printed = "NAME  NODE\nweb-aaaaaaaaaa-0 serving a1 1m30s\nmore\nmore\nend of it all\n";
        assert_eq!(compare(&shown, printed), Ok(()));
        assert!(compare(&shown, &printed.replace("serving", "starting")).is_err());
        assert!(compare(&shown, &printed.replace("-0 ", "-1 ")).is_err());
        assert!(compare(&lines("one"), "one\ntwo\n").is_err());
        assert!(compare(&lines("one\ntwo"), "one\n").is_err());
        assert_eq!(alike("curl http://127.0.0.1:20123/ (5s)"), alike("curl http://127.0.0.1:9/ (90ms)"));
    }

    #[test]
    fn a_command_ends_where_the_shell_says() {
        let steps = steps("$ cat > a <<EOF\nkind: X\nEOF\n$ echo 'a\nb'\na\nb\n");
        let commands: Vec<&str> = steps.iter().map(|it| it.command.as_str()).collect();
        assert_eq!(commands, ["cat > a <<EOF\nkind: X\nEOF", "echo 'a\nb'"]);
        assert_eq!(steps[1].shown, ["a", "b"]);
        assert!(is_look("setpoint get workloads") && !is_look("setpoint delete workload a"));
        assert!(!is_look("setpoint scale workload a && setpoint get workloads") && is_look("curl http://x/"));
    }
}
