//! The life of a replica on its node, as a machine without IO: what is wanted and what is seen come in, what is to be done comes
//! out. Its shell performs that in order and tells it what came of it.
//!
//! ```text
//! New ──accept──▶ Fetching ──▶ Starting ──▶ Running ──▶ Stopping ──▶ Over
//!                    ▲             ▲           │            │
//!                    └── retry     └─ Waiting ◀┴────────────┘   (backoff, if it is to be started again)
//! ```
//!
//! - [`rules`]: what the template says; [`probing`]: probes; [`memory`]: what survives the agent; [`report`]: what users are shown
//!
//! **Guarantees**
//! - A run is begun only when the one before is known to be over, each with a number of its own.
//! - Once it is not wanted, no run is begun, and the one there is is ended: asked, then killed, until it is gone.
//! - An exclusive one is not begun, and not left running, beyond what the lease allows.

mod memory;
mod probing;
mod report;
mod rules;

use std::time::Duration;

pub use memory::{Memory, Outcome, Times, Why};
pub use probing::ProbeKind;
use probing::Probing;
pub use report::Report;
pub use rules::{Rhythm, Rules};
use setpoint_types::Timestamp;
use setpoint_types::kinds::RestartPolicy;

use crate::machine::BootTime;
use crate::runtime::{Cause, Ended, Found};

/// What comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// What the server wants.
    Want(Want),
    /// How long an exclusive one may be there.
    Grant(Grant),
    /// The server was told that the agent has it.
    Accepted,
    Fetched(Result<(), String>),
    /// A run was begun, or could not be, and then never will be.
    Started {
        number: u32,
        result: Result<(), String>,
    },
    /// Nothing of a run is alive.
    Ended {
        number: u32,
        ended: Ended,
    },
    Probed {
        number: u32,
        kind: ProbeKind,
        ok: bool,
        message: String,
    },
    /// A probe could not be asked, which says nothing about the run.
    Unasked {
        number: u32,
        kind: ProbeKind,
        message: String,
    },
    /// The command before the stop is over, whatever came of it.
    PreStopped {
        number: u32,
    },
    Tick,
}

/// What the server wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Run,
    Stop,
}

/// How long an exclusive replica may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Until then, and longer if the lease is renewed.
    Until(BootTime),
    /// Its binding is of a time with the lease that is over: never again.
    Lost,
}

/// What is to be done. Each is done once, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the server that the agent has it.
    Accept,
    Fetch,
    /// Begin a run of this number. What is in [`Memory`] has to be written down first.
    Start(u32),
    Probe(ProbeKind),
    PreStop,
    Terminate,
    Kill,
}

/// The two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    pub boot: BootTime,
    pub wall: Timestamp,
}

/// What a preStop that took all the time leaves for the process to end by itself.
const LAST_CHANCE: Duration = Duration::from_secs(2);

/// Between two kills of what does not go.
const KILL_AGAIN: Duration = Duration::from_secs(5);

/// The longest that something has to last before it serves again: what fails at its start has failed by then.
const SETTLE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    New { asked: bool },
    Fetching { asked: bool, tries: u32, due: BootTime, problem: String },
    Starting,
    Running(Box<Probing>),
    Stopping(Stopping),
    Waiting { until: BootTime },
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stopping {
    why: Why,
    message: String,
    phase: Phase,
    /// When it is killed, or killed again.
    kill_at: BootTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    PreStop,
    Asked,
    Killed,
}

/// One replica's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    rules: Rules,
    memory: Memory,
    want: Want,
    grant: Grant,
    state: State,
}

impl Life {
    /// A new one, that nobody has begun.
    pub fn new(rules: Rules, grant: Grant) -> Self {
        let (memory, state) = (Memory::default(), State::New { asked: false });
        Self { rules, memory, want: Want::Run, grant, state }
    }

