//! The course of a run: every row, every repetition, on both systems in turn.
//!
//! The systems alternate within a row (ours, theirs, ours, theirs, …), each time with a fresh cluster and nothing
//! else running, so that a drift of the machine meets both alike. A row that fails on a system is recorded as failed
//! and the run goes on.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::load::{self, Sample};
use crate::options::Plan;
use crate::rows::Row;
use crate::statistics::Spread;
use crate::system::{Binaries, Cluster, System};

/// One repetition of a row on one system.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Attempt {
    Measured(Sample),
    Failed { failure: String },
}

/// All repetitions of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Attempts {
    pub row: Row,
    pub subject: Vec<Attempt>,
    pub baseline: Vec<Attempt>,
    /// One only: it is a yardstick, not a competitor.
    pub floor: Vec<Attempt>,
}

/// What is compared with what.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    pub subject: System,
    pub baseline: System,
}

/// Measures everything planned, telling `progress` about each step.
pub async fn run(
    contest: Contest,
    plan: &Plan,
    binaries: &Binaries,
    data: &Path,
    mut progress: impl FnMut(&str),
) -> Vec<Attempts> {
    let started = Instant::now();
    let mut rows = Vec::with_capacity(plan.rows.len());
    for row in plan.rows.iter().copied() {
        let mut attempts = Attempts { row, subject: Vec::new(), baseline: Vec::new(), floor: Vec::new() };
        let mut step = async |system: System, repetition: u32| {
            let attempt = attempt(row, system, plan, binaries, data).await;
            let minutes = started.elapsed().as_secs_f64() / 60.0;
            let (row, name, text) = (row.id(), system.name(), attempt.describe(row));
            progress(&format!(
                "{minutes:5.1} min  {row:<19}{name:<9} {repetition}/{}  {text}",
                plan.repetitions
            ));
            attempt
        };
        for repetition in 1..=plan.repetitions {
            attempts.subject.push(step(contest.subject, repetition).await);
            attempts.baseline.push(step(contest.baseline, repetition).await);
        }
        if plan.floor && row.has_floor() {
            attempts.floor.push(step(System::Floor, 1).await);
        }
        rows.push(attempts);
    }
    rows
}

async fn attempt(row: Row, system: System, plan: &Plan, binaries: &Binaries, data: &Path) -> Attempt {
    let mut cluster = match Cluster::start(system, binaries, data).await {
        Ok(cluster) => cluster,
        Err(error) => return Attempt::Failed { failure: chain(&error) },
    };
    match load::measure(row, &mut cluster, plan).await {
        Ok(sample) => Attempt::Measured(sample),
        Err(error) => Attempt::Failed { failure: chain(&error) },
    }
}

impl Attempt {
    pub fn sample(&self) -> Option<&Sample> {
        match self {
            Self::Measured(sample) => Some(sample),
            Self::Failed { .. } => None,
        }
    }

    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Measured(_) => None,
            Self::Failed { failure } => Some(failure),
        }
    }

    fn describe(&self, row: Row) -> String {
        let sample = match self {
            Self::Measured(sample) => sample,
            Self::Failed { failure } => return format!("failed: {failure}"),
        };
        let mut parts = Vec::new();
        for (metric, _) in row.figures() {
            let values = sample.values.get(metric).into_iter().flatten().copied();
            if let Some(spread) = Spread::of(values) {
                parts.push(format!("{} {}", metric.title(), metric.unit().show(spread.median)));
            }
        }
        if sample.errors > 0 {
            let example = sample.first_error.as_deref().unwrap_or_default();
            parts.push(format!("{} errors ({example})", sample.errors));
        }
        parts.join(", ")
    }
}

/// An error with all its causes.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
