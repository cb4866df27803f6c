//! Who this node is: decided once, when it founds or joins a cluster, and kept in its data folder ever after.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use setpoint_apiserver::replica::Identity;
use setpoint_consensus::{Connector, Newcomer, Peer, has_log};
use setpoint_types::{ClusterId, NodeId};
use sha2::{Digest, Sha256};

use crate::config::{Origin, ServerConfig};
use crate::founding::{self, FoundingError};
use crate::joining::{self, JoiningError};
use crate::restored::{self, BackupHash, MarkError};

/// What a node is, and what it starts its log with if that is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub identity: Identity,
    /// The founding members; none for a node that joined.
    pub founders: Option<BTreeMap<NodeId, Peer>>,
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{path} cannot be read or written")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged; restore the node's data, or remove the member and join anew")]
    Damaged {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "the data in {path} belongs to member {found:?}, but this node is called {name:?}; start it with --name {found}"
    )]
    OtherName { path: PathBuf, found: String, name: String },
    #[error(transparent)]
    Joining(#[from] JoiningError),
    #[error(
        "the data folder was restored from a backup, so the node can only found a new cluster (--initial-cluster); to \
         join one, give it an empty folder"
    )]
    RestoredJoins,
    #[error(transparent)]
    Restored(#[from] MarkError),
    #[error(transparent)]
    Founding(#[from] FoundingError),
    #[error(
        "this node has taken part in the cluster as member {node}, but its log in {path} is gone: what it had promised is \
         lost; remove the member (etcdctl member remove {node}), empty the data folder and start the node with --join \
         instead of --initial-cluster"
    )]
    LostLog { node: NodeId, path: PathBuf },
}

/// The file's content.
#[derive(Serialize, Deserialize)]
struct Record {
    name: String,
    cluster: u64,
    node: u64,
    /// Kept so that a founder that crashed before its first log entry founds the same cluster again.
    founders: Option<Vec<Founder>>,
    /// The log was begun, so a folder without one has lost it. Not said in files of earlier versions, whose nodes began
    /// theirs moments later.
    #[serde(default = "begun")]
    begun: bool,
}

fn begun() -> bool {
    true
}

#[derive(Clone, Serialize, Deserialize)]
struct Founder {
    node: u64,
    name: String,
    address: String,
}

const FILE: &str = "member.json";

/// Reads who we are, or becomes somebody.
pub async fn establish(
    config: &ServerConfig,
    connector: &dyn Connector,
) -> Result<Membership, IdentityError> {
    let path = config.data_dir.join(FILE);
    if let Some(record) = read(&path)? {
        if record.name != config.name {
            return Err(IdentityError::OtherName { path, found: record.name, name: config.name.clone() });
        }
        resume(config, connector, &record).await?;
        warn_of_other_founders(config, &record)?;
        return Ok(record.membership());
    }
    let backup = restored::read(&config.data_dir)?;
    let record = match &config.origin {
        Origin::Found { members, token } => {
            let record = found(&config.name, members, token, backup.as_ref());
            record.ask_founders(connector).await?;
            record
        }
        Origin::Join { .. } if backup.is_some() => return Err(IdentityError::RestoredJoins),
        Origin::Join { seeds } => {
            let newcomer = Newcomer { name: config.name.clone(), address: config.advertise_peer.clone() };
            let admission = joining::join(connector, seeds, &newcomer).await?;
            tracing::info!(node = %admission.node, cluster = %admission.cluster, "taken in by the cluster");
            let name = config.name.clone();
            Record {
                name,
                cluster: admission.cluster.0,
                node: admission.node.0,
                founders: None,
                begun: false,
            }
        }
    };
    write(&config.data_dir, &record)?;
    Ok(record.membership())
}

/// Refuses if the node's promises are lost (invariant S17).
async fn resume(
    config: &ServerConfig,
    connector: &dyn Connector,
    record: &Record,
) -> Result<(), IdentityError> {
    let path = &config.data_dir;
    if has_log(path).map_err(|source| IdentityError::Io { path: path.clone(), source })? {
        return Ok(());
    }
    if record.begun {
        return Err(IdentityError::LostLog { node: NodeId(record.node), path: path.clone() });
    }
    // It ended before it began its log. Or somebody put an old file back; the others may know.
    record.ask_founders(connector).await.map_err(Into::into)
}

/// What the cluster was founded with counts for good; other settings are most likely a mistake.
fn warn_of_other_founders(config: &ServerConfig, record: &Record) -> Result<(), IdentityError> {
    let (Origin::Found { members, token }, Some(_)) = (&config.origin, &record.founders) else {
        return Ok(());
    };
    // Alone, a node is most likely told nothing at all.
    let told = members.len() > 1;
    let backup = restored::read(&config.data_dir)?;
    if told && found(&config.name, members, token, backup.as_ref()).cluster != record.cluster {
        tracing::warn!(
            "--initial-cluster or --cluster-token are not those that the cluster was founded with; they are ignored. \
             Members are changed with etcdctl member add, update and remove"
        );
    }
    Ok(())
}

