//! `setpoint dev`: a whole cluster on this machine, until Ctrl-C.
//!
//! - `layout`: which programs, arguments, ports and order; pure
//! - `record`: what the folder holds from a run before
//! - `ports`: whether the ports are free
//! - `child`, `cluster`: the processes, one and all of them
//! - `leftovers`: what agents leave behind that had to be killed
//! - `sample`, `http`: the workload that is applied and asked
//! - `guide`: what to try next
//!
//! Data is in `./.setpoint`, and the next run goes on with it.

mod child;
mod cluster;
mod guide;
mod http;
mod layout;
mod leftovers;
mod ports;
mod record;
mod sample;

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use setpoint_client::config::{ClusterEntry, ConfigFile, ContextEntry};
use tokio::signal::unix::{Signal, SignalKind, signal};

use cluster::Cluster;
use layout::{AGENTS_MAX, Layout, NODES_MAX};
use record::Record;
use sample::{Sample, Seen};

use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Dev {
    /// Nodes of the store: 1, or 3 for one that survives the loss of a node [default: what the folder holds, or 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=i64::from(NODES_MAX)))]
    nodes: Option<u8>,
    /// Agents, each in a zone of its own
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(AGENTS_MAX)))]
    agents: u8,
    /// Where all data and logs are kept
    #[arg(long, value_name = "DIR", default_value = ".setpoint")]
    data_dir: PathBuf,
    /// The first of the ports [default: 7400, or those of the run before]
    #[arg(long, value_name = "PORT", value_parser = port_base)]
    port_base: Option<u16>,
    /// Apply no sample workload
    #[arg(long)]
    no_sample: bool,
    /// Become the program that follows, which ends with this process
    #[arg(long, hide = true, requires = "program")]
    child_of: Option<u32>,
    #[arg(last = true, hide = true, requires = "child_of")]
    program: Vec<OsString>,
}

fn port_base(text: &str) -> Result<u16, String> {
    let base = text.parse::<u16>().ok().filter(|base| Layout::is_port_base(*base));
    base.ok_or_else(|| "a number from 1024 to 65457: some eighty ports from there on are used".to_owned())
}

impl Dev {
    pub async fn run(self, session: &mut Session) -> Done {
        if let Some(parent) = self.child_of {
            let error = child::become_program(parent, &self.program);
            return Err(Failure::failed(error.to_string()));
        }
        let mut signals = Signals::new().map_err(failed)?;
        let folder = self.data_dir;
        let _lock = record::take(&folder).map_err(failed)?;
        let held = Record::read(&folder).map_err(failed)?;
        let again = held.is_some();
        let mut record = Record::settle(held, self.nodes, self.port_base, &folder).map_err(failed)?;
        let Record { nodes, port_base, .. } = record;
        let layout = Layout { folder, port_base, nodes, agents: self.agents };
        let programs = layout.programs();
        ports::check(&layout, &programs, !again || nodes == 1).map_err(failed)?;
        record.write(&layout.folder).map_err(failed)?;
        client_config(&layout).save(&layout.client_config())?;

        let found = if again { "goes on with what is in" } else { "begins in" };
        session.note(format!("A cluster on this machine {found} {}", layout.folder.display()));
        let mut cluster = Cluster::default();
        let work = async {
            cluster.start(&layout, &programs, session).await.map_err(failed)?;
            let seen = if self.no_sample { None } else { Some(sample(&layout, &mut record, session).await?) };
            session.write(&guide::text(&layout, seen.as_ref(), off_path(session).as_deref()))?;
            session.flush()?;
            Err(failed(cluster.watch().await))
        };
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = signals.next() => Ok(Exit::Done),
        };
        session.note("Stopping; once more to kill everything at once");
        let killed = tokio::select! {
            killed = cluster.stop() => killed,
            () = signals.once_more() => vec!["everything that was left".to_owned()],
        };
        // An agent that was killed had no time to stop its replicas.
        drop(cluster);
        leftovers::kill(&layout.folder);
        session.note(match killed.is_empty() {
            true => "Stopped".to_owned(),
            false => format!("Killed, because it did not stop in time: {}", killed.join(", ")),
        });
        outcome
    }
}

fn failed(error: impl Error) -> Failure {
    Failure::failed(chain(&error))
}

/// Applies it the first time, and waits for it.
async fn sample(layout: &Layout, record: &mut Record, session: &mut Session) -> Result<Seen, Failure> {
    let sample = Sample::new(&layout.endpoints()).map_err(failed)?;
    if !record.sample_applied {
        let program = std::env::current_exe().map_err(failed)?;
        sample.apply(&program).await.map_err(failed)?;
        record.sample_applied = true;
        record.write(&layout.folder).map_err(failed)?;
    }
    session.note(format!("  workload {}: waiting until it serves", sample::NAME));
    sample.serving().await.map_err(failed)
}

/// The folder of this program, if whoever types `setpoint` would not start it.
fn off_path(session: &Session) -> Option<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).ok()?;
    let path = session.stage.variable("PATH").unwrap_or_default();
    let found = std::env::split_paths(path).map(|folder| folder.join("setpoint")).find(|it| it.is_file());
    let is_found = found.and_then(|found| found.canonicalize().ok()).is_some_and(|found| found == program);
    if is_found { None } else { program.parent().map(PathBuf::from) }
}

/// How clients find the cluster.
fn client_config(layout: &Layout) -> ConfigFile {
    let name = "dev".to_owned();
    let cluster =
        ClusterEntry { name: name.clone(), endpoints: layout.endpoints(), ..ClusterEntry::default() };
    let context = ContextEntry { name: name.clone(), cluster: name.clone(), user: None, namespace: None };
    let (clusters, contexts) = (vec![cluster], vec![context]);
    ConfigFile { current_context: Some(name), clusters, users: Vec::new(), contexts }
}

/// What asks for the end: Ctrl-C, a supervisor, a terminal that is closed.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    /// Asked again. A terminal, a shell and `timeout` may all pass on one Ctrl-C: what comes at once is the same one.
    async fn once_more(&mut self) {
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(1) {
            self.next().await;
        }
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
