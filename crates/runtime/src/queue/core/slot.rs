//! What the queue knows of a key.
//!
//! Two parties want a key to be looked at. *Asks* come from outside, by adds; each is owed a run that begins at or after its
//! time, whatever happens in between. The *verdict* is the last run's own wish: its retry or its requeue. It is void once
//! another run begins, because that one decides anew. A key of which nobody wants anything is forgotten.

use std::sync::Arc;
use std::time::Duration;

use super::backoff::Backoff;
use super::moment::Moment;
use super::outcome::Outcome;
use super::priority::Priority;
use super::ready::LaneId;

/// A key and all that is known of it.
#[derive(Debug)]
pub struct Slot<K> {
    pub key: Arc<K>,
    pub hash: u64,
    pub lane: LaneId,
    /// Of the run to come, or of the one there is.
    pub priority: Priority,
    pub place: Place,
    asked: Option<Asked>,
    verdict: Option<Moment>,
    failing: Failing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between two places, within one call.
    Nowhere,
    /// Nobody wants it before this time.
    Waiting { until: Moment },
    /// It may run.
    Ready { since: Moment },
    /// It runs.
    Running {
        since: Moment,
        /// It began within a backoff, because of an ask.
        early: bool,
        /// What was asked for meanwhile.
        again: Option<Priority>,
    },
}

/// The times asked for that no run has answered. Those in between are answered at the latest by the run for the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    first: Moment,
    last: Moment,
}

/// What is left of failed runs until one succeeds.
#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    /// Failures that count: not those of early runs.
    count: u32,
    /// The wait drawn for the last of them.
    delay: Duration,
    /// The end of that wait.
    retry_at: Moment,
    /// Until then no ask makes the key run.
    calm_until: Moment,
}

impl<K> Slot<K> {
    pub fn new(key: K, hash: u64, lane: LaneId, priority: Priority) -> Self {
        Self {
            key: Arc::new(key),
            hash,
            lane,
            priority,
            place: Place::Nowhere,
            asked: None,
            verdict: None,
            failing: Failing::default(),
        }
    }

    pub fn failures(&self) -> u32 {
        self.failing.count
    }

    /// Somebody wants it to run at `due` or later.
    pub fn ask(&mut self, due: Moment) {
        self.asked = Some(match self.asked {
            None => Asked { first: due, last: due },
            Some(asked) => Asked { first: asked.first.min(due), last: asked.last.max(due) },
        });
    }

    /// When it should run, if anybody wants that.
    pub fn wake(&self) -> Option<Moment> {
        let asked = self.asked.map(|asked| match self.failing.count {
            0 => asked.first,
            _ => asked.first.max(self.failing.calm_until),
        });
        match (asked, self.verdict) {
            (Some(asked), Some(verdict)) => Some(asked.min(verdict)),
            (asked, verdict) => asked.or(verdict),
        }
    }

    /// It runs now. That answers whatever was asked for up to now; the verdict is replaced when the run ends.
    pub fn start(&mut self, now: Moment) {
        self.asked = match self.asked {
            Some(asked) if asked.first > now => Some(asked),
            Some(asked) if asked.last > now => Some(Asked { first: asked.last, ..asked }),
            _ => None,
        };
        let early = self.failing.count > 0 && now < self.failing.retry_at;
        self.place = Place::Running { since: now, early, again: None };
    }

    /// Its run has ended. `early` and `again` are what [`Place::Running`] had.
    pub fn finish(&mut self, now: Moment, run: Ended, backoff: &Backoff) {
        self.place = Place::Nowhere;
        match run.outcome {
            Outcome::Done | Outcome::After(_) => {
                self.failing = Failing::default();
                self.priority = run.again.unwrap_or(self.priority);
                self.verdict = match run.outcome {
                    Outcome::After(delay) => Some(now.after(delay)),
                    _ => None,
                };
            }
            Outcome::Failed | Outcome::FailedFor(_) => {
                self.failing.fail(now, run.early, run.random, backoff);
                if let Outcome::FailedFor(least) = run.outcome {
                    self.failing.not_before(now.after(least));
                }
                self.priority = run.again.map_or(self.priority, |again| self.priority.urgent_of(again));
                self.verdict = Some(self.failing.retry_at);
            }
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub outcome: Outcome,
    pub early: bool,
    pub again: Option<Priority>,
    pub random: u64,
}

impl Failing {
    /// The failure of an early run changes neither the count nor the end of the wait: however often a key changes while it
    /// waits, it waits no longer for that.
    fn fail(&mut self, now: Moment, early: bool, random: u64, backoff: &Backoff) {
        if !early {
            self.count = self.count.saturating_add(1);
            self.delay = backoff.delay(self.count, random);
            self.retry_at = now.after(self.delay);
        }
        self.calm_until = now.after(backoff.calm(self.delay));
    }

    /// Neither the end of the wait nor a change makes it run earlier.
    fn not_before(&mut self, moment: Moment) {
        self.retry_at = self.retry_at.max(moment);
        self.calm_until = self.calm_until.max(moment);
    }
}
