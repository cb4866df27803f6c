//! What the folder of `setpoint dev` holds, written down so that the next run goes on with it.
//!
//! A cluster keeps its members and their addresses: starting its data with another number of nodes, or several nodes on other
//! ports, would be another cluster, and is refused with the way out.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout::PORT_BASE;

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub nodes: u8,
    pub port_base: u16,
    /// The sample was applied once; whoever deleted or changed it since is not overruled.
    pub sample_applied: bool,
}

/// A folder that cannot be used, or not so.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{path} cannot be read or written")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged ({problem}); remove the folder to begin anew")]
    Damaged { path: PathBuf, problem: String },
    #[error("another `setpoint dev` uses {folder}{holder}; stop that one, or use another folder: --data-dir")]
    InUse { folder: PathBuf, holder: String },
    #[error(
        "{folder} holds a cluster of {held} node(s), not {asked}; go on with --nodes {held}, use another folder \
         (--data-dir), or remove this one"
    )]
    OtherNodes { folder: PathBuf, held: u8, asked: u8 },
    #[error(
        "the nodes in {folder} know each other by ports from {held} on; go on with --port-base {held}, use another \
         folder (--data-dir), or remove this one"
    )]
    OtherPorts { folder: PathBuf, held: u16 },
}

impl Record {
    /// What to start: what the folder holds, or what is asked for if it holds nothing.
    pub fn settle(
        held: Option<Self>,
        nodes: Option<u8>,
        port_base: Option<u16>,
        folder: &Path,
    ) -> Result<Self, RecordError> {
        let Some(held) = held else {
            let (nodes, port_base) = (nodes.unwrap_or(1), port_base.unwrap_or(PORT_BASE));
            return Ok(Self { nodes, port_base, sample_applied: false });
        };
        if let Some(asked) = nodes.filter(|nodes| *nodes != held.nodes) {
            return Err(RecordError::OtherNodes { folder: folder.to_owned(), held: held.nodes, asked });
        }
        match port_base.filter(|base| *base != held.port_base) {
            // Nobody else has to find a node that is alone.
            Some(port_base) if held.nodes == 1 => Ok(Self { port_base, ..held }),
            Some(_) => Err(RecordError::OtherPorts { folder: folder.to_owned(), held: held.port_base }),
            None => Ok(held),
        }
    }

    pub fn read(folder: &Path) -> Result<Option<Self>, RecordError> {
        let path = folder.join("dev.json");
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| RecordError::Damaged { path, problem: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RecordError::File { path, source }),
        }
    }

    /// The old file or the new one, whatever happens.
    pub fn write(&self, folder: &Path) -> Result<(), RecordError> {
        let (path, fresh) = (folder.join("dev.json"), folder.join("dev.json.new"));
        let text = serde_json::to_string(self).unwrap_or_default();
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path));
        written.map_err(|source| RecordError::File { path, source })
    }
}

/// Makes the folder, and keeps it for this process for as long as the file is open.
pub fn take(folder: &Path) -> Result<File, RecordError> {
    let path = folder.join("dev.lock");
    let failed = |source| RecordError::File { path: path.clone(), source };
    fs::create_dir_all(folder.join("logs")).map_err(failed)?;
    let mut file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            let holder = pid.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (process {pid})"));
            return Err(RecordError::InUse { folder: folder.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(nodes: u8) -> Option<Record> {
        Some(Record { nodes, port_base: 7400, sample_applied: true })
    }

    fn settled(held: Option<Record>, nodes: Option<u8>, base: Option<u16>) -> Result<Record, String> {
        Record::settle(held, nodes, base, Path::new(".setpoint")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_folder_takes_what_is_asked_for() {
        let fresh = Record { nodes: 1, port_base: 7400, sample_applied: false };
        assert_eq!(settled(None, None, None), Ok(fresh.clone()));
        assert_eq!(settled(None, Some(3), Some(9000)), Ok(Record { nodes: 3, port_base: 9000, ..fresh }));
    }

    #[test]
    fn a_second_run_goes_on_with_what_is_there() {
        assert_eq!(settled(held(3), None, None), Ok(held(3).expect("held")));
        assert_eq!(settled(held(3), Some(3), Some(7400)), Ok(held(3).expect("held")));
    }

    #[test]
    fn another_number_of_nodes_is_refused_with_the_way_out() {
        let refused = settled(held(1), Some(3), None).expect_err("one is not three");
        assert!(refused.contains("1 node(s), not 3") && refused.contains("--data-dir"), "{refused}");
    }

    #[test]
    fn only_a_node_that_is_alone_can_move_to_other_ports() {
        assert_eq!(settled(held(1), None, Some(9000)).expect("moves").port_base, 9000);
        let refused = settled(held(3), None, Some(9000)).expect_err("the others would not find it");
        assert!(refused.contains("--port-base 7400"), "{refused}");
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Record::read(folder.path()).expect("none"), None);
        let record = held(3).expect("held");
        record.write(folder.path()).expect("written");
        assert_eq!(Record::read(folder.path()).expect("read"), Some(record));
        fs::write(folder.path().join("dev.json"), "{").expect("damaged");
        let problem = Record::read(folder.path()).expect_err("damaged").to_string();
        assert!(problem.contains("dev.json") && problem.contains("remove the folder"), "{problem}");
    }

    #[test]
    fn one_at_a_time_uses_a_folder_and_the_next_is_told_who() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = take(folder.path()).expect("free");
        let refused = take(folder.path()).expect_err("in use").to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(lock);
        take(folder.path()).expect("free again");
    }
}
