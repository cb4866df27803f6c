//! The commands, a module each: its arguments, and what it does on a session.

mod api_resources;
mod apply;
mod auth;
mod cluster;
mod completion;
mod config;
mod delete;
mod describe;
mod dev;
mod diff;
mod edit;
mod events;
mod exec;
mod explain;
mod get;
mod logs;
mod mark;
mod new;
mod node;
mod patch;
mod rollout;
mod scale;
mod serve_hello;
mod top;
mod wait;
mod watch;

use clap::Subcommand;

use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum Command {
    /// Show objects
    Get(get::Get),
    /// Show all that is known of objects
    Describe(describe::Describe),
    /// Make objects as files say
    Apply(apply::Apply),
    /// Delete objects
    Delete(delete::Delete),
    /// Show what an apply would change
    Diff(diff::Diff),
    /// Change an object in your editor
    Edit(edit::Edit),
    /// Change a part of an object
    Patch(patch::PatchCommand),
    /// Change the number of replicas
    Scale(scale::Scale),
    /// Add, change and remove labels
    Label(mark::Mark),
    /// Add, change and remove annotations
    Annotate(mark::Mark),
    /// Wait until objects are as they should be
    Wait(wait::Wait),
    /// Show how a workload is rolled out, hold it, go back
    #[command(subcommand)]
    Rollout(rollout::Rollout),
    /// Show what happened
    Events(events::Events),
    /// Show what kinds and fields are for
    Explain(explain::Explain),
    /// Give a node no more replicas
    Cordon(node::Cordon),
    /// Give a node replicas again
    Uncordon(node::Cordon),
    /// Move everything away from a node
    Drain(node::Drain),
    /// Show the kinds of objects there are
    #[command(visible_alias = "kinds")]
    ApiResources(api_resources::ApiResources),
    /// Show what replicas write
    Logs(logs::Logs),
    /// Run a command in a replica
    Exec(exec::Exec),
    /// Show how much of nodes and namespaces is reserved; what is used is not measured
    #[command(subcommand)]
    Top(top::Top),
    /// Watch workloads, live
    Watch(watch::Watch),
    /// Clusters, users and contexts of the config file
    #[command(subcommand)]
    Config(config::Config),
    /// Who you are to the server, and what you may do
    #[command(subcommand)]
    Auth(auth::Auth),
    /// The cluster's nodes, and the upkeep of their data
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Print the completion script of a shell
    Completion(completion::Completion),
    #[command(name = "__complete", hide = true)]
    Complete(completion::Complete),
    /// Begin something of your own
    #[command(subcommand)]
    New(new::New),
    /// Start a whole cluster on this machine, with a sample workload, until Ctrl-C
    Dev(dev::Dev),
    /// Serve one line over HTTP: something to run where there is nothing else
    ServeHello(serve_hello::ServeHello),
}

impl Command {
    pub async fn run(self, session: &mut Session) -> Done {
        match self {
            Self::Get(command) => command.run(session).await,
            Self::Describe(command) => command.run(session).await,
            Self::Apply(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
            Self::Diff(command) => command.run(session).await,
            Self::Edit(command) => command.run(session).await,
            Self::Patch(command) => command.run(session).await,
            Self::Scale(command) => command.run(session).await,
            Self::Label(command) => command.run(session, mark::Marks::Labels).await,
            Self::Annotate(command) => command.run(session, mark::Marks::Annotations).await,
            Self::Wait(command) => command.run(session).await,
            Self::Rollout(command) => command.run(session).await,
            Self::Events(command) => command.run(session).await,
            Self::Explain(command) => command.run(session).await,
            Self::Cordon(command) => command.run(session, true).await,
            Self::Uncordon(command) => command.run(session, false).await,
            Self::Drain(command) => command.run(session).await,
            Self::ApiResources(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Exec(command) => command.run(session).await,
            Self::Top(command) => command.run(session).await,
            Self::Watch(command) => command.run(session).await,
            Self::Config(command) => command.run(session),
            Self::Auth(command) => command.run(session).await,
            Self::Cluster(command) => command.run(session).await,
            Self::Completion(command) => command.run(session),
            Self::Complete(command) => command.run(session).await,
            Self::New(command) => command.run(session),
            Self::Dev(command) => command.run(session).await,
            Self::ServeHello(command) => command.run().await,
        }
    }
}
