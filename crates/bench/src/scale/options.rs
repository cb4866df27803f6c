//! What the measurement of scale can be told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What is looked at. Each has a cluster of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scene {
    /// One replica at a time in an idle cluster, then all of them at once
    Binds,
    /// Workloads whose replicas serve, and nothing happens
    Steady,
    /// A node with a hundred replicas dies
    Death,
}

#[derive(Clone, Debug, Args)]
pub struct ScaleOptions {
    /// What is measured, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "binds,steady,death")]
    pub only: Vec<Scene>,
    /// Nodes of the store
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub servers: u8,
    /// Simulated nodes that replicas are placed on
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    pub nodes: u32,
    /// Replicas that wait for a node
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub replicas: u32,
    /// How many replicas a workload has on average
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workload: u32,
    /// What all replicas want together, in percent of what the nodes have
    #[arg(long, default_value_t = 67, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub load: u32,
    /// How many replicas are placed one at a time
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub singles: u32,
    /// How long nothing is done while it is looked what that costs, in seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub idle_seconds: u64,
    /// A file the figures are written to, as JSON
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Folder for data, on a real disk; a folder in it is made and removed again
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Folder with the programs [default: that of this program]
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Further options of the scheduler, separated by spaces
    #[arg(long, default_value = "")]
    pub scheduler: String,
}
