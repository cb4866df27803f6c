//! Many sequences on one pair of servers, and what to do when one differs: shrink it, and say how to replay it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tokio::task::JoinSet;

use crate::error::HarnessError;
use crate::generate;
use crate::run::{Mismatch, Session};
use crate::shrink::{Budget, shrink};
use crate::side::Falsifier;
use crate::stage::Stage;
use crate::step::{Sequence, Step};

/// How many sequences may depend on each other's state before the next one is made to reset it.
const CHAIN_MAX: usize = 4;

/// What a campaign found.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sequences: usize,
    pub steps: usize,
    /// The report of the first difference, if there was one. The campaign ends with it.
    pub difference: Option<String>,
}

/// Runs sequences on one session, remembering those that the state depends on.
pub struct Campaign {
    session: Session,
    /// The sequences since the store was last emptied, oldest first.
    chain: Vec<Sequence>,
    pub sequences: usize,
    pub steps: usize,
}

impl Campaign {
    pub fn new(session: Session) -> Self {
        Self { session, chain: Vec::new(), sequences: 0, steps: 0 }
    }

    /// Runs one sequence. If it differs: everything since the last reset as one sequence, and the mismatch.
    pub async fn run(&mut self, sequence: Sequence) -> Result<Option<(Sequence, Mismatch)>, HarnessError> {
        self.chain.push(sequence);
        let sequence = &self.chain[self.chain.len() - 1];
        self.sequences += 1;
        self.steps += sequence.steps.len();
        let resets = sequence.resets;
        if let Some(mut mismatch) = self.session.run(sequence).await? {
            let earlier = &self.chain[..self.chain.len() - 1];
            mismatch.index += earlier.iter().map(|sequence| sequence.steps.len()).sum::<usize>();
            return Ok(Some((concatenate(&self.chain), mismatch)));
        }
        if resets {
            self.chain.clear();
        }
        Ok(None)
    }

    /// Plants differences from now on.
    pub fn falsify(&mut self, falsifier: Falsifier) {
        self.session.falsify(falsifier);
        self.chain.clear();
    }

    /// The next sequence has to reset the store.
    pub fn must_reset(&self) -> bool {
        self.chain.len() + 1 >= CHAIN_MAX
    }
}

/// How much to compare.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub first_seed: u64,
    pub sequences: usize,
    /// Pairs of servers that run side by side, each with its share of the sequences. Most of the time is spent waiting
    /// for watches to catch up.
    pub lanes: usize,
}

/// Runs the fixed scenarios, and sequences made from consecutive seeds, until one differs.
pub async fn run(stage: &Stage, extent: Extent, notes: &Path) -> Result<Outcome, HarnessError> {
    let scenarios = generate::scenarios();
    let generated = u64::try_from(extent.sequences.saturating_sub(scenarios.len())).unwrap_or(0);
    let lanes = u64::try_from(extent.lanes.max(1)).unwrap_or(1);
    let mut running = JoinSet::new();
    for lane in 0..lanes {
        let seeds = (0..generated).filter(move |number| number % lanes == lane);
        let seeds: Vec<u64> = seeds.map(|number| extent.first_seed + number).collect();
        let scenarios = if lane == 0 { scenarios.clone() } else { Vec::new() };
        let stage = stage.clone();
        running.spawn(async move { run_lane(&stage, scenarios, seeds).await });
    }
    let mut outcome = Outcome::default();
    while let Some(lane) = running.join_next().await {
        let lane = lane.map_err(|source| HarnessError::Lane { source })??;
        outcome.sequences += lane.sequences;
        outcome.steps += lane.steps;
        if let Some((sequence, mismatch)) = lane.found {
            running.shutdown().await;
            outcome.difference = Some(explain(stage, &sequence, &mismatch, notes).await?);
            break;
        }
    }
    Ok(outcome)
}

struct Lane {
    sequences: usize,
    steps: usize,
    found: Option<(Sequence, Mismatch)>,
}

