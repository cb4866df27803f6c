//! What a command is given: the stage, and a client as the command line asks for it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use setpoint_client::config::{self, ConfigFile};
use setpoint_client::{Client, Endpoint, Network, Settings, Token};
use setpoint_types::Timestamp;

use crate::command_line::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::colour;
use crate::stage::Stage;

/// How a command ends.
pub type Done = Result<Exit, Failure>;

/// Whose decisions the writes of this program are, unless it is told otherwise.
pub const MANAGER: &str = "cli";

/// A person waits: rather say that nobody answers than try for half a minute. An election is outlasted.
const ATTEMPTS_MAX: u32 = 6;
/// Where nobody listens at all, that is said after three tries, within a fifth of a second. Once a server has answered the command, one
/// that is gone is waited for: `wait` and `rollout status` outlast a restart.
const REFUSALS_MAX: u32 = 3;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// One command, on its stage.
pub struct Session {
    pub global: Global,
    pub stage: Stage,
    client: Option<Client>,
}

impl Session {
    pub fn new(global: Global, stage: Stage) -> Self {
        Self { global, stage, client: None }
    }

    /// A line of the result.
    pub fn say(&mut self, line: impl AsRef<str>) -> Result<(), Failure> {
        self.write(&format!("{}\n", line.as_ref()))
    }

    /// A part of the result.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.stage.out.write_all(text.as_bytes()).map_err(Failure::output)
    }

    /// What was written can be seen from now on.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.stage.out.flush().map_err(Failure::output)
    }

    /// A line beside the result.
    pub fn note(&mut self, line: impl AsRef<str>) {
        // Who cannot be told is not told; the result does not suffer.
        let _ = writeln!(self.stage.err, "{}", line.as_ref());
        let _ = self.stage.err.flush();
    }

    pub fn now(&self) -> Timestamp {
        (self.stage.clock)()
    }

    /// The exit of a command, after everything is written and said.
    pub fn finish(mut self, done: Done) -> Exit {
        let flushed = self.flush();
        match done.and_then(|exit| flushed.map(|()| exit)) {
            Ok(exit) => exit,
            Err(failure) if failure.is_silent() => failure.exit(),
            Err(failure) => {
                let endpoints = self.settings().map(|settings| settings.endpoints).unwrap_or_default();
                let failure = failure.asked(&endpoints);
                let error = if self.stage.terminal.err && self.stage.terminal.colour {
                    colour::red("error:")
                } else {
                    "error:".to_owned()
                };
                self.note(format!("{error} {failure}"));
                failure.exit()
            }
        }
    }

    /// Where the config file is.
    pub fn config_path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.global.config {
            return Ok(path.clone());
        }
        if let Some(path) = self.stage.variable(config::CONFIG_VARIABLE) {
            return Ok(path.into());
        }
        let home = self.stage.variable("HOME").ok_or(config::ConfigError::NoHome)?;
        Ok(Path::new(home).join(".setpoint").join("config"))
    }

    /// The config file; an empty one if there is none yet.
    pub fn config_file(&self) -> Result<ConfigFile, Failure> {
        match ConfigFile::read(&self.config_path()?) {
            Err(config::ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(ConfigFile::default())
            }
            read => Ok(read?),
        }
    }

    /// The settings of the context, changed by what the command line says.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let is_named = self.global.config.is_some()
            || self.global.context.is_some()
            || self.stage.variable(config::CONFIG_VARIABLE).is_some();
        let mut settings = match config::load_from(&self.config_path()?, self.global.context.as_deref()) {
            Err(config::ConfigError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotFound && !is_named =>
            {
                Settings::new(vec![Endpoint::local()])
            }
            // Whoever names the servers needs no context.
            Err(config::ConfigError::NoContext { .. }) if !self.global.server.is_empty() => {
                Settings::new(Vec::new())
            }
            loaded => loaded?,
        };
        if !self.global.server.is_empty() {
            let parsed = self.global.server.iter().map(|text| text.parse::<Endpoint>());
            settings.endpoints =
                parsed.collect::<Result<_, _>>().map_err(|error| Failure::usage(error.to_string()))?;
        }
        if let Some(token) = &self.global.token {
            settings.token = Some(Token::new(token));
        }
        if let Some(namespace) = &self.global.namespace {
            settings.namespace.clone_from(namespace);
        }
        settings.attempts_max = ATTEMPTS_MAX;
        settings.refusals_max = REFUSALS_MAX;
        settings.timeouts.call = self.global.request_timeout.unwrap_or(REQUEST_TIMEOUT);
        settings.timeouts.attempt = settings.timeouts.attempt.min(settings.timeouts.call);
        Ok(settings)
    }

    /// A client with these settings, over the stage's network.
    pub fn connect(&self, settings: Settings) -> Result<Client, Failure> {
        let entropy = self.stage.entropy.clone();
        let client = match &self.stage.connector {
            Some(connector) => Client::with_seams(settings, &**connector, entropy),
            None => {
                let network = Network::new(&settings);
                Client::with_seams(settings, &network, entropy)
            }
        };
        Ok(client?.with_manager(MANAGER))
    }

    /// The client of the context. Made once.
    pub fn client(&mut self) -> Result<Client, Failure> {
        if self.client.is_none() {
            self.client = Some(self.connect(self.settings()?)?);
        }
        Ok(self.client.clone().expect("it was made just now"))
    }
}
