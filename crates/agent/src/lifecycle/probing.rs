//! The probes of one run: which one is to be asked when, and what their answers in a row mean.

use std::fmt;
use std::time::Duration;

use super::rules::{Rhythm, Rules};
use crate::machine::BootTime;

/// The three questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        })
    }
}

/// All probes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probing {
    startup: Option<Series>,
    liveness: Option<Series>,
    readiness: Option<Series>,
    settling: Settling,
}

/// Whether it has run for long enough to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settling {
    /// So long from when it has come up.
    For(Duration),
    Until(BootTime),
    Done,
}

/// The answers to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Series {
    rhythm: Rhythm,
    next: BootTime,
    /// Asked, and not answered yet.
    asked: bool,
    successes: u32,
    failures: u32,
    verdict: Option<bool>,
    /// Why the last answer was a failure.
    message: String,
}

impl Series {
    fn new(rhythm: Rhythm, start: BootTime) -> Self {
        let next = start.after(rhythm.delay);
        Self { rhythm, next, asked: false, successes: 0, failures: 0, verdict: None, message: String::new() }
    }

    fn answer(&mut self, ok: bool, message: String, now: BootTime) {
        self.asked = false;
        self.next = now.after(self.rhythm.period);
        if ok {
            (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
            self.message.clear();
        } else {
            (self.successes, self.failures) = (0, self.failures.saturating_add(1));
            self.message = message;
        }
        if self.successes >= self.rhythm.successes {
            self.verdict = Some(true);
        } else if self.failures >= self.rhythm.failures {
            self.verdict = Some(false);
        }
    }
}

impl Probing {
    /// Of a run that begins, or is found running, now, and that has to last for `settle` before it may be used.
    pub fn new(rules: &Rules, settle: Duration, start: BootTime) -> Self {
        let series = |rhythm: Option<Rhythm>| rhythm.map(|rhythm| Series::new(rhythm, start));
        Self {
            startup: series(rules.startup),
            liveness: series(rules.liveness),
            readiness: series(rules.readiness),
            settling: if settle.is_zero() { Settling::Done } else { Settling::For(settle) },
        }
    }

    /// Takes note of the time.
    pub fn settle(&mut self, now: BootTime) {
        if let Settling::For(time) = self.settling
            && self.is_started()
        {
            self.settling = Settling::Until(now.after(time));
        }
        if matches!(self.settling, Settling::Until(at) if at <= now) {
            self.settling = Settling::Done;
        }
    }

    /// It runs, and has to go on doing so for a while before it may be used.
    pub fn is_settling(&self) -> bool {
        self.settling != Settling::Done
    }

    fn series(&self, kind: ProbeKind) -> Option<&Series> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
        }
    }

    fn series_mut(&mut self, kind: ProbeKind) -> Option<&mut Series> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
        }
    }

    /// Whose turn it is at all: the startup probe alone, until it has succeeded once.
    fn active(&self) -> &'static [ProbeKind] {
        match self.startup.as_ref().is_some_and(|series| series.verdict != Some(true)) {
            true => &[ProbeKind::Startup],
            false => &[ProbeKind::Liveness, ProbeKind::Readiness],
        }
    }

    /// The questions that are due. They count as asked.
    pub fn due(&mut self, now: BootTime) -> Vec<ProbeKind> {
        let mut due = Vec::new();
        for kind in self.active() {
            if let Some(series) = self.series_mut(*kind)
                && !series.asked
                && series.next <= now
            {
                series.asked = true;
                due.push(*kind);
            }
        }
        due
    }

    /// When a question is due next; none while all that are due are asked.
    pub fn next(&self) -> Option<BootTime> {
        let waiting = self.active().iter().filter_map(|kind| self.series(*kind)).filter(|it| !it.asked);
        let settled = match self.settling {
            Settling::Until(at) => Some(at),
            Settling::For(_) | Settling::Done => None,
        };
        waiting.map(|series| series.next).chain(settled).min()
    }

    pub fn answer(&mut self, kind: ProbeKind, ok: bool, message: String, now: BootTime) {
        if let Some(series) = self.series_mut(kind) {
            series.answer(ok, message, now);
        }
    }

    /// Asked again later, as if nobody had asked now.
    pub fn unasked(&mut self, kind: ProbeKind, message: String, now: BootTime) {
        if let Some(series) = self.series_mut(kind) {
            series.asked = false;
            series.next = now.after(series.rhythm.period);
            series.message = message;
        }
    }

    /// It has come up: there is nothing to wait for, or the startup probe has succeeded.
    pub fn is_started(&self) -> bool {
        self.startup.as_ref().is_none_or(|series| series.verdict == Some(true))
    }

    /// The probe that says that it has to be started anew, and why.
    pub fn is_dead(&self) -> Option<(ProbeKind, &str)> {
        [ProbeKind::Startup, ProbeKind::Liveness].into_iter().find_map(|kind| {
            let series = self.series(kind).filter(|series| series.verdict == Some(false))?;
            Some((kind, series.message.as_str()))
        })
    }

    /// It may be used.
    pub fn is_ready(&self) -> bool {
        let is_ready = self.readiness.as_ref().is_none_or(|series| series.verdict == Some(true));
        self.is_started() && !self.is_settling() && is_ready
    }

    /// What the last answer of the probe that is waited for said.
    pub fn complaint(&self) -> &str {
        let kind = if self.is_started() { ProbeKind::Readiness } else { ProbeKind::Startup };
        self.series(kind).map_or("", |series| series.message.as_str())
    }
}
