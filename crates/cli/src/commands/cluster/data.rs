//! `setpoint cluster backup`, `restore`, `compact`: the upkeep of the cluster's data.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use setpoint_client::BackupStream;
use setpoint_types::Revision;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Backup {
    /// The file to write. It appears only when the backup is complete
    file: PathBuf,
}

#[derive(Args)]
pub struct Restore {
    /// The backup
    file: PathBuf,
    /// The data folder to make. Must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

#[derive(Args)]
pub struct Compact {
    /// The oldest revision that stays readable; left out: the newest
    revision: Option<u64>,
    /// Wait until the space is free on the node that answers
    #[arg(long)]
    wait: bool,
}

impl Backup {
    pub async fn run(self, session: &mut Session) -> Done {
        if self.file.exists() {
            let text = format!("{} is there already; choose another name, or remove it", self.file.display());
            return Err(Failure::usage(text));
        }
        let stream = session.client()?.upkeep().backup().await?;
        let mut draft = self.file.clone().into_os_string();
        draft.push(".partial");
        let draft = PathBuf::from(draft);
        let written = fetch(session, stream, &draft).await.and_then(|bytes| {
            std::fs::rename(&draft, &self.file)
                .map(|()| bytes)
                .map_err(|error| unwritable(&self.file, &error))
        });
        let bytes = written.inspect_err(|_| {
            // Nothing that looks like a backup stays behind.
            let _ = std::fs::remove_file(&draft);
        })?;
        session.say(format!("{bytes} bytes written to {}", self.file.display()))?;
        Ok(Exit::Done)
    }
}

async fn fetch(session: &mut Session, mut stream: BackupStream, draft: &Path) -> Result<u64, Failure> {
    let mut file = std::fs::File::create_new(draft).map_err(|error| unwritable(draft, &error))?;
    let mut bytes = 0;
    while let Some(chunk) = stream.next().await? {
        file.write_all(&chunk).map_err(|error| unwritable(draft, &error))?;
        bytes += chunk.len() as u64;
        if session.stage.terminal.err {
            let _ = write!(session.stage.err, "\r{} MiB", bytes >> 20);
        }
    }
    if session.stage.terminal.err {
        let _ = write!(session.stage.err, "\r\x1b[K");
    }
    file.sync_all().map_err(|error| unwritable(draft, &error))?;
    Ok(bytes)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}

impl Restore {
    /// The server knows how: its data is its own business. It is beside this program, or on the path.
    pub fn run(self, session: &mut Session) -> Done {
        let beside = std::env::current_exe().ok().and_then(|it| Some(it.parent()?.join("setpointd")));
        let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("setpointd"));
        let ran = Command::new(&program)
            .arg("restore")
            .arg(&self.file)
            .arg("--data-dir")
            .arg(&self.data_dir)
            .output();
        let output = ran.map_err(|error| {
            Failure::failed(format!("setpointd, which restores, cannot be started: {error}; it has to be beside this program or on the PATH"))
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => {
                session.say(text(&output.stdout))?;
                Ok(Exit::Done)
            }
            false => Err(Failure::failed(text(&output.stderr).trim_start_matches("setpointd: ").to_owned())),
        }
    }
}

impl Compact {
    pub async fn run(self, session: &mut Session) -> Done {
        let upkeep = session.client()?.upkeep();
        let revision = match self.revision {
            Some(revision) => Revision::new(revision),
            None => upkeep.status().await?.revision,
        };
        upkeep.compact(revision, self.wait).await?;
        session.say(format!("compacted up to revision {revision}"))?;
        Ok(Exit::Done)
    }
}
