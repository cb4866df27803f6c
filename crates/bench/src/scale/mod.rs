//! Scale: how fast replicas get their nodes, what that costs, and how soon they are replaced.
//!
//! Servers, schedulers, controllers and simulated agents are processes, as users start them; everything is asked over gRPC, and what
//! processes use is read from `/proc`. One machine has all of them, so figures are of the whole on its processors.
//!
//! - [`site`]: the processes; [`made`]: what is made up for them to do; [`fill`]: telling the server
//! - [`binds`], [`steady`], [`death`]: what is measured, one file per scene
//! - [`figures`]: what comes out
//!
//! Not here: how good placements are, beside a search of every node (`setpoint-scheduler`'s `place_speed`).

mod binds;
mod death;
mod figures;
mod fill;
mod made;
mod options;
mod single;
mod site;
mod steady;

use std::path::Path;

use figures::Figures;
pub use options::{ScaleOptions, Scene};

use crate::system::SystemError;

/// Why a scene could not be played.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error("no {name} at {path}; build the programs in release mode, or name their folder with --programs")]
    Program { name: &'static str, path: std::path::PathBuf },
    #[error("cannot read or write a file of the run")]
    File(#[from] std::io::Error),
    #[error("cannot {what}")]
    Request { what: &'static str, source: Box<tonic::Status> },
    #[error("a task of the client failed")]
    Task(#[from] tokio::task::JoinError),
    #[error("{what} did not happen within {seconds} s; the last words of the processes: {log}")]
    TooSlow { what: &'static str, seconds: u64, log: String },
}

impl ScaleError {
    fn request(what: &'static str) -> impl Fn(tonic::Status) -> Self {
        move |status| Self::Request { what, source: Box::new(status) }
    }
}

/// Plays the scenes, one after the other.
pub async fn run(options: &ScaleOptions, data: &Path) -> Result<Figures, ScaleError> {
    let mut figures = Figures::default();
    let mut scenes = options.only.clone();
    scenes.sort();
    scenes.dedup();
    for scene in scenes {
        match scene {
            Scene::Binds => binds::measure(options, data, &mut figures).await?,
            Scene::Steady => steady::measure(options, data, &mut figures).await?,
            Scene::Death => death::measure(options, data, &mut figures).await?,
        }
    }
    Ok(figures)
}
