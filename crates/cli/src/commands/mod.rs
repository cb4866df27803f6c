//! The commands, a module each.

mod new;

use std::error::Error;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Begin something of your own
    #[command(subcommand)]
    New(new::New),
}

impl Command {
    pub fn run(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::New(new) => new.run(),
        }
    }
}
