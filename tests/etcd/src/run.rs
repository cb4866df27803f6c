//! Runs sequences step by step on a reference and a subject, and stops at the first answer that differs.
//!
//! The reference is a running etcd, or the record of one. State carries over from step to step and from sequence to
//! sequence: both servers must reach the same revisions, so every sequence also tests what the ones before it left.
//!
//! Not here: where the servers come from (`stage`), what happens after a difference (`campaign`, `shrink`).

use serde_json::Value;

use crate::book::Book;
use crate::compare::{Difference, compare};
use crate::error::HarnessError;
use crate::history::History;
use crate::normalise::reported_revision;
use crate::process::Server;
use crate::resolve::Bearings;
use crate::side::{Falsifier, Side, Wait};
use crate::step::{Sequence, Step};

/// A sequence with what etcd answered to each step.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Record {
    pub sequence: Sequence,
    /// The revision and the last compaction before the first step.
    pub revision: i64,
    pub compacted: i64,
    /// One for each step.
    pub answers: Vec<Value>,
}

/// The first step whose answers differ.
#[derive(Clone, Debug)]
pub struct Mismatch {
    pub index: usize,
    pub step: Step,
    pub bearings: Bearings,
    pub reference: Value,
    pub subject: Value,
    pub differences: Vec<Difference>,
}

/// The running reference, with the history that tells what its watches owe.
struct LiveReference {
    side: Side,
    history: History,
}

/// A reference and a subject in step.
pub struct Session {
    reference: Option<LiveReference>,
    subject: Option<Side>,
    bearings: Bearings,
    book: Book,
    /// The processes behind the sides; they end with the session.
    servers: Vec<Box<dyn Server>>,
}

impl Session {
    /// Compares two running servers, both empty.
    pub async fn compare(reference: Side, subject: Side) -> Result<Self, HarnessError> {
        Self::assemble(Some(reference), Some(subject)).await
    }

    /// Only asks the reference, to record its answers.
    pub async fn record_from(reference: Side) -> Result<Self, HarnessError> {
        Self::assemble(Some(reference), None).await
    }

    /// Compares a running, empty server with a record.
    pub async fn replay_on(subject: Side) -> Result<Self, HarnessError> {
        Self::assemble(None, Some(subject)).await
    }

    async fn assemble(reference: Option<Side>, subject: Option<Side>) -> Result<Self, HarnessError> {
        let mut bearings = Bearings { revision: 1, compacted: 0 };
        let reference = match reference {
            Some(mut side) => {
                bearings.revision = side.begin(0).await?;
                let history = History::attach(&side, bearings.revision).await?;
                Some(LiveReference { side, history })
            }
            None => None,
        };
        Ok(Self { reference, subject, bearings, book: Book::default(), servers: Vec::new() })
    }

    /// Keeps something alive for as long as the session.
    pub fn keeping(mut self, server: impl Server + 'static) -> Self {
        self.servers.push(Box::new(server));
        self
    }

    /// Plants differences in the subject's answers from now on.
    pub fn falsify(&mut self, falsifier: Falsifier) {
        if let Some(subject) = &mut self.subject {
            subject.set_falsifier(falsifier);
        }
    }

    /// Runs a sequence on both servers.
    pub async fn run(&mut self, sequence: &Sequence) -> Result<Option<Mismatch>, HarnessError> {
        self.begin(sequence.seed).await?;
        for (index, step) in sequence.steps.iter().enumerate() {
            let (reference, subject) = self.both(step).await?;
            self.check_reference(sequence.seed, index, step, &reference)?;
            if let Some(mismatch) = self.judge(index, step, reference, subject) {
                return Ok(Some(mismatch));
            }
        }
        Ok(None)
    }

    /// Runs a sequence on both servers and goes on after a difference for as long as that makes sense. Returns all
    /// differences, and whether the two stores still hold the same.
    pub async fn survey(&mut self, sequence: &Sequence) -> Result<(Vec<Mismatch>, bool), HarnessError> {
        self.begin(sequence.seed).await?;
        let mut found = Vec::new();
        for (index, step) in sequence.steps.iter().enumerate() {
            let (reference, subject) = self.both(step).await?;
            self.check_reference(sequence.seed, index, step, &reference)?;
            let Some(mismatch) = self.judge(index, step, reference, subject) else { continue };
            self.observe(step, &mismatch.reference);
            found.push(mismatch);
            // After a watch went wrong, the rest of the sequence would only tell so again.
            if !step.is_read() {
                return Ok((found, step.is_watch()));
            }
        }
        Ok((found, true))
    }

