//! Which faults are due, and what is wrong at the moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::carrier::Carrier;
use super::plan::{At, Fault, Injection, Plan};
use super::process::{Life, Process};
use crate::world::World;

/// The faults of one run: they stand between a controller, in all its lives, and the world. Cheap to clone; clones are the same.
///
/// **Guarantees**: each fault of the plan happens once, when its time comes, and to the controller only: other clients of the
/// world do not notice. What a process has sent is done even if it ends, unless a fault says otherwise.
///
/// **Does not promise** that everything happens that is planned: a run may be over before the k-th write.
#[derive(Clone)]
pub struct Faults {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    state: Mutex<State>,
    /// Counts how often watches broke, and how often all streams did.
    watches_cut: watch::Sender<u64>,
    streams_cut: watch::Sender<u64>,
}

struct State {
    left: Vec<Injection>,
    /// By kind: how far watches of it are behind, beside what is wrong with all.
    late: BTreeMap<String, Duration>,
    counts: Counts,
    wrong: Wrong,
    /// The process that was started last.
    life: Life,
}

/// What was counted at the boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Everything asked for, streams included.
    pub requests: u64,
    pub writes: u64,
    /// Answers of watches that told of a change.
    pub events: u64,
}

/// What is wrong at the moment.
#[derive(Clone, Copy)]
pub(super) struct Wrong {
    pub frozen_until: Instant,
    pub held_until: Instant,
    pub gone_until: Instant,
    pub refusing_until: Instant,
    /// Watches cannot be opened.
    pub missing_until: Instant,
    pub lag: Duration,
    pub slow: Duration,
}

impl Faults {
    pub fn new(world: &World, plan: &Plan) -> Self {
        let now = Instant::now();
        let wrong = Wrong {
            frozen_until: now,
            held_until: now,
            gone_until: now,
            refusing_until: now,
            missing_until: now,
            lag: Duration::ZERO,
            slow: Duration::ZERO,
        };
        let state = Mutex::new(State {
            left: plan.0.clone(),
            late: BTreeMap::new(),
            counts: Counts::default(),
            wrong,
            life: Life::default(),
        });
        let (watches_cut, streams_cut) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { inner: Arc::new(Inner { world: world.clone(), state, watches_cut, streams_cut }) }
    }

    /// Starts a process whose requests are subject to the faults, and whose writes are stamped `user:NAME`.
    pub fn process(&self, name: &str) -> Process {
        let life = Life::default();
        self.inner.state.lock().life = life.clone();
        let wire = Carrier::new(self.clone(), life.clone(), self.world().wire_as(name)).into_wire();
        Process::new(self.world().client_over(wire.clone()), wire, life)
    }

    /// Lets something go wrong now that is not about one write. A crash ends the process that was started last.
    pub fn inject(&self, fault: Fault) {
        self.happen(fault);
    }

    /// From now on watches of one kind that are opened are behind by so long, and those of other kinds are not.
    pub fn delay(&self, kind: &str, by: Duration) {
        self.inner.state.lock().late.insert(kind.to_owned(), by);
    }

    /// How far a watch of a kind is behind for itself.
    pub(super) fn late(&self, kind: &str) -> Duration {
        self.inner.state.lock().late.get(kind).copied().unwrap_or_default()
    }

    /// The scenario comes to its k-th step. True if something happened for it.
    pub fn reach_step(&self, number: u64) -> bool {
        let due = self.due(At::Step(number));
        due.iter().for_each(|fault| self.happen(*fault));
        !due.is_empty()
    }

    pub fn counts(&self) -> Counts {
        self.inner.state.lock().counts
    }

    pub fn world(&self) -> &World {
        &self.inner.world
    }

    pub(super) fn count_request(&self) {
        self.inner.state.lock().counts.requests += 1;
    }

    /// A write is sent: what becomes of it, if a fault is about it.
    pub(super) fn count_write(&self) -> Option<Fault> {
        let number = {
            let mut state = self.inner.state.lock();
            state.counts.writes += 1;
            state.counts.writes
        };
        self.begin(At::Write(number))
    }

    /// A watch tells of a change. True if the process ends with it.
    pub(super) fn count_event(&self) -> bool {
        let number = {
            let mut state = self.inner.state.lock();
            state.counts.events += 1;
            state.counts.events
        };
        self.begin(At::Event(number)).is_some()
    }

    /// Lets everything happen that is due, but for what is about the write or the process that it is due with.
    fn begin(&self, at: At) -> Option<Fault> {
        let mut own = None;
        for fault in self.due(at) {
            if fault.is_of_one_write() || fault == Fault::CrashAfterAnswer {
                own = Some(fault);
            } else {
                self.happen(fault);
            }
        }
        own
    }

    fn due(&self, at: At) -> Vec<Fault> {
        let mut state = self.inner.state.lock();
        state.left.extract_if(.., |it| it.at == at).map(|it| it.fault).collect()
    }

    fn happen(&self, fault: Fault) {
        let now = Instant::now();
        let mut state = self.inner.state.lock();
        let wrong = &mut state.wrong;
        match fault {
            Fault::Freeze(time) => wrong.frozen_until = now + time,
            Fault::Hold(time) => wrong.held_until = now + time,
            Fault::Lag(time) => wrong.lag = time,
            Fault::Refuse(time) => wrong.refusing_until = now + time,
            Fault::Slow(time) => wrong.slow = time,
            Fault::Jump(time) => self.inner.world.jump(time),
            Fault::JumpBack(time) => self.inner.world.jump_back(time),
            Fault::Cut => self.inner.watches_cut.send_modify(|cuts| *cuts += 1),
            Fault::Gone(time) => {
                wrong.gone_until = now + time;
                self.inner.streams_cut.send_modify(|cuts| *cuts += 1);
            }
            Fault::Miss(time) => {
                wrong.missing_until = now + time;
                self.inner.watches_cut.send_modify(|cuts| *cuts += 1);
                let world = self.inner.world.clone();
                tokio::spawn(async move {
                    // Before the first watch can be opened again.
                    sleep_until(now + time - Duration::from_millis(1)).await;
                    world.compact();
                });
            }
            Fault::CrashAfterAnswer => state.life.end(),
            // About a write, of which there is none here.
            Fault::CrashBeforeAnswer
            | Fault::LoseRequest
            | Fault::LoseAnswer
            | Fault::Duplicate(_)
            | Fault::Late(_) => {}
        }
    }

    pub(super) fn wrong(&self) -> Wrong {
        self.inner.state.lock().wrong
    }

    /// Changes whenever watches, or all streams, break.
    pub(super) fn cuts(&self) -> [watch::Receiver<u64>; 2] {
        [self.inner.watches_cut.subscribe(), self.inner.streams_cut.subscribe()]
    }

    /// Waits until what the process sends arrives.
    pub(super) async fn thawed(&self) {
        loop {
            let until = self.wrong().frozen_until;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}
