//! Whatever happens in whatever order, crashes of the agent included: a replica never has two processes, no run is begun twice, an
//! exclusive one is not begun without the lease, and once it is not wanted it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use setpoint_agent::lifecycle::{Effect, Grant, Input, Life, Now, ProbeKind, Rhythm, Rules, Want};
use setpoint_agent::machine::BootTime;
use setpoint_agent::runtime::{Cause, Ended, Found};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{RestartBackoff, RestartPolicy};

/// Something that happens.
#[derive(Clone, Debug)]
enum Deed {
    /// One of the things under way is done, well or not.
    Do {
        which: usize,
        well: bool,
    },
    /// The process ends by itself.
    Exit(i32),
    Pass(u16),
    Renew(u8),
    Lose,
    /// One of the probes under way cannot be asked.
    Unask,
    Stop,
    /// The agent dies; what it had begun to start was started, or not.
    Crash {
        started: bool,
    },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (0..4usize, prop::bool::weighted(0.7)).prop_map(|(which, well)| Deed::Do { which, well }),
        3 => (0..2i32).prop_map(Deed::Exit),
        4 => (0..40_000u16).prop_map(Deed::Pass),
        2 => (1..60u8).prop_map(Deed::Renew),
        1 => Just(Deed::Lose),
        1 => Just(Deed::Unask),
        1 => Just(Deed::Stop),
        2 => any::<bool>().prop_map(|started| Deed::Crash { started }),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    let rhythm = || {
        let times = (1..3u64, 1..4u32);
        prop::option::of(times.prop_map(|(period, failures)| Rhythm {
            delay: Duration::from_secs(1),
            period: Duration::from_secs(period),
            successes: 1,
            failures,
        }))
    };
    let restart =
        prop_oneof![Just(RestartPolicy::Always), Just(RestartPolicy::OnFailure), Just(RestartPolicy::Never)];
    (rhythm(), rhythm(), rhythm(), restart, any::<[bool; 3]>(), 0..20u64, prop::option::of(0..300u64))
        .prop_map(|(startup, liveness, readiness, restart, [fetch, pre_stop, exclusive], grace, deadline)| {
            Rules {
                fetch,
                startup,
                liveness,
                readiness,
                restart,
                backoff: RestartBackoff { initial_seconds: 1, max_seconds: 20, reset_seconds: 60 },
                pre_stop,
                grace: Duration::from_secs(grace),
                exclusive,
                deadline: deadline.map(|seconds| Timestamp(seconds * 1000)),
            }
        })
}

/// The host, as far as a replica's life sees it.
struct World {
    life: Life,
    now: Now,
    grant: Grant,
    /// Under way: effects, with the run they are of.
    under_way: Vec<(Effect, u32)>,
    alive: Option<u32>,
    begun: BTreeSet<u32>,
    ended: BTreeMap<u32, Ended>,
    /// Whose end the agent has not heard of.
    unheard: Option<u32>,
}

impl World {
    fn new(rules: Rules) -> Self {
        let grant = Grant::Until(BootTime(30_000));
        let mut world = Self {
            life: Life::new(rules, grant),
            now: Now::default(),
            grant,
            under_way: Vec::new(),
            alive: None,
            begun: BTreeSet::new(),
            ended: BTreeMap::new(),
            unheard: None,
        };
        world.step(Input::Tick);
        world
    }

    fn step(&mut self, input: Input) {
        let before = self.life.memory().number;
        let effects = self.life.step(input, self.now);
        for effect in effects {
            if let Effect::Start(number) = effect {
                assert_eq!(self.alive, None, "a run is begun beside another");
                assert!(number > before && !self.begun.contains(&number), "run {number} is begun twice");
                if self.life.rules().exclusive {
                    assert!(
                        matches!(self.grant, Grant::Until(until) if until > self.now.boot),
                        "an exclusive run is begun without the lease"
                    );
                }
            }
            self.under_way.push((effect, self.life.memory().number));
        }
    }

    fn begin(&mut self, number: u32) {
        assert_eq!(self.alive, None, "there are two processes");
        assert!(self.begun.insert(number), "run {number} ran twice");
        self.alive = Some(number);
    }

    fn end(&mut self, code: Option<i32>) {
        if let Some(number) = self.alive.take() {
            let signal = code.is_none().then_some(9);
            let (started, ended) = (self.now.wall, self.now.wall);
            let ended = Ended { code, signal, cause: Cause::Itself, started, ended, ..Ended::default() };
            self.ended.insert(number, ended);
            self.unheard = Some(number);
        }
    }

