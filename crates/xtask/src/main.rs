//! The project's own tools, run as `cargo xtask <command>`.
//!
//! Not here: anything a user runs. Programs for users have crates of their own.

// A command line tool answers on the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  tidy    check the laws of the code that no compiler knows (docs/STYLE.md)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
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
        Err(error) => {
            eprintln!("tidy could not run: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::from(2)
        }
    }
}
