//! Golden scripts of how shards spread, one property each, in `tests/election/scripts`.
//!
//! The network takes 5 ms each way. After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the
//! difference.
//!
//! | command | does |
//! |---|---|
//! | `join NAME [shards=N]` | a process starts; 6 shards unless it says otherwise |
//! | `leave NAME`, `kill NAME` | it shuts down; it is gone |
//! | `pause NAME MS`, `cut NAME MS` | it stands still; it is cut off from the server |
//! | `runs MS` | how long runs take to end at most, from now on |
//! | `pass MS` | lets time pass, and tells what happened to shards |
//! | `show` | who has what |

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};

use crate::world::{CALM, World};

struct Script {
    world: World,
    names: BTreeMap<String, usize>,
}

impl Default for Script {
    fn default() -> Self {
        Self { world: World::new(7, CALM), names: BTreeMap::new() }
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let shards: u32 = args.take_key("shards").map_or(Ok(6), str::parse)?;
        let words: Vec<String> = std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect();
        args.reject_next()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = self.world.log.len();
        match (command.name.as_str(), &words[..]) {
            ("join", [name]) => {
                let number = self.world.start(name, shards);
                self.names.insert((*name).to_owned(), number);
            }
            ("leave", [name]) => self.world.stop(self.number(name)?),
            ("kill", [name]) => self.world.kill(self.number(name)?),
            ("pause", [name, ms]) => self.world.pause(self.number(name)?, millis(ms)?),
            ("cut", [name, ms]) => self.world.cut(self.number(name)?, millis(ms)?),
            ("runs", [ms]) => self.world.run_ms_max = ms.parse()?,
            ("pass", [ms]) => self.world.pass(millis(ms)?),
            ("show", []) => return Ok(self.show()),
            (name, _) => return Err(format!("not understood: {name} {words:?}").into()),
        }
        Ok(self.world.log[log..].iter().map(|line| format!("{line}\n")).collect())
    }
}

impl Script {
    fn number(&self, name: &str) -> Result<usize, String> {
        self.names.get(name).copied().ok_or_else(|| format!("nobody is called {name}"))
    }

    fn show(&self) -> String {
        let valid = self.world.valid();
        let line = |(number, process): (usize, &crate::world::Process)| {
            let own = valid.iter().filter(|(holder, ..)| *holder == number);
            let own: Vec<String> = own.map(|(_, shard, fence)| format!("{shard}@{}", fence.epoch)).collect();
            format!("{}: {}\n", process.name, if own.is_empty() { "-".to_owned() } else { own.join(" ") })
        };
        let alive = self.world.processes.iter().enumerate().filter(|(_, process)| process.alive);
        alive.map(line).chain([format!("moved on purpose: {}\n", self.world.moves)]).collect()
    }
}

fn millis(text: &str) -> Result<Duration, std::num::ParseIntError> {
    Ok(Duration::from_millis(text.parse()?))
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let path = concat!("tests/election/scripts/", stringify!($name));
                goldenscript::run(&mut Script::default(), path).expect("the script's output");
            }
        )*
        const LISTED: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    layouts
    leader
    outage
    pause
    spread
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/election/scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
