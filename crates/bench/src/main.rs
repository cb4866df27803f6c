//! The benchmark: a three-node Setpoint cluster beside a three-member etcd, on one machine in one run.
//!
//! `rows` says what is measured and asked, `load` how each row is measured, `system` how clusters are started,
//! `run` in which order, `report` what comes out. `scale` is about workloads, which etcd has nothing like, and has all of that itself. Not here: correctness under faults, which is the tests' business;
//! a row only checks that answers are what it asked for.

// The program's output is its table and its progress.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod connection;
mod environment;
mod load;
mod manifest;
mod measure;
mod metric;
mod options;
mod probe;
mod report;
mod rows;
mod run;
mod scale;
mod statistics;
mod system;
mod workload;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::environment::Environment;
use crate::measure::disk::FileSystem;
use crate::options::{Command, CommandLine, Options};
use crate::report::Report;
use crate::run::{Contest, chain};
use crate::scale::ScaleOptions;
use crate::system::{Binaries, System};

#[tokio::main]
async fn main() -> ExitCode {
    let line = CommandLine::parse();
    let outcome = match line.command {
        Some(Command::FloorServer { listen }) => {
            system::serve_floor(listen).await.map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Some(Command::Scale(options)) => until_interrupted(scale(options)).await,
        None => until_interrupted(bench(line.options)).await,
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("setpoint-bench: {}", chain(error.as_ref()));
        ExitCode::FAILURE
    })
}

/// Runs the benchmark; at Ctrl-C or SIGTERM it is dropped, and with it every server it has started.
async fn until_interrupted(
    bench: impl Future<Output = Result<ExitCode, Box<dyn Error>>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = bench => outcome,
        _ = interrupt.recv() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}

/// How fast workloads get their nodes: nothing of etcd's is like it, so it is measured alone.
async fn scale(options: ScaleOptions) -> Result<ExitCode, Box<dyn Error>> {
    let data = data_parent(options.data.as_ref())?;
    let data = tempfile::Builder::new().prefix("setpoint-scale-").tempdir_in(data)?;
    let figures = scale::run(&options, data.path()).await?;
    println!("\n{}", figures.table());
    if let Some(path) = &options.out {
        std::fs::write(path, figures.json()?)?;
        println!("figures: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

async fn bench(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    let plan = options.plan();
    let binaries = Binaries::locate(&options)?;
    let data = data_parent(options.data.as_ref())?;
    let data = tempfile::Builder::new().prefix("setpoint-bench-").tempdir_in(data)?;
    let environment = Environment::observe(data.path(), &binaries);
    if environment.load_average > 0.5 {
        let load = environment.load_average;
        eprintln!(
            "setpoint-bench: warning: the load average is {load}; something else is running on this machine"
        );
    }
    let contest = Contest { subject: options.subject.into(), baseline: System::Etcd };
    let attempts = run::run(contest, &plan, &binaries, data.path(), |line| eprintln!("{line}")).await;
    let report = Report::new(environment, plan, contest, attempts);
    println!("\n{}", report.table());
    println!("report: {}", report.write(&options.out)?.display());
    Ok(if report.has_failures() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The folder for data: the one asked for, or the first usual one that is on a disk.
fn data_parent(asked: Option<&PathBuf>) -> Result<PathBuf, Box<dyn Error>> {
    let candidates = match asked {
        Some(folder) => vec![folder.clone()],
        None => vec![std::env::temp_dir(), PathBuf::from("/var/tmp"), std::env::current_dir()?],
    };
    for folder in &candidates {
        if !FileSystem::of(folder).is_ok_and(|found| found.is_memory()) {
            return Ok(folder.clone());
        }
    }
    let folder = candidates.into_iter().next().ok_or("no folder for data")?;
    eprintln!(
        "setpoint-bench: warning: {} is in memory, where a sync costs nothing; name a folder on a disk with --data",
        folder.display()
    );
    Ok(folder)
}
