//! The command line: what every command understands, and the command.

use clap::{Args, Parser};

use crate::commands::Command;

#[derive(Parser)]
#[command(
    name = "setpoint",
    version,
    about = "The command line of Setpoint",
    after_help = "Exit codes: 0 done, 1 the answer is no, 2 wrong input, 3 not found, 4 conflict, 5 not allowed, 6 no server, \
                  7 time is up, 8 anything else. `exec` ends as its command does."
)]
pub struct CommandLine {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Which cluster, as whom, in which namespace.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Every command")]
pub struct Global {
    /// The context of the config file to use, in place of the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The config file [default: SETPOINT_CONFIG, or ~/.setpoint/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<std::path::PathBuf>,
    /// Nodes of the cluster, in place of those of the context: `host:port` or a URL, several with commas
    #[arg(short = 's', long, global = true, value_name = "URL", value_delimiter = ',')]
    pub server: Vec<String>,
    /// The token to show, in place of the context's
    #[arg(long, global = true, value_name = "TOKEN", hide_env_values = true, env = "SETPOINT_TOKEN")]
    pub token: Option<String>,
    /// The namespace, in place of the context's
    #[arg(short = 'n', long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How long one request may take, with all its attempts: 500ms, 10s, 1m
    #[arg(long, global = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub request_timeout: Option<std::time::Duration>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;

    /// What they show comes from agents, which a script has none of: `tests/cli/network.rs`.
    const OF_AGENTS: [&str; 2] = ["logs", "exec"];
    /// They serve until they are stopped (`tests/dev.rs`): a script has only their refusals.
    const SERVERS: [&str; 2] = ["dev", "serve-hello"];
    /// What comes of them shows in other programs, the server's and shells: `tests/cluster`, suites `cli` and `shells`.
    const BY_ANOTHER: [&str; 2] = ["cluster restore", "completion"];

    /// A command of a script, and whether it failed.
    struct Played {
        command: String,
        failed: bool,
    }

    fn played() -> Vec<Played> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden");
        let mut all: Vec<Played> = Vec::new();
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a script");
            for line in text.lines() {
                if let (true, Some((_, command))) = (line.starts_with("$ "), line.split_once("setpoint ")) {
                    all.push(Played { command: command.to_owned(), failed: false });
                } else if let (true, Some(last)) = (line.starts_with("! "), all.last_mut()) {
                    last.failed |= line.starts_with("! error:") || line.starts_with("! Usage:");
                }
            }
        }
        all
    }

    /// Every command that has none below it, with the words that lead to it.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        for below in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            match below.has_subcommands() {
                true => leaves(below, &path, found),
                false => found.push((path, below.clone())),
            }
        }
    }

    #[test]
    fn every_command_has_a_script_as_table_as_json_and_with_an_error() {
        let (mut commands, played) = (Vec::new(), played());
        leaves(&CommandLine::command(), "", &mut commands);
        assert!(commands.len() > 30, "{}", commands.len());
        let mut missing = Vec::new();
        for (path, command) in commands.iter().filter(|(path, _)| !OF_AGENTS.contains(&path.as_str())) {
            let is_of = |it: &&Played| {
                it.command
                    .strip_prefix(path)
                    .is_some_and(|rest| matches!(rest.chars().next(), None | Some(' ')))
            };
            let mine: Vec<&Played> = played.iter().filter(is_of).collect();
            if !mine.iter().any(|it| it.failed) {
                missing.push(format!("{path}: an error"));
            }
            let is_shown = SERVERS.contains(&path.as_str()) || BY_ANOTHER.contains(&path.as_str());
            if !is_shown && mine.iter().all(|it| it.failed) {
                missing.push(format!("{path}: a result"));
            }
            // Where only some forms are allowed, JSON is none of them.
            let has_json = command
                .get_arguments()
                .any(|it| it.get_long() == Some("output") && it.get_possible_values().is_empty());
            if has_json
                && !mine.iter().any(|it| !it.failed && it.command.split(' ').any(|word| word == "json"))
            {
                missing.push(format!("{path}: -o json"));
            }
        }
        assert!(missing.is_empty(), "no script in tests/cli/golden has:\n{}", missing.join("\n"));
    }
}
