//! `setpoint new`: begin something of your own.

mod controller;
mod names;
mod template;

use clap::Subcommand;

use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum New {
    /// A controller: a crate that builds, passes its test and runs against a cluster
    Controller(controller::NewController),
}

impl New {
    pub fn run(self, session: &mut Session) -> Done {
        match self {
            Self::Controller(command) => command.run(session),
        }
    }
}
