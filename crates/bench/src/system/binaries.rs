//! Finding the programs to run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::options::{Options, Subject};

/// Prints the folder of etcd's programs, fetching them first if need be.
const ETCD_SCRIPT: &str = "scripts/etcd-peer";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub setpointd: PathBuf,
    pub etcd: PathBuf,
    /// This program, which is also the floor's server.
    pub bench: PathBuf,
}

/// A program that is not there.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    #[error("this program's own path is unknown")]
    Own(#[source] std::io::Error),
    #[error("no Setpoint server at {0}; build it in release mode, or name one with --setpointd")]
    Setpointd(PathBuf),
    #[error("no etcd at {0}; name the folder that holds it with --etcd-bin-dir")]
    Etcd(PathBuf),
    #[error("no {ETCD_SCRIPT} here or above; start in the repository, or use --etcd-bin-dir")]
    NoScript,
    #[error("{ETCD_SCRIPT} failed")]
    Script(#[source] std::io::Error),
    #[error("{ETCD_SCRIPT} failed: {0}")]
    ScriptStatus(std::process::ExitStatus),
}

impl Binaries {
    pub fn locate(options: &Options) -> Result<Self, BinaryError> {
        let bench = std::env::current_exe().map_err(BinaryError::Own)?;
        let setpointd = options.setpointd.clone().unwrap_or_else(|| bench.with_file_name("setpointd"));
        if options.subject == Subject::Setpoint && !setpointd.is_file() {
            return Err(BinaryError::Setpointd(setpointd));
        }
        let folder = match &options.etcd_bin_dir {
            Some(folder) => folder.clone(),
            None => etcd_folder()?,
        };
        let etcd = folder.join("etcd");
        if !etcd.is_file() {
            return Err(BinaryError::Etcd(etcd));
        }
        Ok(Self { setpointd, etcd, bench })
    }

    /// The version etcd states, such as `3.5.30`.
    pub fn etcd_version(&self) -> Option<String> {
        let output = Command::new(&self.etcd).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .find_map(|line| line.strip_prefix("etcd Version: "))
            .map(|version| version.trim().to_owned())
    }
}

fn etcd_folder() -> Result<PathBuf, BinaryError> {
    let here = std::env::current_dir().map_err(BinaryError::Own)?;
    let script = here.ancestors().map(|folder| folder.join(ETCD_SCRIPT)).find(|script| script.is_file());
    let output = Command::new(script.ok_or(BinaryError::NoScript)?)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(BinaryError::Script)?;
    if !output.status.success() {
        return Err(BinaryError::ScriptStatus(output.status));
    }
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).to_owned())
}
