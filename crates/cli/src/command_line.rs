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
