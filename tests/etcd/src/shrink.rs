//! Makes a failing sequence shorter: removes steps as long as the rest still shows a difference.
//!
//! Every attempt runs on a fresh pair of servers, after a prologue that gives the store a past and a compaction, so the
//! result can be replayed by itself. Larger runs of steps go first. Both the attempts and the time are bounded.

use std::time::{Duration, Instant};

use crate::blob::Blob;
use crate::error::HarnessError;
use crate::run::Mismatch;
use crate::stage::Stage;
use crate::step::{DeleteStep, PutStep, Rev, Sequence, Step};

/// How much effort to spend.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub attempts: usize,
    pub time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { attempts: 80, time: Duration::from_secs(180) }
    }
}

#[derive(Debug)]
pub struct Shrunk {
    /// Starts with the prologue, ends with the step that differs.
    pub sequence: Sequence,
    pub mismatch: Mismatch,
    pub attempts: usize,
}

/// Puts and deletes a key, and compacts: a fresh store is not quite like one that has been emptied.
fn prologue() -> Vec<Step> {
    let key = Blob::fixed(b"prologue");
    vec![
        Step::Put(PutStep { key: key.clone(), ..PutStep::default() }),
        Step::Delete(DeleteStep { key, ..DeleteStep::default() }),
        Step::Compact { revision: Rev::Now(0), physical: false },
    ]
}

/// Shrinks the sequence. `None` if it shows no difference on a fresh pair.
pub async fn shrink(
    stage: &Stage,
    sequence: &Sequence,
    budget: Budget,
) -> Result<Option<Shrunk>, HarnessError> {
    let started = Instant::now();
    let Some((mut steps, mut mismatch)) = attempt(stage, sequence, sequence.steps.clone()).await? else {
        return Ok(None);
    };
    let mut attempts = 1;
    let mut size = (steps.len() / 2).max(1);
    'sizes: loop {
        let mut first = 0;
        while first < steps.len() {
            if attempts >= budget.attempts || started.elapsed() >= budget.time {
                break 'sizes;
            }
            let mut fewer = steps.clone();
            fewer.drain(first..(first + size).min(steps.len()));
            attempts += 1;
            match attempt(stage, sequence, fewer).await? {
                Some((shorter, found)) => (steps, mismatch) = (shorter, found),
                None => first += size,
            }
        }
        if size == 1 {
            break;
        }
        size /= 2;
    }
    let steps = with_prologue(steps);
    Ok(Some(Shrunk { sequence: Sequence { steps, ..sequence.clone() }.settled(), mismatch, attempts }))
}

/// Runs the steps on a fresh pair. If they differ: the steps up to there, and the mismatch.
async fn attempt(
    stage: &Stage,
    origin: &Sequence,
    steps: Vec<Step>,
) -> Result<Option<(Vec<Step>, Mismatch)>, HarnessError> {
    let sequence = Sequence { steps: with_prologue(steps), ..origin.clone() }.settled();
    let mut session = stage.open().await?;
    let Some(mismatch) = session.run(&sequence).await? else { return Ok(None) };
    let prologue = prologue().len();
    // A settle step may be what differs: it is inserted again, before the step after it.
    let end = sequence.steps.len().min(mismatch.index + 2);
    let kept = sequence.steps[..end].iter().skip(prologue).filter(|step| **step != Step::Settle);
    Ok(Some((kept.cloned().collect(), mismatch)))
}

fn with_prologue(steps: Vec<Step>) -> Vec<Step> {
    prologue().into_iter().chain(steps).collect()
}
