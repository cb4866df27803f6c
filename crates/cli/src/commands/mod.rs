//! The commands, a module each: its arguments, and what it does on a session.

mod api_resources;
mod apply;
mod delete;
mod describe;
mod dev;
mod get;
mod new;
mod serve_hello;

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
    /// Show the kinds of objects there are
    #[command(visible_alias = "kinds")]
    ApiResources(api_resources::ApiResources),
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
            Self::ApiResources(command) => command.run(session).await,
            Self::New(command) => command.run(session),
            Self::Dev(command) => command.run(session).await,
            Self::ServeHello(command) => command.run().await,
        }
    }
}
