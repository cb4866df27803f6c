//! Golden scripts of what the queue does with keys, one property each, in `tests/queue_scripts`.
//!
//! A script adds keys, takes them, ends their runs and lets time pass. After a change of behaviour that is meant, run with
//! `UPDATE_GOLDENFILES=1` and read the difference. Waits have no random part unless a script sets one.
//!
//! | command | does |
//! |---|---|
//! | `set NAME=NUMBER...` | begins a queue with these settings |
//! | `add KEY... [after=MS] [as=PRIORITY]` | adds keys; a key is `TENANT/NAME` |
//! | `offer KEY... [as=PRIORITY]` | offers keys |
//! | `next [COUNT]` | takes keys |
//! | `done KEY...`, `fail KEY... [random=NUMBER]`, `after MS KEY` | ends runs |
//! | `run [COUNT]` | takes keys one by one, each done before the next |
//! | `pass MS` | lets time pass |
//! | `clock MS` | shows the queue this time, and from then on the right one |
//! | `overflow` | asks whether a resync is due |
//! | `stop ready\|running` | shuts the queue down |
//! | `show` | how it stands |

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};
use setpoint_runtime::queue::core::{Core, Next, Ticket};
use setpoint_runtime::queue::{
    Ask, Drain, Moment, Offered, Options, Outcome, PRIORITIES, Priority, Settings, Tenant, TenantOf,
};

struct Script {
    core: Core<String>,
    now: Moment,
    running: BTreeMap<String, Ticket<String>>,
}

type Answer = Result<String, Box<dyn Error>>;

impl Default for Script {
    fn default() -> Self {
        Self::with(Settings { backoff_jitter_percent: 0, ..Settings::default() }.check().expect("defaults"))
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        if command.name == "set" {
            return self.set(command);
        }
        let mut args = command.consume_args();
        let delay = Duration::from_millis(args.take_key("after").map_or(Ok(0), str::parse)?);
        let random: u64 = args.take_key("random").map_or(Ok(0), str::parse)?;
        let ask = Ask::after(delay, priority(args.take_key("as").unwrap_or("normal"))?);
        let words: Vec<String> = std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect();
        args.reject_next()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (command.name.as_str(), &words[..]) {
            ("add", keys) => keys.iter().map(|key| self.add(key, ask)).collect(),
            ("offer", keys) => keys.iter().map(|key| Ok(self.offer(key, ask))).collect(),
            ("next", []) => Ok(self.next().1),
            ("next", [count]) => Ok((0..count.parse()?).map(|_| self.next().1).collect()),
            ("run", rest) => self.run_each(rest.first().map_or(Ok(1), |count| count.parse())?),
            ("done", keys) => self.finish(keys, Outcome::Done, 0),
            ("fail", keys) => self.finish(keys, Outcome::Failed, random),
            ("after", [ms, key]) => {
                self.finish(&[key], Outcome::After(Duration::from_millis(ms.parse()?)), 0)
            }
            ("fail-for", [ms, key]) => {
                let least = Duration::from_millis(ms.parse()?);
                self.finish(&[key], Outcome::FailedFor(least), random)
            }
            ("pass", [ms]) => {
                self.now = self.now.after(Duration::from_millis(ms.parse()?));
                Ok(format!("it is {:?}\n", self.now.elapsed()))
            }
            ("clock", [ms]) => {
                let wrong = Moment::at(Duration::from_millis(ms.parse()?));
                Ok(format!("oldest {:?}\n", self.core.snapshot(wrong).oldest_age))
            }
            ("overflow", []) => {
                Ok(format!("resync: {}\n", if self.core.take_overflow() { "yes" } else { "no" }))
            }
            ("stop", [how]) => self.stop(how),
            ("show", []) => Ok(self.show()),
            (name, _) => Err(format!("not understood: {name} {words:?}").into()),
        }
    }
}

impl Script {
    fn with(options: Options) -> Self {
        let tenants = TenantOf::new(|key: &String| Tenant::named(key.split('/').next().unwrap_or_default()));
        Self { core: Core::new(options, tenants), now: Moment::default(), running: BTreeMap::new() }
    }

