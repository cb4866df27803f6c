//! Golden scripts of a replica's life, one property each, in `tests/life_scripts`.
//!
//! A script tells the machine what happens and prints what it wants done. After a change of behaviour that is meant, run with
//! `UPDATE_GOLDENFILES=1` and read the difference.
//!
//! | command | does |
//! |---|---|
//! | `new [restart=Always] [grace=S] [fetch] [prestop] [exclusive] [deadline=S] [startup\|liveness\|readiness=FAILURES]` | begins a life; probes are asked every second |
//! | `accepted`, `stop` | the server's word |
//! | `lease SECONDS`, `lost` | how much longer the lease is good; it is another one |
//! | `fetched [PROBLEM]`, `started [PROBLEM]` | what came of it |
//! | `exit CODE`, `signal NUMBER`, `end CAUSE` | the run has ended |
//! | `ok KIND`, `bad KIND`, `unasked KIND` | a probe's answer; there was nobody to ask |
//! | `prestopped` | the command is over |
//! | `pass SECONDS` | lets time pass, in steps no longer than asked for |
//! | `crash RUNNING\|ENDED\|NEVER` | the agent ends and another takes up what it finds |
//! | `show` | what users are shown |

use std::error::Error;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};
use setpoint_agent::lifecycle::{Effect, Grant, Input, Life, Now, ProbeKind, Rhythm, Rules, Want};
use setpoint_agent::machine::BootTime;
use setpoint_agent::runtime::{Cause, Ended, Found};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{RestartBackoff, RestartPolicy};

const BEGIN_MS: u64 = 1_000_000;

struct Script {
    life: Life,
    now: Now,
    started: Timestamp,
}

type Answer = Result<String, Box<dyn Error>>;

fn rules() -> Rules {
    Rules {
        fetch: false,
        startup: None,
        liveness: None,
        readiness: None,
        restart: RestartPolicy::Always,
        backoff: RestartBackoff { initial_seconds: 10, max_seconds: 60, reset_seconds: 600 },
        pre_stop: false,
        grace: Duration::from_secs(30),
        exclusive: false,
        deadline: None,
    }
}

impl Default for Script {
    fn default() -> Self {
        let now = Now { boot: BootTime(BEGIN_MS), wall: Timestamp(BEGIN_MS) };
        Self { life: Life::new(rules(), Grant::Until(BootTime(0))), now, started: now.wall }
    }
}

fn kind(text: &str) -> Result<ProbeKind, Box<dyn Error>> {
    [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness]
        .into_iter()
        .find(|kind| kind.to_string() == text)
        .ok_or_else(|| format!("no probe {text}").into())
}

impl Script {
    fn rules_of(command: &Command, now: Now) -> Result<Rules, Box<dyn Error>> {
        let mut args = command.consume_args();
        let mut rules = rules();
        let mut rhythm = |name: &str| -> Result<Option<Rhythm>, Box<dyn Error>> {
            let failures = args.take_key(name).map(str::parse).transpose()?;
            let second = Duration::from_secs(1);
            Ok(failures.map(|failures| Rhythm { delay: second, period: second, successes: 1, failures }))
        };
        (rules.startup, rules.liveness, rules.readiness) =
            (rhythm("startup")?, rhythm("liveness")?, rhythm("readiness")?);
        rules.restart = match args.take_key("restart") {
            None | Some("Always") => RestartPolicy::Always,
            Some("OnFailure") => RestartPolicy::OnFailure,
            Some("Never") => RestartPolicy::Never,
            Some(other) => return Err(format!("no policy {other}").into()),
        };
        rules.grace = Duration::from_secs(args.take_key("grace").map_or(Ok(30), str::parse)?);
        let deadline: Option<u64> = args.take_key("deadline").map(str::parse).transpose()?;
        rules.deadline = deadline.map(|seconds| Timestamp(now.wall.0 + seconds * 1000));
        while let Some(word) = args.next_pos() {
            match word {
                "fetch" => rules.fetch = true,
                "prestop" => rules.pre_stop = true,
                "exclusive" => rules.exclusive = true,
                other => return Err(format!("no rule {other}").into()),
            }
        }
        args.reject_next()?;
        Ok(rules)
    }

    fn step(&mut self, input: Input) -> String {
        let effects = self.life.step(input, self.now);
        let shown = effects.iter().map(|effect| match effect {
            Effect::Probe(kind) => format!("ask the {kind} probe"),
            Effect::Start(number) => format!("start run {number}"),
            effect => format!("{effect:?}").to_lowercase(),
        });
        shown.map(|effect| format!("{}s: {effect}\n", self.elapsed())).collect()
    }

    fn elapsed(&self) -> u64 {
        (self.now.boot.0 - BEGIN_MS) / 1000
    }

