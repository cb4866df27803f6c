//! The command line, and the plan of a run it resolves to.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Serialize, Serializer};

use crate::rows::Row;
use crate::scale::ScaleOptions;

/// Compares a three-node Setpoint cluster with a three-member etcd on this machine.
#[derive(Debug, Parser)]
#[command(name = "setpoint-bench", args_conflicts_with_subcommands = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server that answers at once without doing anything (the benchmark starts it by itself)
    FloorServer {
        /// Address to serve gRPC on
        #[arg(long)]
        listen: std::net::SocketAddr,
    },
    /// Measure how fast, how well and at what cost many replicas get their nodes
    Scale(ScaleOptions),
}

#[derive(Debug, Args)]
pub struct Options {
    /// What is compared with etcd; etcd itself shows how much two equal clusters differ on this machine
    #[arg(long, value_enum, default_value_t = Subject::Setpoint)]
    pub subject: Subject,
    /// Length of each measured window, in seconds [default: 5, quick: 1.5]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// How often each row is measured on each system, alternating [default: 3, quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repetitions: Option<u32>,
    /// A short run that shows everything works; its figures are rough
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Row>,
    /// Keys loaded for the row `many-keys` [default: 1000000, quick: 100000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub keys: Option<u32>,
    /// Objects loaded for the row `many-objects` [default: 100000, quick: 10000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub objects: Option<u32>,
    /// Leases kept alive in the row `lease-objects` [default: 100000, quick: 10000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub leases: Option<u32>,
    /// How often the leader is killed per repetition [default: 3, quick: 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub kills: Option<u32>,
    /// Leave out the server that answers without doing anything
    #[arg(long)]
    pub no_floor: bool,
    /// Folder the report is written to
    #[arg(long, default_value = "docs/benchmarks")]
    pub out: PathBuf,
    /// Folder for the clusters' data, on a real disk; a folder in it is made and removed again
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// The Setpoint server [default: setpointd beside this program]
    #[arg(long, env = "SETPOINTD")]
    pub setpointd: Option<PathBuf>,
    /// Folder with the etcd binary [default: what scripts/etcd-peer prints]
    #[arg(long, env = "ETCD_BIN_DIR")]
    pub etcd_bin_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    Setpoint,
    Etcd,
}

/// How long and how often to measure.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub rows: Vec<Row>,
    pub quick: bool,
    pub repetitions: u32,
    #[serde(serialize_with = "as_seconds")]
    pub window: Duration,
    #[serde(serialize_with = "as_seconds")]
    pub warm_up: Duration,
    /// Pause before memory is read, for background work to finish.
    #[serde(serialize_with = "as_seconds")]
    pub settle: Duration,
    pub keys: usize,
    pub objects: usize,
    pub leases: usize,
    pub kills: u32,
    pub floor: bool,
}

impl Options {
    pub fn plan(&self) -> Plan {
        let quick = self.quick;
        let mut rows = if self.only.is_empty() { Row::all().to_vec() } else { self.only.clone() };
        rows.sort();
        rows.dedup();
        Plan {
            rows,
            quick,
            repetitions: self.repetitions.unwrap_or(if quick { 1 } else { 3 }),
            window: self.seconds.unwrap_or(Duration::from_millis(if quick { 1_500 } else { 5_000 })),
            warm_up: Duration::from_millis(if quick { 500 } else { 1_000 }),
            settle: Duration::from_millis(if quick { 1_000 } else { 3_000 }),
            keys: self.keys.unwrap_or(if quick { 100_000 } else { 1_000_000 }) as usize,
            objects: self.objects.unwrap_or(if quick { 10_000 } else { 100_000 }) as usize,
            leases: self.leases.unwrap_or(if quick { 10_000 } else { 100_000 }) as usize,
            kills: self.kills.unwrap_or(if quick { 2 } else { 3 }),
            floor: !self.no_floor,
        }
    }
}

impl Plan {
    /// Whether the run covers the whole table at full length, so that its report may stand for the day.
    pub fn is_complete(&self) -> bool {
        !self.quick && self.rows.len() == Row::all().len() && self.repetitions >= 3
    }
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !(0.1..=600.0).contains(&seconds) {
        return Err("must be between 0.1 and 600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn plan(arguments: &[&str]) -> Plan {
        let line = std::iter::once("setpoint-bench").chain(arguments.iter().copied());
        CommandLine::try_parse_from(line).expect("valid arguments").options.plan()
    }

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn by_default_every_row_is_measured_three_times() {
        let plan = plan(&[]);
        assert_eq!((plan.rows.as_slice(), plan.repetitions), (Row::all(), 3));
        assert!(plan.is_complete());
    }

    #[test]
    fn quick_changes_only_what_is_not_given() {
        let plan = plan(&["--quick", "--seconds", "2.5"]);
        assert_eq!((plan.repetitions, plan.window), (1, Duration::from_millis(2_500)));
        assert!(!plan.is_complete());
    }

    #[test]
    fn rows_are_chosen_by_name_and_kept_in_order() {
        let plan = plan(&["--only", "watch,put-1,put-1"]);
        assert_eq!(plan.rows, [Row::Put1, Row::Watch]);
        assert!(!plan.is_complete());
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in
            [["--seconds", "0"], ["--seconds", "x"], ["--repetitions", "0"], ["--only", "nothing"]]
        {
            let line = ["setpoint-bench"].into_iter().chain(arguments);
            assert!(CommandLine::try_parse_from(line).is_err(), "{arguments:?}");
        }
    }
}
