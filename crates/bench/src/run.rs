//! The course of a run: every row, every repetition, on both systems in turn.
//!
//! The systems alternate within a row (ours, theirs, ours, theirs, …), each time with a fresh cluster and nothing
//! else running, so that a drift of the machine meets both alike. A row that fails on a system is recorded as failed
//! and the run goes on.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::load::{self, Interface, Sample};
use crate::options::Plan;
use crate::rows::{Peer, Row};
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
        let mut step = async |party: Party, repetition: u32| {
            let attempt = attempt(row, party, plan, binaries, data).await;
            let minutes = started.elapsed().as_secs_f64() / 60.0;
            let (row, name, text) = (row.id(), party.name, attempt.describe(row));
            progress(&format!(
                "{minutes:5.1} min  {row:<19}{name:<9} {repetition}/{}  {text}",
                plan.repetitions
            ));
            attempt
        };
        for repetition in 1..=plan.repetitions {
            attempts.subject.push(step(contest.subject(), repetition).await);
            attempts.baseline.push(step(contest.baseline(row), repetition).await);
        }
        if plan.floor && row.has_floor() {
            attempts.floor.push(step(Party::of(System::Floor), 1).await);
        }
        rows.push(attempts);
    }
    rows
}

/// Who is measured, and what it is asked through where a row is about objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Party {
    system: System,
    interface: Interface,
    name: &'static str,
}

impl Party {
    fn of(system: System) -> Self {
        Self { system, interface: Interface::Etcd, name: system.name() }
    }
}

impl Contest {
    fn subject(self) -> Party {
        match self.subject {
            System::Setpoint => Party { interface: Interface::Objects, ..Party::of(self.subject) },
            system => Party::of(system),
        }
    }

    fn baseline(self, row: Row) -> Party {
        match row.peer() {
            Peer::Etcd => Party::of(self.baseline),
            Peer::OwnFacade => Party { name: "facade", ..Party::of(self.subject) },
        }
    }
}

async fn attempt(row: Row, party: Party, plan: &Plan, binaries: &Binaries, data: &Path) -> Attempt {
    let mut cluster = match Cluster::start(party.system, binaries, data).await {
        Ok(cluster) => cluster,
        Err(error) => return Attempt::Failed { failure: chain(&error) },
    };
    match load::measure(row, &mut cluster, plan, party.interface).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_compared_with_keys_of_the_right_system() {
        let contest = Contest { subject: System::Setpoint, baseline: System::Etcd };
        assert_eq!(contest.subject().interface, Interface::Objects);
        let facade = contest.baseline(Row::ObjectCreate);
        assert_eq!((facade.system, facade.interface), (System::Setpoint, Interface::Etcd));
        let etcd = contest.baseline(Row::ManyObjects);
        assert_eq!((etcd.system, etcd.interface), (System::Etcd, Interface::Etcd));
    }

    #[test]
    fn etcd_against_itself_is_never_asked_for_objects() {
        let contest = Contest { subject: System::Etcd, baseline: System::Etcd };
        for row in Row::all() {
            for party in [contest.subject(), contest.baseline(*row)] {
                assert_eq!((party.system, party.interface), (System::Etcd, Interface::Etcd));
            }
        }
    }
}
