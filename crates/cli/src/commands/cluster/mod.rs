//! `setpoint cluster`: the nodes of the cluster, and the upkeep of their data.
//!
//! - [`nodes`]: how each node is, and which one leads
//! - [`data`]: backups, restoring, compaction

mod data;
mod nodes;

use clap::Subcommand;
use setpoint_client::{Client, Endpoint, Settings};

use crate::failure::Failure;
use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum Cluster {
    /// Show how each node is
    Status(nodes::Status),
    /// Show the nodes the cluster consists of
    Members(nodes::Members),
    /// Make another node the leader
    MoveLeader(nodes::MoveLeader),
    /// Write a copy of everything to a file
    Backup(data::Backup),
    /// Make a node's data folder from a backup, on the node's own machine
    Restore(data::Restore),
    /// Forget the past before a revision
    Compact(data::Compact),
}

impl Cluster {
    pub async fn run(self, session: &mut Session) -> Done {
        match self {
            Self::Status(command) => command.run(session).await,
            Self::Members(command) => command.run(session).await,
            Self::MoveLeader(command) => command.run(session).await,
            Self::Backup(command) => command.run(session).await,
            Self::Restore(command) => command.run(session),
            Self::Compact(command) => command.run(session).await,
        }
    }
}

/// A client of one node.
fn client_of(session: &Session, settings: &Settings, endpoint: Endpoint) -> Result<Client, Failure> {
    let mut settings = settings.clone();
    settings.endpoints = vec![endpoint];
    // One that does not answer is told of, not waited for.
    settings.attempts_max = 1;
    settings.timeouts.call = settings.timeouts.call.min(std::time::Duration::from_secs(5));
    settings.timeouts.attempt = settings.timeouts.call;
    session.connect(settings)
}
