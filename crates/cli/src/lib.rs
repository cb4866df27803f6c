//! The command line of Setpoint, as a function of its arguments and of the stage it plays on: [`run`].
//!
//! | module | what |
//! |---|---|
//! | `commands/` | the commands, a file each |
//! | `command_line` | what all commands understand: context, namespace, endpoints |
//! | `session` | what a command is given: the stage, and a client as the command line asks for it |
//! | `stage` | the seam to the process: streams, environment, time, network |
//! | `targets`, `kinds`, `moment` | which objects are meant: kinds by any of their names, names, selectors, the past |
//! | `manifest/` | objects in files, with the line and column of what is wrong |
//! | `output/` | results as tables, JSON, YAML, names or by JSONPath |
//! | `follow` | one object, until enough was seen of it |
//! | `live` | views that are drawn again and again |
//! | `near` | what somebody may have meant |
//! | `exit`, `failure` | how a command ends; what is said when it cannot do what it was asked for |
//!
//! Results go to standard output, everything else to standard error. [docs/cli.md](../../../docs/cli.md) is the users' page.

mod command_line;
mod commands;
mod exit;
mod failure;
mod follow;
mod kinds;
mod live;
mod manifest;
mod moment;
mod near;
mod output;
mod session;
mod stage;
mod targets;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use command_line::CommandLine;
use session::Session;

pub use exit::Exit;
pub use failure::Failure;
pub use stage::{Stage, Terminal};

/// Runs one command line, program name first, to its end.
pub async fn run(arguments: impl IntoIterator<Item = OsString>, mut stage: Stage) -> Exit {
    let line = match CommandLine::try_parse_from(arguments) {
        Ok(line) => line,
        Err(told) => return tell(&told, &mut stage),
    };
    let mut session = Session::new(line.global, stage);
    let done = line.command.run(&mut session).await;
    session.finish(done)
}

/// Help and versions are what was asked for; the rest is a mistake in the command line.
fn tell(told: &clap::Error, stage: &mut Stage) -> Exit {
    let text = match stage.terminal.colour {
        true => told.render().ansi().to_string(),
        false => told.render().to_string(),
    };
    let asked_for = !told.use_stderr();
    let stream = if asked_for { &mut stage.out } else { &mut stage.err };
    // Nobody is left to tell if even this cannot be written.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    if asked_for { Exit::Done } else { Exit::Usage }
}

/// There is not even a runtime to play on.
#[expect(clippy::print_stderr, reason = "there is no stage yet")]
pub fn cannot_start(error: &std::io::Error) -> ExitCode {
    eprintln!("setpoint: the program cannot start: {error}");
    Exit::Failed.into()
}
