//! `setpoint-scheduler`: finds a node for every replica. Start as many as you like: they share the work.

use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use setpoint_client::{Client, config};
use setpoint_runtime::{sentence, stop_signal};
use setpoint_scheduler::shell::http::{self, Shown};
use setpoint_scheduler::shell::scheduler::Scheduler;
use setpoint_scheduler::shell::settings::{HttpSettings, Settings};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Gives memory back that is free in pieces: while a hundred thousand replicas wait there is twice what there is later.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Finds a node for every replica. The cluster is that of ~/.setpoint/config, or of the file that SETPOINT_CONFIG names; without one, a
/// node on this machine.
#[derive(Debug, Parser)]
#[command(name = "setpoint-scheduler", version)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    http: HttpSettings,
    /// The context of the client's config file (SETPOINT_CONFIG) [default: its current one]
    #[arg(long, env = "SETPOINT_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// What is logged: a level, or rules as in `setpoint_scheduler=debug,info`
    #[arg(long, env = "SETPOINT_LOG", value_name = "RULES", default_value = "info")]
    log: String,
    /// Log lines as JSON
    #[arg(long, env = "SETPOINT_LOG_JSON")]
    log_json: bool,
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "this is where the program speaks to whoever started it")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("setpoint-scheduler: {}", sentence(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    start_logging(&arguments)?;
    let client = Client::new(config::load(arguments.context.as_deref())?)?;
    let scheduler = Scheduler::new(client, arguments.settings)?;
    let stop = CancellationToken::new();
    let shown = Shown { registry: scheduler.registry(), ready: scheduler.ready() };
    let listener = http::listen(arguments.http.listen).await?;
    tracing::info!(address = %listener.local_addr()?, "serving metrics and health");
    let serving = tokio::spawn(http::serve(listener, shown, stop.clone()));
    let told = stop.clone();
    tokio::spawn(async move {
        stop_signal().await;
        told.cancel();
    });
    let ended = scheduler.run(stop.clone()).await;
    stop.cancel();
    serving.await??;
    Ok(ended?)
}

fn start_logging(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(&arguments.log).map_err(|error| format!("--log: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    if arguments.log_json {
        builder.json().init()
    } else {
        builder.init()
    }
    Ok(())
}
