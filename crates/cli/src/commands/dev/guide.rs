//! What `setpoint dev` prints when everything runs: where things are, and what to try next.
//!
//! A test parses every command it shows with the command line's own parser.

use std::path::Path;

use super::layout::{Layout, PORT_BASE};
use super::sample::{NAME, Seen};

/// What to try, with what it shows. The program's name is left out.
const TRY: &[(&str, &str)] = &[
    ("get workloads", "how many replicas are wanted, and how many are ready"),
    ("get replicas -o wide", "where each of them runs"),
    ("describe workload hello", "all that is known of it, and what happened to it"),
    ("get workloads -w", "changes, as they happen"),
    ("get nodes", "the hosts"),
    ("delete workload hello", "and it stops"),
];

/// `off_path` is the folder of this program, if a shell does not find it. Without a sample nothing is said about it.
pub fn text(layout: &Layout, seen: Option<&Seen>, off_path: Option<&Path>) -> String {
    let mut lines = vec![String::new()];
    match seen {
        Some(Seen::Serving { url, answer }) => {
            lines.push(format!("The workload {NAME} serves. One of its replicas:"));
            lines.push(format!("  curl {url}"));
            lines.push(format!("  {answer}"));
            lines.push(String::new());
        }
        Some(Seen::Waiting(why)) => {
            lines.push(format!("The workload {NAME} does not serve yet: {why}"));
            lines.push(format!("Logs are in {}", layout.folder.join("logs").display()));
            lines.push(String::new());
        }
        Some(Seen::Gone) | None => {}
    }
    lines.push("Try next, in another terminal:".to_owned());
    if let Some(folder) = off_path {
        lines.push(format!("  PATH={}:$PATH", folder.display()));
    }
    if layout.port_base != PORT_BASE {
        lines.push(format!("  export SETPOINT_CONFIG={}", layout.client_config().display()));
    }
    let tried: Vec<_> = TRY.iter().filter(|(command, _)| seen.is_some() || !command.contains(NAME)).collect();
    let width = tried.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    lines.extend(tried.iter().map(|(command, shows)| format!("  setpoint {command:width$}  # {shows}")));
    lines.push(String::new());
    lines.push(format!("Console, in a browser    http://{}/console/", layout.http()));
    lines.push(format!("Clients (gRPC, etcd v3)  {}", layout.endpoints().join(",")));
    lines.push(format!("Health and metrics       http://{}/metrics", layout.http()));
    lines.push(format!("Logs                     {}", layout.folder.join("logs").display()));
    lines.push(String::new());
    lines.push("Ctrl-C stops everything; the data stays, and the next run goes on with it.".to_owned());
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::command_line::CommandLine;

    fn layout(port_base: u16) -> Layout {
        Layout { folder: ".setpoint".into(), port_base, nodes: 1, agents: 3 }
    }

    #[test]
    fn every_command_it_shows_exists() {
        for (command, _) in TRY {
            let words = std::iter::once("setpoint").chain(command.split(' '));
            if let Err(problem) = CommandLine::try_parse_from(words) {
                panic!("setpoint {command}: {problem}");
            }
        }
    }

    #[test]
    fn on_other_ports_it_says_how_clients_find_them() {
        assert!(!text(&layout(PORT_BASE), None, None).contains("SETPOINT_CONFIG"));
        assert!(text(&layout(9000), None, None).contains("export SETPOINT_CONFIG=.setpoint/dev-config"));
        assert!(text(&layout(9000), None, None).contains("http://127.0.0.1:9002/console/"));
    }

    #[test]
    fn it_says_where_the_sample_answers_or_why_it_does_not() {
        let serving = Seen::Serving { url: "http://127.0.0.1:1/".to_owned(), answer: "Hello".to_owned() };
        let said = text(&layout(PORT_BASE), Some(&serving), None);
        assert!(said.contains("curl http://127.0.0.1:1/\n  Hello"), "{said}");
        let said = text(&layout(PORT_BASE), Some(&Seen::Waiting("1 of 3 serve".to_owned())), None);
        assert!(said.contains("1 of 3 serve") && said.contains(".setpoint/logs"), "{said}");
    }

    #[test]
    fn it_says_how_the_shell_finds_the_program_and_nothing_of_a_sample_that_is_not_there() {
        let said = text(&layout(PORT_BASE), None, Some(Path::new("/opt/bin")));
        assert!(said.contains("PATH=/opt/bin:$PATH") && !said.contains("hello"), "{said}");
        assert!(text(&layout(PORT_BASE), Some(&Seen::Gone), None).contains("describe workload hello"));
    }
}