    /// Runs a sequence on the reference alone.
    pub async fn record(&mut self, sequence: &Sequence) -> Result<Record, HarnessError> {
        self.begin(sequence.seed).await?;
        let Bearings { revision, compacted } = self.bearings;
        let mut answers = Vec::with_capacity(sequence.steps.len());
        for (index, step) in sequence.steps.iter().enumerate() {
            let (answer, _) = self.both(step).await?;
            self.check_reference(sequence.seed, index, step, &answer)?;
            self.observe(step, &answer);
            answers.push(answer);
        }
        Ok(Record { sequence: sequence.clone(), revision, compacted, answers })
    }

    /// Runs a recorded sequence on the subject.
    pub async fn replay(&mut self, record: &Record) -> Result<Option<Mismatch>, HarnessError> {
        let (recorded, steps) = (record.answers.len(), record.sequence.steps.len());
        if recorded != steps {
            return Err(HarnessError::RecordTooShort { recorded, steps });
        }
        self.bearings = Bearings { revision: record.revision, compacted: record.compacted };
        self.begin(record.sequence.seed).await?;
        for (index, (step, reference)) in record.sequence.steps.iter().zip(&record.answers).enumerate() {
            let wait = self.book.wait(step, &self.bearings, Some(reference));
            let subject = perform(&mut self.subject, step, &self.bearings, &wait).await;
            if let Some(mismatch) = self.judge(index, step, reference.clone(), subject) {
                return Ok(Some(mismatch));
            }
        }
        Ok(None)
    }

    async fn begin(&mut self, seed: u64) -> Result<(), HarnessError> {
        self.book = Book::default();
        if let Some(reference) = &mut self.reference {
            self.bearings.revision = reference.side.begin(seed).await?;
            reference.history.forget_before(self.bearings.compacted);
        }
        if let Some(subject) = &mut self.subject {
            let revision = subject.begin(seed).await?;
            if revision != self.bearings.revision {
                return Err(HarnessError::UnequalStart {
                    reference: self.bearings.revision,
                    subject: revision,
                });
            }
        }
        Ok(())
    }

    /// Both answers; `Null` for a side that is not there.
    async fn both(&mut self, step: &Step) -> Result<(Value, Value), HarnessError> {
        let Some(LiveReference { side, history }) = &mut self.reference else {
            return Ok((Value::Null, Value::Null));
        };
        let mut wait = self.book.wait(step, &self.bearings, None);
        if *step == Step::Settle {
            history.reach(self.bearings.revision).await?;
            self.book.expect_history(&mut wait, history);
        }
        Ok(tokio::join!(
            side.perform(step, &self.bearings, &wait),
            perform(&mut self.subject, step, &self.bearings, &wait),
        ))
    }

    /// The reference must be beyond doubt. One that fell over during a step must not pass for one that refused it, and
    /// one that breaks the rules for watches, or does not deliver what is due, says that the harness is wrong.
    fn check_reference(
        &mut self,
        seed: u64,
        index: usize,
        step: &Step,
        answer: &Value,
    ) -> Result<(), HarnessError> {
        let mut streams = answer.as_object().into_iter().flatten();
        if *step == Step::Settle && streams.any(|(_, stream)| stream.get("complaints").is_some()) {
            let (step, answer) = (format!("{step:?}"), answer.to_string());
            return Err(HarnessError::Irregular { seed, index, step, answer });
        }
        if answer.get("refused").is_none() {
            return Ok(());
        }
        for server in &mut self.servers {
            if let Some(name) = server.fallen() {
                let (step, log) = (format!("{step:?}"), server.log_tails());
                return Err(HarnessError::Fallen { name, seed, index, step, log });
            }
        }
        Ok(())
    }

    fn judge(&mut self, index: usize, step: &Step, reference: Value, subject: Value) -> Option<Mismatch> {
        let differences = compare(step, &self.bearings, &reference, &subject);
        if differences.is_empty() {
            self.observe(step, &reference);
            return None;
        }
        let bearings = self.bearings;
        Some(Mismatch { index, step: step.clone(), bearings, reference, subject, differences })
    }

    fn observe(&mut self, step: &Step, answer: &Value) {
        self.book.observe(step, answer, &self.bearings);
        if let Step::Compact { revision, .. } = step
            && answer.get("refused").is_none()
        {
            self.bearings.compacted = self.bearings.resolve(*revision);
        }
        if let Some(revision) = reported_revision(answer) {
            self.bearings.revision = self.bearings.revision.max(revision);
        }
    }
}

async fn perform(side: &mut Option<Side>, step: &Step, bearings: &Bearings, wait: &Wait) -> Value {
    match side {
        Some(side) => side.perform(step, bearings, wait).await,
        None => Value::Null,
    }
}