    fn pass(&mut self, seconds: u64) -> String {
        let end = self.now.boot.after(Duration::from_secs(seconds));
        let mut shown = String::new();
        loop {
            let wake = self.life.wake_at(self.now).filter(|at| *at < end).unwrap_or(end);
            let step = self.now.boot.until(wake);
            self.now = Now {
                boot: self.now.boot.after(step),
                wall: Timestamp(self.now.wall.0 + u64::try_from(step.as_millis()).expect("short")),
            };
            // As the supervisor does: nobody steps a life that did not ask for it.
            if self.life.wake_at(self.now).is_some_and(|at| at <= self.now.boot) {
                shown += &self.step(Input::Tick);
            }
            if self.now.boot >= end {
                return shown;
            }
        }
    }

    fn ended(&mut self, code: Option<i32>, signal: Option<i32>, cause: Cause) -> Ended {
        let message = if cause == Cause::NotStarted { "no such program" } else { "" }.to_owned();
        Ended { code, signal, cause, message, started: self.started, ended: self.now.wall }
    }

    fn end(&mut self, ended: Ended) -> String {
        let number = self.life.memory().number;
        self.step(Input::Ended { number, ended })
    }

    fn show(&self) -> String {
        let report = self.life.report();
        let blocked = report
            .blocked
            .map_or(String::new(), |(reason, message)| format!(" waits: {reason:?} {message:?}"));
        let exit = report.last_exit.map_or(String::new(), |exit| {
            format!(" last: {} {:?} {:?}", exit.reason, exit.code, exit.signal)
        });
        let (started, live, ready) = (report.started, report.live, report.ready);
        format!(
            "{:?} started={started} live={live} ready={ready} restarts={}{blocked}{exit}\n",
            report.stage, report.restarts
        )
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        if command.name == "new" {
            let rules = Self::rules_of(command, self.now)?;
            let grant = Grant::Until(self.now.boot.after(Duration::from_secs(20)));
            self.life = Life::new(rules, grant);
            return Ok(self.step(Input::Tick));
        }
        let mut args = command.consume_args();
        let words: Vec<&str> = std::iter::from_fn(|| args.next_pos()).collect();
        args.reject_next()?;
        let number = self.life.memory().number;
        let told = |words: &[&str]| if words.is_empty() { Ok(()) } else { Err(words.join(" ")) };
        Ok(match (command.name.as_str(), &words[..]) {
            ("accepted", []) => self.step(Input::Accepted),
            ("stop", []) => self.step(Input::Want(Want::Stop)),
            ("lease", [seconds]) => {
                let until = self.now.boot.after(Duration::from_secs(seconds.parse()?));
                self.step(Input::Grant(Grant::Until(until)))
            }
            ("lost", []) => self.step(Input::Grant(Grant::Lost)),
            ("fetched", words) => self.step(Input::Fetched(told(words))),
            ("started", words) => {
                self.started = self.now.wall;
                self.step(Input::Started { number, result: told(words) })
            }
            ("exit", [code]) => {
                let ended = self.ended(Some(code.parse()?), None, Cause::Itself);
                self.end(ended)
            }
            ("signal", [signal]) => {
                let ended = self.ended(None, Some(signal.parse()?), Cause::Itself);
                self.end(ended)
            }
            ("end", [cause]) => {
                let causes =
                    [Cause::OutOfMemory, Cause::NotStarted, Cause::Fenced, Cause::Killed, Cause::Lost];
                let cause =
                    causes.into_iter().find(|it| format!("{it:?}") == *cause).ok_or("no such cause")?;
                let ended = self.ended(None, None, cause);
                self.end(ended)
            }
            ("ok", [probe]) => {
                let input = Input::Probed { number, kind: kind(probe)?, ok: true, message: String::new() };
                self.step(input)
            }
            ("bad", [probe]) => {
                let input =
                    Input::Probed { number, kind: kind(probe)?, ok: false, message: "no answer".into() };
                self.step(input)
            }
            ("unasked", [probe]) => {
                self.step(Input::Unasked { number, kind: kind(probe)?, message: "nobody is there".into() })
            }
            ("prestopped", []) => self.step(Input::PreStopped { number }),
            ("pass", [seconds]) => self.pass(seconds.parse()?),
            ("crash", [found]) => {
                let found = match *found {
                    "RUNNING" => Found::Running { started: self.started },
                    "ENDED" => Found::Ended(self.ended(Some(1), None, Cause::Itself)),
                    "NEVER" => Found::Never,
                    other => return Err(format!("no {other}").into()),
                };
                let (rules, memory) = (self.life.rules().clone(), self.life.memory().clone());
                let grant = Grant::Until(self.now.boot.after(Duration::from_secs(20)));
                self.life = Life::resume(rules, memory, found, grant, self.now);
                self.step(Input::Tick)
            }
            ("show", []) => self.show(),
            (name, words) => return Err(format!("{name} {words:?}?").into()),
        })
    }
}

macro_rules! scripts {
    ($($name:ident)*) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                let path = concat!("tests/life_scripts/", stringify!($name));
                goldenscript::run(&mut Script::default(), path).expect("the script's output");
            }
        )*
    };
}

scripts! {
    adoption
    backoff
    batch
    deadline
    exclusive
    fetching
    probes
    settling
    stopping
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/life_scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