    fn set(&mut self, command: &Command) -> Answer {
        let mut settings =
            serde_json::to_value(Settings { backoff_jitter_percent: 0, ..Settings::default() })?;
        for argument in &command.args {
            let goldenscript::Argument::KeyValue(name, value) = argument else {
                return Err("a setting is NAME=NUMBER".into());
            };
            settings[name] = value.parse::<u64>()?.into();
        }
        let settings: Settings = serde_json::from_value(settings)?;
        match settings.check() {
            Ok(options) => *self = Self::with(options),
            Err(error) => return Ok(format!("{error}\n")),
        }
        Ok(String::new())
    }

    fn add(&mut self, key: &str, ask: Ask) -> Answer {
        Ok(match self.core.add(self.now, key.to_owned(), ask) {
            Ok(added) => format!("{key}: {added:?}\n"),
            Err(refused) => format!("{key}: {}\n", refused.reason),
        })
    }

    fn offer(&mut self, key: &str, ask: Ask) -> String {
        match self.core.offer(self.now, key.to_owned(), ask) {
            Offered::Added(added) => format!("{key}: {added:?}\n"),
            other => format!("{key}: {other:?}\n"),
        }
    }

    /// The key that was taken, and what to print.
    fn next(&mut self) -> (Option<String>, String) {
        match self.core.next(self.now) {
            Next::Run(ticket) => {
                let key = (*ticket.key).clone();
                let mut line = key.clone();
                match ticket.failures {
                    0 => {}
                    failures => write!(line, ", failed {failures} times").expect("text"),
                }
                if !ticket.waited.is_zero() {
                    write!(line, ", waited {:?}", ticket.waited).expect("text");
                }
                self.running.insert(key.clone(), ticket);
                (Some(key), line + "\n")
            }
            Next::Wait(Some(at)) => (None, format!("nothing until {:?}\n", at.elapsed())),
            Next::Wait(None) => (None, "nothing\n".to_owned()),
            Next::Closed => (None, "closed\n".to_owned()),
        }
    }

    fn run_each(&mut self, count: usize) -> Answer {
        let mut order = Vec::new();
        for _ in 0..count {
            let (key, line) = self.next();
            order.push(line.trim_end().to_owned());
            match key {
                Some(key) => drop(self.finish(&[&key], Outcome::Done, 0)?),
                None => break,
            }
        }
        Ok(order.join(" | ") + "\n")
    }

    fn finish(&mut self, keys: &[&str], outcome: Outcome, random: u64) -> Answer {
        for key in keys {
            let ticket = self.running.remove(*key).ok_or_else(|| format!("{key} does not run"))?;
            self.core.finish(self.now, ticket, outcome, random);
        }
        Ok(String::new())
    }

    fn stop(&mut self, how: &str) -> Answer {
        self.core.shut_down(match how {
            "ready" => Drain::Ready,
            "running" => Drain::Running,
            _ => return Err("stop ready or running".into()),
        });
        Ok(String::new())
    }

    fn show(&mut self) -> String {
        let now = self.core.snapshot(self.now);
        let depth: Vec<String> = PRIORITIES
            .iter()
            .zip(now.ready)
            .map(|(priority, keys)| format!("{keys} {}", priority.name()))
            .collect();
        let (waiting, running, tenants) = (now.waiting, now.running, now.tenants);
        let drained = if self.core.is_drained() { ", drained" } else { "" };
        let owed = if now.overflowed { ", resync owed" } else { "" };
        format!(
            "ready {}, waiting {waiting}, running {running}, tenants {tenants}, oldest {:?}, longest running {:?}, \
             unfinished {:?}{owed}{drained}\n",
            depth.join(" "),
            now.oldest_age,
            now.longest_running,
            now.unfinished
        )
    }
}

fn priority(name: &str) -> Result<Priority, String> {
    let found = PRIORITIES.into_iter().find(|priority| priority.name() == name);
    found.ok_or_else(|| format!("no priority is called {name}"))
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let path = concat!("tests/queue_scripts/", stringify!($name));
                goldenscript::run(&mut Script::default(), path).expect("the script's output");
            }
        )*
        const LISTED: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    ageing
    backoff
    bounded
    clock
    delays
    dedup
    drain
    events_in_backoff
    hints
    limit
    metrics
    priorities
    requeue
    tenants
    tenant_limit
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/queue_scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
