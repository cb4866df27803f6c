//! `setpoint new controller NAME`: writes a crate that builds, passes its test and runs against a cluster.
//!
//! Not here: what is in it (`template`).

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::names::Names;
use super::template::{self, Sdk};
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::session::{Done, Session};

#[derive(Args)]
pub struct NewController {
    /// What to call it: lower-case letters, digits and dashes. The crate, the lease and the kind are named after it
    name: String,
    /// The folder to make. The name, here, if it is left out
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Where Setpoint's source is. Found by itself if this program runs from it
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Why there is no new controller. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum NewControllerError {
    #[error("{name:?} cannot be a controller's name: it {problem}")]
    Name { name: String, problem: String },
    #[error("{} is there already; choose another name, or another folder with --path", path.display())]
    Exists { path: PathBuf },
    #[error("Setpoint's source was not found; say where it is with --sdk DIR")]
    NoSdk,
    #[error("{} is not Setpoint's source: it has no crates/runtime", path.display())]
    NotTheSdk { path: PathBuf },
    #[error("{} could not be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl NewController {
    pub fn run(self, session: &mut Session) -> Done {
        let (name, folder) = self.make()?;
        session.say(folder.display().to_string())?;
        session.note(format!("made the controller {name}; next:\n  cd {} && cargo test", folder.display()));
        Ok(Exit::Done)
    }

    /// Its name and its folder.
    fn make(self) -> Result<(String, PathBuf), NewControllerError> {
        let names = Names::of(&self.name)
            .map_err(|problem| NewControllerError::Name { name: self.name.clone(), problem })?;
        let folder = self.path.unwrap_or_else(|| PathBuf::from(&names.name));
        if folder.exists() {
            return Err(NewControllerError::Exists { path: folder });
        }
        let sdk = match self.sdk {
            Some(path) if is_sdk(&path) => Sdk::given(path),
            Some(path) => return Err(NewControllerError::NotTheSdk { path }),
            None => Sdk::given(find_sdk().ok_or(NewControllerError::NoSdk)?),
        };
        let mut files = template::files(&names, &sdk, &folder);
        files.extend(template::surroundings(&sdk));
        if let Err(error) = write(&folder, &files) {
            // Half a crate would only be in the way of the next try.
            let _ = std::fs::remove_dir_all(&folder);
            return Err(error);
        }
        Ok((names.name, folder))
    }
}

impl From<NewControllerError> for Failure {
    fn from(error: NewControllerError) -> Self {
        match error {
            NewControllerError::Write { .. } => Self::failed(chain(&error)),
            _ => Self::usage(chain(&error)),
        }
    }
}

fn write(folder: &Path, files: &[(String, String)]) -> Result<(), NewControllerError> {
    for (name, text) in files {
        let path = folder.join(name);
        let written =
            path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| NewControllerError::Write { path, source })?;
    }
    Ok(())
}

fn is_sdk(path: &Path) -> bool {
    path.join("crates/runtime/Cargo.toml").is_file()
}

/// Where this program is: `SOURCE/bin/setpoint`, or below `SOURCE/target`.
fn find_sdk() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.canonicalize().ok()?;
    program.ancestors().find(|folder| is_sdk(folder)).map(Path::to_path_buf)
}
