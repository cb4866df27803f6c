//! The commands, a module each: its arguments, and what it does on a session.

mod new;

use clap::Subcommand;

use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum Command {
    /// Begin something of your own
    #[command(subcommand)]
    New(new::New),
}

impl Command {
    pub async fn run(self, session: &mut Session) -> Done {
        match self {
            Self::New(new) => new.run(session),
        }
    }
}
