//! Who this agent is. The same after a restart of the program, another after one of the host: what was bound to the one before
//! is not to be begun by this one.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::durable;
use crate::machine::{BootTime, boot_id};
use crate::runtime::process::run_folder::write_deadline;

/// A state folder that is this process's.
pub struct Identity {
    /// As whom the lease is held.
    pub holder: String,
    pub boot_id: String,
    /// Tells this state folder from all others. What the agent leaves on the host carries it.
    pub mark: String,
    /// Held as long as the process lives.
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct Written {
    instance: String,
    boot_id: String,
}

/// No agent can work in this folder.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{folder}: another agent works in this folder: stop it, or give this one another --state-dir")]
    Taken { folder: String },
    #[error("{folder}: the state folder cannot be used")]
    Files {
        folder: String,
        #[source]
        source: io::Error,
    },
}

impl Identity {
    /// Takes the folder. `drawn` is what tells a new folder from all others.
    pub fn take(state: &Path, node: &str, drawn: u64) -> Result<Self, IdentityError> {
        let folder = || state.display().to_string();
        let failed = |source| IdentityError::Files { folder: folder(), source };
        std::fs::create_dir_all(state).map_err(failed)?;
        let lock = File::create(state.join("LOCK")).map_err(failed)?;
        if lock.try_lock().is_err() {
            return Err(IdentityError::Taken { folder: folder() });
        }
        let path = state.join("agent.json");
        let before: Option<Written> = durable::read(&path).map_err(failed)?;
        let boot_id = boot_id();
        let is_new_boot = before.as_ref().is_none_or(|before| before.boot_id != boot_id);
        let instance = before.map_or_else(|| format!("{drawn:016x}"), |before| before.instance);
        if is_new_boot {
            // What was written there counts from another start of the host.
            write_deadline(&state.join("deadline"), BootTime(0)).map_err(failed)?;
            let written = Written { instance: instance.clone(), boot_id: boot_id.clone() };
            durable::replace(&path, &written).map_err(failed)?;
        }
        let start: String = boot_id.chars().take(8).collect();
        // The server takes names of holders up to 253 bytes; which node it is says the lease.
        let node: String = node.chars().take(200).collect();
        Ok(Self { holder: format!("{node}-{instance}-{start}"), boot_id, mark: instance, _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_after_a_restart_and_nobody_else_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Identity::take(folder.path(), "n1", 1).expect("taken");
        assert!(matches!(Identity::take(folder.path(), "n1", 2), Err(IdentityError::Taken { .. })));
        let holder = first.holder.clone();
        drop(first);
        assert_eq!(Identity::take(folder.path(), "n1", 3).expect("taken again").holder, holder);
    }

    #[test]
    fn after_a_restart_of_the_host_it_is_another_and_no_lease_is_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let holder = Identity::take(folder.path(), "n1", 1).expect("taken").holder;
        let before = Written { instance: "0000000000000001".into(), boot_id: "before".into() };
        durable::replace(&folder.path().join("agent.json"), &before).expect("written");
        let deadline = folder.path().join("deadline");
        write_deadline(&deadline, BootTime(u64::MAX)).expect("written");
        Identity::take(folder.path(), "n1", 2).expect("taken");
        assert_eq!(crate::runtime::process::run_folder::read_deadline(&deadline), Some(BootTime(0)));
        assert!(holder.starts_with("n1-0000000000000001-"), "{holder}");
    }
}
