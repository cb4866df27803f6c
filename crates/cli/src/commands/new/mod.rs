//! `setpoint new`: begin something of your own.

mod controller;
mod names;
mod template;

use std::error::Error;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum New {
    /// A controller: a crate that builds, passes its test and runs against a cluster
    Controller(controller::NewController),
}

impl New {
    pub fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Controller(command) => Ok(command.run()?),
        }
    }
}