    fn hear(&mut self) {
        if let Some(number) = self.unheard.take() {
            let ended = self.ended[&number].clone();
            self.step(Input::Ended { number, ended });
        }
    }

    fn perform(&mut self, which: usize, well: bool) {
        if self.under_way.is_empty() {
            return self.hear();
        }
        let (effect, number) = self.under_way.remove(which % self.under_way.len());
        let wrong = || if well { Ok(()) } else { Err("no".to_owned()) };
        match effect {
            Effect::Accept => {
                if well {
                    self.step(Input::Accepted);
                } else {
                    self.under_way.push((effect, number));
                }
            }
            Effect::Fetch => self.step(Input::Fetched(wrong())),
            Effect::Start(number) => {
                if well {
                    self.begin(number);
                }
                self.step(Input::Started { number, result: wrong() });
            }
            Effect::Probe(kind) => self.probed(number, kind, well),
            Effect::PreStop => self.step(Input::PreStopped { number }),
            Effect::Terminate if well => self.end(Some(0)),
            Effect::Terminate => {}
            Effect::Kill => self.end(None),
        }
    }

    fn probed(&mut self, number: u32, kind: ProbeKind, ok: bool) {
        self.step(Input::Probed { number, kind, ok, message: String::new() });
    }

    fn pass(&mut self, ms: u64) {
        self.now.boot.0 += ms;
        self.now.wall.0 += ms;
        if self.life.wake_at(self.now).is_some_and(|at| at <= self.now.boot) {
            self.step(Input::Tick);
        }
    }

    fn crash(&mut self, started: bool) {
        let starting = self.under_way.iter().find_map(|(effect, _)| match effect {
            Effect::Start(number) => Some(*number),
            _ => None,
        });
        if let Some(number) = starting.filter(|_| started) {
            self.begin(number);
        }
        self.under_way.clear();
        self.unheard = None;
        let memory = self.life.memory().clone();
        let found = match memory.number {
            number if self.alive == Some(number) => Found::Running { started: self.now.wall },
            number => self.ended.get(&number).map_or(Found::Never, |ended| Found::Ended(ended.clone())),
        };
        self.life = Life::resume(self.life.rules().clone(), memory, found, self.grant, self.now);
        self.step(Input::Tick);
    }

    fn happen(&mut self, deed: Deed) {
        match deed {
            Deed::Do { which, well } => self.perform(which, well),
            Deed::Exit(code) => self.end(Some(code)),
            Deed::Pass(ms) => self.pass(ms.into()),
            Deed::Renew(seconds) => {
                if self.grant != Grant::Lost {
                    self.grant = Grant::Until(self.now.boot.after(Duration::from_secs(seconds.into())));
                    self.step(Input::Grant(self.grant));
                }
            }
            Deed::Lose => {
                self.grant = Grant::Lost;
                self.step(Input::Grant(self.grant));
            }
            Deed::Unask => {
                let asked = self.under_way.iter().position(|(effect, _)| matches!(effect, Effect::Probe(_)));
                if let Some((Effect::Probe(kind), number)) = asked.map(|at| self.under_way.remove(at)) {
                    self.step(Input::Unasked { number, kind, message: String::new() });
                }
            }
            Deed::Stop => self.step(Input::Want(Want::Stop)),
            Deed::Crash { started } => self.crash(started),
        }
        if self.life.is_over() {
            assert_eq!(self.alive, None, "it is over, and something runs");
            assert!(
                !self.under_way.iter().any(|(effect, _)| matches!(effect, Effect::Start(_))),
                "it is over, and something is being started"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn there_is_never_a_second_process_and_what_is_unwanted_ends(
        rules in rules(),
        deeds in prop::collection::vec(deed(), 0..60),
    ) {
        let mut world = World::new(rules);
        for deed in deeds {
            world.happen(deed);
        }
        world.happen(Deed::Stop);
        // From here on nothing answers to being asked, only to being killed.
        for _ in 0..200 {
            if world.life.is_over() {
                break;
            }
            while !world.under_way.is_empty() {
                world.perform(0, false);
                if world.life.is_over() {
                    break;
                }
            }
            world.hear();
            let wake = world.life.wake_at(world.now).unwrap_or(world.now.boot);
            let wait = world.now.boot.until(wake);
            world.pass(u64::try_from(wait.as_millis()).expect("short").max(1));
        }
        prop_assert!(world.life.is_over(), "{:?}", world.life);
        prop_assert_eq!(world.alive, None);
    }
}
