//! `setpoint exec`: a command in a replica, by way of any node of the cluster ([ADR 19](../../../../docs/adr/0019-sessions.md)).
//!
//! What it writes comes out as it writes it, on the same two streams, and this ends with its code. There is no terminal: a shell shows no
//! prompt, and Ctrl-C ends the command, not what runs in it.

use std::io::{self, Read, Write as _};

use clap::Args;
use setpoint_client::{ExecEvent, ExecInput};
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{Done, Session};

#[derive(Args)]
#[command(
    after_help = "The command is run as it stands, by no shell; for one, run `sh -c '...'`. It has no terminal. It ends with its replica, and when \
                        this command is stopped."
)]
pub struct Exec {
    /// The replica: NAME or replica/NAME
    #[arg(value_name = "REPLICA")]
    replica: String,
    /// Pass standard input on to the command
    #[arg(short = 'i', long = "stdin")]
    interactive: bool,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How much input is read at once.
const CHUNK_BYTES: usize = 32 << 10;

impl Exec {
    pub async fn run(self, session: &mut Session) -> Done {
        let name = match self.replica.split_once('/') {
            None => self.replica.as_str(),
            Some(("replica" | "replicas", name)) => name,
            Some((kind, _)) => {
                let text = format!(
                    "commands are run in a replica, not in a {kind}; `setpoint get replicas` shows them"
                );
                return Err(Failure::usage(text));
            }
        };
        let exec = session.client()?.sessions().exec(name).await?;
        let (input, mut output) = exec.run(&self.command, self.interactive).await;
        // It ends with the command: whoever is left to type is not waited for.
        let feeding = self.interactive.then(|| tokio::spawn(feed(take_input(session), input)));
        let done = loop {
            match output.next().await {
                Ok(ExecEvent::Output(bytes)) => {
                    session.stage.out.write_all(&bytes).map_err(Failure::output)?;
                    session.flush()?;
                }
                Ok(ExecEvent::Errors(bytes)) => {
                    // Who cannot be told is not told.
                    let _ = session.stage.err.write_all(&bytes).and_then(|()| session.stage.err.flush());
                }
                Ok(ExecEvent::End(code)) => break Ok(ended(code)),
                Err(error) => break Err(Failure::from(error)),
            }
        };
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        done
    }
}

fn ended(code: u32) -> Exit {
    match u8::try_from(code) {
        Ok(0) => Exit::Done,
        code => Exit::Command(code.unwrap_or(u8::MAX)),
    }
}

fn take_input(session: &mut Session) -> Box<dyn Read + Send> {
    std::mem::replace(&mut session.stage.input, Box::new(io::empty()))
}

/// Passes on what is read, until it ends or nobody takes it.
async fn feed(mut from: Box<dyn Read + Send>, input: ExecInput) {
    // One: what the command does not take is not read.
    let (sender, mut read) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if sender.blocking_send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    while let Some(bytes) = read.recv().await {
        if !input.write(bytes.into()).await {
            return;
        }
    }
    input.end().await;
}