/// Remembers that the node has a log from now on. To be called when it is begun and before anything is promised in it.
pub fn log_begun(folder: &Path) -> Result<(), IdentityError> {
    match read(&folder.join(FILE))? {
        Some(record) if !record.begun => write(folder, &Record { begun: true, ..record }),
        _ => Ok(()),
    }
}

/// Every founder computes the same ids from the same list, so none has to wait for another.
fn found(name: &str, members: &BTreeMap<String, String>, token: &str, backup: Option<&BackupHash>) -> Record {
    let founders: Vec<Founder> = members
        .iter()
        .zip(1..)
        .map(|((name, address), node)| Founder { node, name: name.clone(), address: address.clone() })
        .collect();
    let mut hash = Sha256::new();
    hash.update(token.as_bytes());
    for founder in &founders {
        hash.update([0]);
        hash.update(founder.name.as_bytes());
        hash.update([1]);
        hash.update(founder.address.as_bytes());
    }
    if let Some(backup) = backup {
        hash.update([2]);
        hash.update(backup);
    }
    let digest = hash.finalize();
    let cluster = digest.first_chunk::<8>().map_or(1, |bytes| u64::from_be_bytes(*bytes));
    let node = founders.iter().find(|founder| founder.name == name).map_or(1, |founder| founder.node);
    Record { name: name.to_owned(), cluster, node, founders: Some(founders), begun: false }
}

impl Record {
    async fn ask_founders(&self, connector: &dyn Connector) -> Result<(), FoundingError> {
        let us = self.membership().identity;
        founding::check(connector, (us.cluster, us.member), self.other_founders()).await
    }

    fn other_founders(&self) -> Vec<founding::Founder> {
        let others = self.founders.iter().flatten().filter(|founder| founder.node != self.node);
        others
            .map(|founder| founding::Founder {
                node: NodeId(founder.node),
                name: founder.name.clone(),
                address: founder.address.clone(),
            })
            .collect()
    }

    fn membership(&self) -> Membership {
        let identity = Identity { cluster: ClusterId(self.cluster), member: NodeId(self.node) };
        let peer = |founder: &Founder| Peer { name: founder.name.clone(), address: founder.address.clone() };
        let founders = self.founders.as_ref().map(|founders| {
            founders.iter().map(|founder| (NodeId(founder.node), peer(founder))).collect::<BTreeMap<_, _>>()
        });
        Membership { identity, founders }
    }
}

fn read(path: &Path) -> Result<Option<Record>, IdentityError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| IdentityError::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(IdentityError::Io { path: path.to_owned(), source }),
    }
}

/// Durable before it is acted upon: a node that forgot its id would be given another.
fn write(folder: &Path, record: &Record) -> Result<(), IdentityError> {
    let (draft, path) = (folder.join("member.json.new"), folder.join(FILE));
    let bytes = serde_json::to_vec_pretty(record).map_err(io::Error::from);
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(&bytes?)?;
        file.sync_all()?;
        setpoint_failpoint::hit("member.before-rename");
        fs::rename(&draft, &path)?;
        setpoint_failpoint::hit("member.after-rename");
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| IdentityError::Io { path: path.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> BTreeMap<String, String> {
        ["a", "b", "c"].map(|name| (name.to_owned(), format!("{name}.example:7401"))).into()
    }

    #[test]
    fn founders_agree_on_the_cluster_and_differ_in_their_ids() {
        let records = ["a", "b", "c"].map(|name| found(name, &members(), "t", None).membership());
        assert!(records.iter().all(|record| record.founders == records[0].founders));
        assert!(records.iter().all(|record| record.identity.cluster == records[0].identity.cluster));
        assert_eq!(records.map(|record| record.identity.member.0), [1, 2, 3]);
        let other = found("a", &members(), "another token", None).membership();
        assert_ne!(other.identity.cluster, found("a", &members(), "t", None).membership().identity.cluster);
    }

    #[test]
    fn a_cluster_of_another_backup_is_another_cluster() {
        let of = |backup: Option<u8>| {
            let hash = backup.map(|byte| [byte; 32]);
            found("a", &members(), "t", hash.as_ref()).membership().identity.cluster
        };
        assert_eq!(of(Some(1)), of(Some(1)));
        assert_ne!(of(Some(1)), of(Some(2)));
        assert_ne!(of(Some(1)), of(None), "nor is it the cluster the backup was taken of");
    }

    #[test]
    fn an_identity_survives_and_a_damaged_one_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let record = found("b", &members(), "t", None);
        write(folder.path(), &record).expect("written");
        let path = folder.path().join(FILE);
        let again = read(&path).expect("readable").expect("there");
        assert_eq!(again.membership(), record.membership());
        assert!(!again.begun);
        log_begun(folder.path()).expect("written");
        assert!(read(&path).expect("readable").expect("there").begun);
        fs::write(&path, r#"{ "name": "b", "cluster": 1, "node": 2, "founders": null }"#).expect("written");
        assert!(read(&path).expect("readable").expect("there").begun, "earlier versions did not say");
        fs::write(&path, "{").expect("written");
        assert!(matches!(read(&path), Err(IdentityError::Damaged { .. })));
    }
}