    /// One that was begun before: what was written down, and what became of its newest run.
    pub fn resume(rules: Rules, memory: Memory, found: Found, grant: Grant, now: Now) -> Self {
        let mut life = Self { rules, memory, want: Want::Run, grant, state: State::Over };
        life.state = match (life.memory.over, found) {
            (Some(_), _) => State::Over,
            (None, Found::Running { started }) => {
                let lasted = Duration::from_millis(now.wall.0.saturating_sub(started.0));
                State::Running(Box::new(life.probing(lasted, now)))
            }
            (None, Found::Ended(_)) if life.memory.ended == life.memory.number => {
                let wait = life.rules.wait(life.memory.in_a_row.saturating_sub(1));
                State::Waiting { until: now.boot.after(wait) }
            }
            (None, Found::Ended(ended)) => {
                life.state = State::Starting;
                life.ended(&ended, None, now);
                return life;
            }
            (None, Found::Never) if life.memory.accepted => life.before_start(),
            (None, Found::Never) => State::New { asked: false },
        };
        life
    }

    /// What has to be written down before the effects of a step are performed.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Nothing runs, and nothing will.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The run there is, or may be.
    pub fn run(&self) -> Option<u32> {
        let is_there = matches!(self.state, State::Starting | State::Running(_) | State::Stopping(_));
        is_there.then_some(self.memory.number)
    }

