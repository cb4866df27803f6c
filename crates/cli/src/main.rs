//! `setpoint`: the command line, as a program. Gives the library what a process has: arguments, streams, environment, time.

use std::process::ExitCode;

use setpoint_cli::Stage;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return setpoint_cli::cannot_start(&error),
    };
    let exit = runtime.block_on(setpoint_cli::run(std::env::args_os(), Stage::of_process()));
    // A thread that still waits for input must not keep the program from ending.
    runtime.shutdown_background();
    exit.into()
}
