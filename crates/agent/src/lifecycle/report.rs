//! What users are shown of a life: the agent's part of a replica's status, and nothing that belongs to others.

use setpoint_types::kinds::{Blocked, Exit, PendingReason, ReplicaEndpoint, ReplicaStatus, Stage};
use setpoint_types::object::{Condition, ConditionStatus, set_condition};
use setpoint_types::{Generation, Timestamp};

use super::{Life, Outcome, State, Times, Want, Why};

/// How a life stands, without anything that changes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub stage: Stage,
    pub blocked: Option<(PendingReason, String)>,
    pub restarts: u32,
    pub last_exit: Option<Exit>,
    pub started: bool,
    /// False: a probe said that it has to be started anew, or it has ended for good.
    pub live: bool,
    pub ready: bool,
    times: Times,
}

impl Life {
    pub fn report(&self) -> Report {
        let memory = &self.memory;
        let mut report = Report {
            stage: Stage::Starting,
            blocked: None,
            restarts: memory.restarts,
            last_exit: memory.last_exit.clone(),
            started: false,
            live: true,
            ready: false,
            times: memory.times,
        };
        match &self.state {
            State::New { .. } => report.stage = Stage::Bound,
            State::Fetching { problem, .. } => {
                report.blocked = Some((PendingReason::Image, problem.clone()));
            }
            State::Starting => report.blocked = Some((PendingReason::Starting, String::new())),
            State::Waiting { .. } => report.blocked = Some(self.waiting()),
            State::Running(probing) => {
                report.started = probing.is_started();
                report.ready = probing.is_ready();
                let complaint = probing.complaint().to_owned();
                match (report.started, report.ready) {
                    (_, true) => report.stage = Stage::Serving,
                    // Still the same trouble: only if it lasts is it over.
                    (true, false) if probing.is_settling() => report.blocked = Some(self.settling()),
                    (true, false) => report.blocked = Some((PendingReason::NotReady, complaint)),
                    (false, false) => report.blocked = Some((PendingReason::Starting, complaint)),
                }
            }
            State::Stopping(stopping) if stopping.why == Why::Probe => {
                report.live = false;
                report.blocked = Some((PendingReason::Crashing, stopping.message.clone()));
            }
            State::Stopping(_) => report.stage = Stage::Stopping,
            State::Over => {
                report.live = false;
                report.stage = match memory.over {
                    Some(Outcome::Succeeded) => Stage::Succeeded,
                    Some(Outcome::Failed) => Stage::Failed,
                    Some(Outcome::Stopped) | None => Stage::Stopping,
                };
            }
        }
        if self.want == Want::Stop && report.stage == Stage::Starting {
            report.stage = Stage::Stopping;
        }
        report
    }

    /// It runs again, and is not trusted yet.
    fn settling(&self) -> (PendingReason, String) {
        let (reason, message) = self.waiting();
        (reason, format!("{message}; it runs again, and serves if it goes on"))
    }

    /// Before the first start it starts; after that it starts again, because something was wrong.
    fn waiting(&self) -> (PendingReason, String) {
        match &self.memory.last_exit {
            None => (PendingReason::Starting, String::new()),
            Some(exit) if exit.message.is_empty() => (
                PendingReason::Crashing,
                format!("it ended: {}, status {}", exit.reason, exit.code.unwrap_or(-1)),
            ),
            Some(exit) => (PendingReason::Crashing, format!("it ended: {}: {}", exit.reason, exit.message)),
        }
    }
}

impl Report {
    /// Writes the agent's fields of a status, and tells whether anything changed. Times are those of the changes, so that saying
    /// the same again changes nothing.
    pub fn write(
        &self,
        status: &mut ReplicaStatus,
        endpoints: &[ReplicaEndpoint],
        generation: Generation,
        now: Timestamp,
    ) -> bool {
        let before = status.clone();
        status.observed_generation = generation;
        status.stage = self.stage;
        status.restarts = self.restarts;
        status.last_exit.clone_from(&self.last_exit);
        // Published while it is ready, so that whoever looks for it finds only what answers.
        status.endpoints = if self.ready { endpoints.to_vec() } else { Vec::new() };
        self.write_times(status);
        status.blocked = self.blocked.as_ref().map(|(reason, message)| {
            let same = before.blocked.as_ref().filter(|it| it.reason == *reason);
            let since = same.map_or(now, |it| it.since);
            Blocked { reason: *reason, message: message.clone(), since, revision: Default::default() }
        });
        for (kind, holds, reason) in self.conditions() {
            let condition = Condition {
                kind: kind.to_owned(),
                status: if holds { ConditionStatus::True } else { ConditionStatus::False },
                observed_generation: generation,
                last_transition: now,
                reason: reason.to_owned(),
                ..Condition::default()
            };
            set_condition(&mut status.conditions, condition);
        }
        *status != before
    }

    /// Each with whether it holds, and why in one word.
    fn conditions(&self) -> [(&'static str, bool, &'static str); 3] {
        let reason = match (&self.blocked, self.stage) {
            (_, Stage::Serving) => "Serving",
            (_, Stage::Stopping) => "Stopping",
            (_, Stage::Succeeded) => "Succeeded",
            (_, Stage::Failed) => "Failed",
            (Some((PendingReason::Image, _)), _) => "Fetching",
            (Some((PendingReason::NotReady, _)), _) => "NotReady",
            (Some((PendingReason::Crashing, _)), _) => "Crashing",
            _ => "Starting",
        };
        let live = match (self.live, self.stage) {
            (true, _) => "Alive",
            (false, Stage::Stopping | Stage::Succeeded | Stage::Failed) => "Ended",
            (false, _) => "ProbeFailed",
        };
        [("Started", self.started, reason), ("Live", self.live, live), ("Ready", self.ready, reason)]
    }

    fn write_times(&self, status: &mut ReplicaStatus) {
        let times = &mut status.stages;
        times.starting = self.times.starting.or(times.starting);
        times.ready = self.times.ready.or(times.ready);
        times.serving = self.times.ready.or(times.serving);
        times.stopping = self.times.stopping.or(times.stopping);
        times.ended = self.times.ended.or(times.ended);
    }
}
