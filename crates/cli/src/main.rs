//! `setpoint`: the command line. Results go to standard output, everything else to standard error.
//!
//! Commands are in `commands/<verb or noun>/`, a file each. Today there is one: `setpoint new controller`.

// What it prints is what it is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod commands;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use commands::Command;

#[derive(Parser)]
#[command(name = "setpoint", version, about = "The command line of Setpoint")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match CommandLine::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("setpoint: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// An error and what caused it, in one line.
fn chain(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |error| Error::source(*error))
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
