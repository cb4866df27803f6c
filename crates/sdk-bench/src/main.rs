//! The benchmark of the controller SDK: what a controller's cache and queue cost, beside kube-rs's runtime.
//!
//! Both get the same work in the same run: the same objects, encoded as each protocol has them beforehand, come as bytes from a
//! service in the same process, so that neither a network nor a server is measured. Each figure is taken by a process of its own
//! on one thread, and is work per second of that thread's time on the processor: a busy machine changes it little.
//!
//! | module | what |
//! |---|---|
//! | `rows` | what is measured and what is asked |
//! | `objects` | the objects, for both |
//! | `ours`, `kube` | the same work, done by each |
//! | `restart` | a restart over many objects, ours alone |
//! | `measure` | processor time and memory |
//! | `report` | the table |
//!
//! Not here: the server and its API (`setpoint-bench`).

// The program's output is its table and its progress.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "kube")]
mod kube;
mod measure;
mod objects;
mod ours;
mod report;
mod restart;
mod rows;

use std::error::Error;
use std::process::{Command, ExitCode};

use measure::Figures;
use rows::{Row, Side};

const REPETITIONS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", row, side] => measure_one(row, side),
        [] => compare(),
        _ => Err("usage: setpoint-sdk-bench".into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("setpoint-sdk-bench: {error}");
        ExitCode::FAILURE
    })
}

/// In a process of its own, so that one figure's memory is not another's.
fn measure_one(row: &str, side: &str) -> Result<ExitCode, Box<dyn Error>> {
    let row = Row::ALL.into_iter().find(|it| it.id() == row).ok_or("no such row")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = match (row, side) {
        (Row::Ingest, "ours") => runtime.block_on(ours::ingest())?,
        (Row::Queue, "ours") => runtime.block_on(ours::queue()),
        (Row::Restart, "ours") => runtime.block_on(restart::restart())?,
        #[cfg(feature = "kube")]
        (Row::Ingest, "kube") => runtime.block_on(kube::ingest())?,
        #[cfg(feature = "kube")]
        (Row::Queue, "kube") => runtime.block_on(kube::queue()),
        _ => return Err("no such side; the peer needs the feature `kube`".into()),
    };
    println!("{}", serde_json::to_string(&figures)?);
    Ok(ExitCode::SUCCESS)
}

/// Every row, both sides in turn.
fn compare() -> Result<ExitCode, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut results = Vec::new();
    for row in Row::ALL {
        let mut taken: [Vec<Figures>; 2] = Default::default();
        for repetition in 1..=REPETITIONS {
            for (side, figures) in Side::ALL.into_iter().zip(&mut taken) {
                if side == Side::Kube && !(cfg!(feature = "kube") && row.has_peer()) {
                    continue;
                }
                eprintln!("{} of {}, {repetition} of {REPETITIONS}", row.id(), side.id());
                let output = Command::new(&program).args(["measure", row.id(), side.id()]).output()?;
                if !output.status.success() {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    return Err(format!("{} of {} failed: {said}", row.id(), side.id()).into());
                }
                figures.push(serde_json::from_slice(&output.stdout)?);
            }
        }
        results.push((row, taken));
    }
    let (table, all_met) = report::table(&results);
    println!("{table}");
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
