//! The project's own tools, run as `cargo xtask <command>`.
//!
//! Not here: anything a user runs. Programs for users have crates of their own.

// A command line tool answers on the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod reference;
mod tidy;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  reference    write docs/reference anew, from schemas and contract
  tidy         check the laws of the code that no compiler knows (docs/STYLE.md)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["reference"] => match reference::write(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed("reference", &error),
        },
        ["tidy"] => run_tidy(),
        [] | ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("xtask: unknown command `{}`\n\n{USAGE}", arguments.join(" "));
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    match tidy::check_repository() {
        Ok(violations) if violations.is_empty() => ExitCode::SUCCESS,
        Ok(violations) => {
            for violation in &violations {
                println!("{violation}");
            }
            eprintln!("tidy: {} found; every rule's reason is in docs/STYLE.md", violations.len());
            ExitCode::FAILURE
        }
        Err(error) => failed("tidy", &error),
    }
}

fn failed(command: &str, error: &dyn Error) -> ExitCode {
    eprintln!("{command} could not run: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::from(2)
}