async fn run_lane(stage: &Stage, scenarios: Vec<Sequence>, seeds: Vec<u64>) -> Result<Lane, HarnessError> {
    let mut campaign = Campaign::new(stage.open().await?);
    let mut found = None;
    for scenario in scenarios {
        found = campaign.run(scenario).await?;
        if found.is_some() {
            break;
        }
    }
    for seed in seeds {
        if found.is_some() {
            break;
        }
        found = campaign.run(generate::sequence(seed, campaign.must_reset())).await?;
    }
    Ok(Lane { sequences: campaign.sequences, steps: campaign.steps, found })
}

/// Replays a sequence from a file on a fresh pair; the report of the difference, if there is one.
pub async fn replay_file(stage: &Stage, path: &Path) -> Result<Option<String>, HarnessError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| HarnessError::File { path: path.to_owned(), source })?;
    let sequence: Sequence = serde_json::from_str(&text)
        .map_err(|source| HarnessError::Content { path: path.to_owned(), source })?;
    let mut session = stage.open().await?;
    let mismatch = session.run(&sequence).await?;
    Ok(mismatch.map(|mismatch| describe(&sequence, &mismatch)))
}

/// The whole report: the difference, the shrunk sequence, the command to replay it.
async fn explain(
    stage: &Stage,
    sequence: &Sequence,
    mismatch: &Mismatch,
    notes: &Path,
) -> Result<String, HarnessError> {
    let mut report = describe(sequence, mismatch);
    let (kept, note) = match shrink(stage, sequence, Budget::default()).await? {
        Some(shrunk) => {
            let note = format!(
                "shrunk in {} attempts to {} steps, of which the last differs:\n{}",
                shrunk.attempts,
                shrunk.sequence.steps.len(),
                shown(&shrunk.sequence.steps),
            );
            report.push_str("--- after shrinking ---\n");
            report.push_str(&describe(&shrunk.sequence, &shrunk.mismatch));
            (shrunk.sequence, note)
        }
        None => {
            (sequence.clone(), "a fresh pair of servers does not show the difference: not shrunk".to_owned())
        }
    };
    let path = save(&kept, notes)?;
    let _ = writeln!(
        report,
        "{note}\nreplay: SETPOINT_DIFF_REPLAY={} cargo nextest run -p setpoint-etcd-tests \
         differential_live",
        path.display()
    );
    Ok(report)
}

fn save(sequence: &Sequence, folder: &Path) -> Result<PathBuf, HarnessError> {
    let path = folder.join(format!("difference-{}.json", sequence.seed));
    let text = serde_json::to_string_pretty(sequence)
        .map_err(|source| HarnessError::Content { path: path.clone(), source })?;
    std::fs::write(&path, text).map_err(|source| HarnessError::File { path: path.clone(), source })?;
    Ok(path)
}

/// One difference in words.
pub fn describe(sequence: &Sequence, mismatch: &Mismatch) -> String {
    let mut out = String::new();
    let Mismatch { index, step, bearings, reference, subject, differences } = mismatch;
    let _ = writeln!(
        out,
        "seed {} ({}), step {index} of {}",
        sequence.seed,
        sequence.profile,
        sequence.steps.len()
    );
    let _ = writeln!(out, "store at revision {}, compacted at {}", bearings.revision, bearings.compacted);
    let _ = writeln!(out, "request   {}", json(step));
    let _ = writeln!(out, "reference {reference}");
    let _ = writeln!(out, "subject   {subject}");
    for difference in differences {
        let _ = writeln!(out, "  {difference}");
    }
    out
}

fn shown(steps: &[Step]) -> String {
    let lines = steps.iter().enumerate().map(|(index, step)| format!("  {index}: {}", json(step)));
    lines.collect::<Vec<_>>().join("\n")
}

fn json(step: &Step) -> String {
    serde_json::to_string(step).unwrap_or_else(|_| format!("{step:?}"))
}

/// Several sequences as one. Streams are closed and leases revoked at the end of each, so their slots do not clash.
fn concatenate(chain: &[Sequence]) -> Sequence {
    let last = &chain[chain.len() - 1];
    let steps = chain.iter().flat_map(|sequence| sequence.steps.iter().cloned()).collect();
    Sequence { steps, ..last.clone() }
}
