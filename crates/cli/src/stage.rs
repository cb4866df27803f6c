//! What a command plays on: streams, environment, time, network. A test brings its own.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Read, Write};
use std::sync::Arc;

use setpoint_client::{Connector, Entropy};
use setpoint_types::Timestamp;

/// Everything a command has to do with but the arguments.
pub struct Stage {
    pub input: Box<dyn Read + Send>,
    pub out: Box<dyn Write + Send>,
    pub err: Box<dyn Write + Send>,
    pub terminal: Terminal,
    /// The environment.
    pub variables: BTreeMap<String, String>,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// In place of the network.
    pub connector: Option<Arc<dyn Connector>>,
    pub entropy: Entropy,
}

/// Who looks at what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Standard output is one: progress may be shown there.
    pub out: bool,
    /// Standard error is one.
    pub err: bool,
    /// Standard input is one: nothing is piped into the command.
    pub input: bool,
    pub colour: bool,
}

impl Stage {
    /// That of this process.
    pub fn of_process() -> Self {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            input: Box::new(io::stdin()),
            out: Box::new(io::BufWriter::new(io::stdout())),
            err: Box::new(io::stderr()),
            terminal: Terminal::of_process(&variables),
            variables,
            clock: Arc::new(now),
            connector: None,
            entropy: Entropy::system(),
        }
    }

    /// A variable of the environment that says something.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl Terminal {
    fn of_process(variables: &BTreeMap<String, String>) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let plain = variables.get("NO_COLOR").is_some_and(|value| !value.is_empty())
            || variables.get("TERM").is_some_and(|value| value == "dumb");
        Self { out, err, input: io::stdin().is_terminal(), colour: out && !plain }
    }
}

fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the clock that commands are handed")]
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
