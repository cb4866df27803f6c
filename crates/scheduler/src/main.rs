//! `setpoint-scheduler`: finds a node for every replica. Start as many as you like: they share the work.

use std::error::Error;

use clap::Parser;
use setpoint_client::Client;
use setpoint_scheduler::shell::http::{self, Shown};
use setpoint_scheduler::shell::scheduler::Scheduler;
use setpoint_scheduler::shell::settings::{HttpSettings, Settings};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let scheduler = Scheduler::new(Client::from_config()?, arguments.settings)?;
    let stop = CancellationToken::new();
    let shown = Shown { registry: scheduler.registry(), ready: scheduler.ready() };
    let listener = TcpListener::bind(arguments.http.listen).await?;
    tracing::info!(address = %listener.local_addr()?, "serving metrics and health");
    let serving = tokio::spawn(http::serve(listener, shown, stop.clone()));
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    let ended = scheduler.run(stop.clone()).await;
    stop.cancel();
    serving.await??;
    Ok(ended?)
}
