//! `setpointd`: one node of a Setpoint cluster.
//!
//! Reads settings, starts the runtime, dispatches. Everything else has its own file: `node` puts a node together,
//! `commands` holds what the program does besides running one.

mod access;
mod admit;
mod commands;
mod config;
mod console;
mod door;
mod draining;
mod engines;
mod founding;
mod gather;
mod host;
mod http;
mod identify;
mod identity;
mod joining;
mod listen;
mod measure;
mod metrics;
mod node;
mod options;
mod oversize;
mod restored;
mod tls;

use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use rand::TryRngCore;
use rand::rngs::OsRng;
use setpoint_access::TOKEN_ENTROPY_BYTES;
use setpoint_types::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use config::{Logging, ServerConfig};
use options::{Cli, RunArgs, Subcommands};

/// Keeps memory small under many short-lived allocations of many threads; RocksDB uses it too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Outcome = Result<Option<String>, Box<dyn Error>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => run(cli.run).map(|()| None),
        Some(Subcommands::Health(args)) => commands::health::run(&args).map(Some).map_err(Into::into),
        Some(Subcommands::Backup(args)) => backup(&args),
        Some(Subcommands::Restore(args)) => commands::restore::run(&args).map(Some).map_err(Into::into),
        Some(Subcommands::InitPki(args)) => {
            commands::init_pki::run(&args, now()).map(Some).map_err(Into::into)
        }
        Some(Subcommands::Token(args)) => token(&args),
    };
    report(outcome)
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where a command speaks to its user")]
fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(message) => {
            if let Some(message) = message {
                println!("{message}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("setpointd: {error}");
            let mut cause = error.source();
            while let Some(source) = cause {
                eprint!(": {source}");
                cause = source.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn backup(args: &options::BackupArgs) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(Some(runtime.block_on(commands::backup::run(args))?))
}

fn token(args: &options::TokenArgs) -> Outcome {
    let mut entropy = [0; TOKEN_ENTROPY_BYTES];
    OsRng.try_fill_bytes(&mut entropy)?;
    Ok(Some(commands::token::run(args, &entropy, now())?))
}

#[expect(clippy::disallowed_methods, reason = "certificates and tokens are valid from the command on")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}

fn run(args: RunArgs) -> Result<(), Box<dyn Error>> {
    let config = ServerConfig::try_from(args.merged()?)?;
    start_logging(&config.logging)?;
    // The log, the state machine and the storage engine have threads of their own, which want a processor too.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = processors.saturating_sub(1).max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(stop_on_signal(stop.clone()));
        node::run(config, stop).await
    })?;
    Ok(())
}

fn start_logging(logging: &Logging) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(&logging.rules).map_err(|error| format!("--log: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    if logging.json {
        builder.json().init()
    } else {
        builder.init()
    }
    Ok(())
}

/// SIGTERM and Ctrl-C stop the node in good order; a second one ends it at once.
async fn stop_on_signal(stop: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return tracing::warn!("signals cannot be caught; the node will not stop in good order");
    };
    let mut next = async || tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () };
    next().await;
    tracing::info!("stopping");
    stop.cancel();
    next().await;
    std::process::exit(1);
}