    /// Takes in what happened and tells what is to be done.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Want(want) => self.want = want,
            Input::Grant(grant) => self.grant = grant,
            Input::Accepted => {
                self.memory.accepted = true;
                if matches!(self.state, State::New { .. }) {
                    self.state = self.before_start();
                    self.memory.times.starting = Some(now.wall);
                }
            }
            Input::Fetched(result) => self.fetched(result, now),
            Input::Started { number, result } => self.started(number, result, now),
            Input::Ended { number, mut ended } => {
                if self.run() == Some(number) {
                    let why = match &self.state {
                        State::Stopping(stopping) => {
                            // Not everything that runs it knows who sent the signal.
                            if stopping.phase == Phase::Killed && ended.killed_by_a_signal() {
                                ended.cause = Cause::Killed;
                            }
                            Some((stopping.why, stopping.message.clone()))
                        }
                        _ => None,
                    };
                    self.ended(&ended, why, now);
                }
            }
            Input::Probed { number, kind, ok, message } => {
                if let State::Running(probing) = &mut self.state
                    && self.memory.number == number
                {
                    probing.answer(kind, ok, message, now.boot);
                }
            }
            Input::Unasked { number, kind, message } => {
                if let State::Running(probing) = &mut self.state
                    && self.memory.number == number
                {
                    probing.unasked(kind, message, now.boot);
                }
            }
            Input::PreStopped { number } => {
                if let State::Stopping(stopping) = &mut self.state
                    && stopping.phase == Phase::PreStop
                    && self.memory.number == number
                {
                    stopping.phase = Phase::Asked;
                    effects.push(Effect::Terminate);
                }
            }
            Input::Tick => {}
        }
        self.go_on(now, &mut effects);
        effects
    }

    /// When it has to be stepped again at the latest, if nothing happens.
    pub fn wake_at(&self, now: Now) -> Option<BootTime> {
        let own = match &self.state {
            State::New { .. } | State::Starting | State::Over => None,
            State::Fetching { asked, due, .. } => (!asked).then_some(*due),
            State::Running(probing) => probing.next(),
            State::Stopping(stopping) => Some(stopping.kill_at),
            // Without the lease there is nothing to wake for; it comes as an input.
            State::Waiting { until } => self.may_begin(now).then_some(*until),
        };
        // Past or not: what is due is done by the step that it is woken for. A start that is under way is waited for first.
        let is_running = matches!(self.state, State::Running(_));
        let fence = match self.grant {
            Grant::Until(until) if self.rules.exclusive && (is_running || until > now.boot) => Some(until),
            _ => None,
        };
        let ends_later = matches!(self.state, State::Stopping(_) | State::Starting);
        let deadline = self.rules.deadline.filter(|deadline| !ends_later || *deadline > now.wall);
        let deadline = deadline
            .map(|deadline| now.boot.after(Duration::from_millis(deadline.0.saturating_sub(now.wall.0))));
        if self.is_over() { None } else { own.into_iter().chain(fence).chain(deadline).min() }
    }

    /// What is due by what is wanted, the lease and the time.
    fn go_on(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if let Some(why) = self.unwanted(now) {
            self.end(why, "", now, effects);
        }
        let may_begin = self.may_begin(now);
        match &mut self.state {
            State::New { asked } => {
                if !std::mem::replace(asked, true) {
                    effects.push(Effect::Accept);
                }
            }
            State::Fetching { asked, due, .. } => {
                if !*asked && *due <= now.boot {
                    *asked = true;
                    effects.push(Effect::Fetch);
                }
            }
            State::Waiting { until } if *until <= now.boot && may_begin => {
                self.memory.number += 1;
                self.state = State::Starting;
                effects.push(Effect::Start(self.memory.number));
            }
            State::Running(probing) => {
                probing.settle(now.boot);
                if let Some((kind, message)) = probing.is_dead() {
                    let message = format!("the {kind} probe failed: {message}");
                    self.end(Why::Probe, &message, now, effects);
                } else {
                    effects.extend(probing.due(now.boot).into_iter().map(Effect::Probe));
                    if probing.is_ready() && self.memory.times.ready.is_none() {
                        self.memory.times.ready = Some(now.wall);
                    }
                }
            }
            State::Stopping(stopping) if stopping.kill_at <= now.boot => match stopping.phase {
                Phase::PreStop => {
                    stopping.phase = Phase::Asked;
                    stopping.kill_at = now.boot.after(LAST_CHANCE);
                    effects.push(Effect::Terminate);
                }
                Phase::Asked | Phase::Killed => {
                    stopping.phase = Phase::Killed;
                    stopping.kill_at = now.boot.after(KILL_AGAIN);
                    effects.push(Effect::Kill);
                }
            },
            State::Waiting { .. } | State::Starting | State::Stopping(_) | State::Over => {}
        }
    }

    /// Why it may not go on, if it may not.
    fn unwanted(&self, now: Now) -> Option<Why> {
        if self.want == Want::Stop {
            return Some(Why::Unwanted);
        }
        if self.rules.deadline.is_some_and(|deadline| deadline <= now.wall) {
            return Some(Why::Deadline);
        }
        let has_run = self.run().is_some();
        match self.grant {
            Grant::Lost if self.rules.exclusive => Some(Why::Fenced),
            Grant::Until(until) if self.rules.exclusive && has_run && until <= now.boot => Some(Why::Fenced),
            _ => None,
        }
    }

    fn may_begin(&self, now: Now) -> bool {
        !self.rules.exclusive || matches!(self.grant, Grant::Until(until) if until > now.boot)
    }

    fn before_start(&self) -> State {
        match self.rules.fetch {
            true => State::Fetching { asked: false, tries: 0, due: BootTime(0), problem: String::new() },
            false => State::Waiting { until: BootTime(0) },
        }
    }

    /// Ends whatever there is.
    fn end(&mut self, why: Why, message: &str, now: Now, effects: &mut Vec<Effect>) {
        match &mut self.state {
            State::Over => {}
            // A start that is under way is waited for: only then is it known what there is to end.
            State::Starting => {}
            State::New { .. } | State::Fetching { .. } | State::Waiting { .. } => {
                self.over(outcome(why), now)
            }
            State::Stopping(stopping) => {
                // A restart becomes an end.
                if stopping.why == Why::Probe && why != Why::Probe {
                    stopping.why = why;
                    self.memory.times.stopping.get_or_insert(now.wall);
                }
            }
            State::Running(_) => {
                let phase = if self.rules.pre_stop { Phase::PreStop } else { Phase::Asked };
                effects.push(if self.rules.pre_stop { Effect::PreStop } else { Effect::Terminate });
                // From when the lease ended, if that was it: the server counts from there.
                let begun = match (why, self.grant) {
                    (Why::Fenced, Grant::Until(until)) => until.min(now.boot),
                    _ => now.boot,
                };
                let kill_at = begun.after(self.rules.grace);
                let message = message.to_owned();
                self.state = State::Stopping(Stopping { why, message, phase, kill_at });
                if why != Why::Probe {
                    self.memory.times.stopping = Some(now.wall);
                }
            }
        }
    }

    fn fetched(&mut self, result: Result<(), String>, now: Now) {
        let State::Fetching { asked, tries, due, problem } = &mut self.state else { return };
        match result {
            Ok(()) => self.state = State::Waiting { until: BootTime(0) },
            Err(told) => {
                // As before a restart: it may be there later, and its source is not hammered meanwhile.
                *due = now.boot.after(self.rules.wait(*tries));
                *tries = tries.saturating_add(1);
                *asked = false;
                *problem = told;
            }
        }
    }

    fn started(&mut self, number: u32, result: Result<(), String>, now: Now) {
        if self.state != State::Starting || self.memory.number != number {
            return;
        }
        match result {
            Ok(()) => {
                self.state = State::Running(Box::new(self.probing(Duration::ZERO, now)));
            }
            Err(message) => {
                let (started, ended) = (now.wall, now.wall);
                let ended = Ended { cause: Cause::NotStarted, message, started, ended, ..Ended::default() };
                self.ended(&ended, None, now);
            }
        }
    }

    /// The probes of a run that has lasted so long. One that ended shortly before has to last as long as it was kept waiting before it
    /// counts as serving, unless a probe can tell: else it would be used, for a moment, each time it is about to fail again.
    fn probing(&self, lasted: Duration, now: Now) -> Probing {
        let settle = match (self.memory.in_a_row.checked_sub(1), self.rules.readiness) {
            (Some(in_a_row), None) => self.rules.wait(in_a_row).min(SETTLE_MAX).saturating_sub(lasted),
            _ => Duration::ZERO,
        };
        Probing::new(&self.rules, settle, now.boot)
    }

    /// Nothing of the newest run is alive: is it started again?
    fn ended(&mut self, ended: &Ended, why: Option<(Why, String)>, now: Now) {
        let lasted = Duration::from_millis(ended.ended.0.saturating_sub(ended.started.0));
        let told = why.as_ref().map(|(why, message)| (*why, message.as_str()));
        self.memory.last_exit = Some(memory::exit(ended, told));
        self.memory.ended = self.memory.number;
        let ended_for = why.map(|(why, _)| why).or_else(|| self.unwanted(now));
        let fenced = (ended.cause == Cause::Fenced).then_some(Why::Fenced);
        match ended_for.or(fenced) {
            None | Some(Why::Probe) => {}
            Some(why) => return self.over(outcome(why), now),
        }
        let well = ended.cause == Cause::Itself && ended.code == Some(0) && ended_for.is_none();
        match self.rules.restart {
            RestartPolicy::OnFailure if well => return self.over(Outcome::Succeeded, now),
            RestartPolicy::Never if well => return self.over(Outcome::Succeeded, now),
            RestartPolicy::Never => return self.over(Outcome::Failed, now),
            RestartPolicy::Always | RestartPolicy::OnFailure => {}
        }
        if lasted >= Duration::from_secs(self.rules.backoff.reset_seconds.into()) {
            self.memory.in_a_row = 0;
        }
        let until = now.boot.after(self.rules.wait(self.memory.in_a_row));
        self.memory.in_a_row = self.memory.in_a_row.saturating_add(1);
        self.memory.restarts = self.memory.restarts.saturating_add(1);
        self.memory.times.ready = None;
        self.state = State::Waiting { until };
    }

    fn over(&mut self, outcome: Outcome, now: Now) {
        self.memory.over = Some(outcome);
        self.memory.times.ended.get_or_insert(now.wall);
        self.state = State::Over;
    }
}

fn outcome(why: Why) -> Outcome {
    match why {
        Why::Unwanted => Outcome::Stopped,
        Why::Fenced | Why::Deadline | Why::Probe => Outcome::Failed,
    }
}
