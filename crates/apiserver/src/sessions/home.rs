//! Which replica is meant, and on which node it is.
//!
//! A replica never changes its node, so this node's own copy is enough where it has one: logs can be read while the cluster has no
//! leader. Only what is not here is looked for once more behind a barrier.

use prost::Message;
use serde::Deserialize;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_store::LeaseName;
use setpoint_store::command::Range;
use setpoint_types::KeyRange;

use crate::coordination::{LeaseMoment, lease_moment};
use crate::objects::reader::blocking;
use crate::objects::{Reader, Refusal};

pub const REPLICA: &str = "Replica";
pub const NODE: &str = "Node";
/// Where the leases of nodes are.
const LEASES: &str = "setpoint-system";

/// A replica that has a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub namespace: String,
    pub replica: String,
    pub uid: String,
    pub node: String,
}

/// What of a replica's status matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    node: String,
}

/// The namespace that a request means.
pub fn namespace(named: &str) -> &str {
    if named.is_empty() { "default" } else { named }
}

/// Where a replica is.
pub async fn find(reader: &Reader, namespace: &str, replica: &str) -> Result<Home, Refusal> {
    if let Ok(home) = look(reader, namespace, replica).await {
        return Ok(home);
    }
    reader.barrier.pass().await?;
    look(reader, namespace, replica).await
}

async fn look(reader: &Reader, namespace: &str, replica: &str) -> Result<Home, Refusal> {
    let key =
        pb::ObjectKey { kind: REPLICA.into(), namespace: namespace.to_owned(), name: replica.to_owned() };
    let name = reader.object_name(&key)?;
    let (store, range) = (reader.store.clone(), Range::latest(KeyRange::Single(name.key())));
    let found = blocking(move || store.range(&range)).await?;
    let found = found.map_err(|failure| reader.read_failure(failure))?.kvs.pop();
    let object = found.and_then(|kv| pb::Object::decode(kv.value).ok());
    let object = object.ok_or_else(|| Refusal::not_found(name))?;
    let status: Status = serde_json::from_slice(&object.status).unwrap_or_default();
    if status.node.is_empty() {
        let text = format!(
            "replica/{replica} has no node yet, and has written nothing; `setpoint describe replica/{replica}` says what it waits for"
        );
        return Err(Refusal::new(Reason::NotFound, text).about(name));
    }
    let uid = object.metadata.unwrap_or_default().uid;
    let (namespace, replica) = (name.namespace.to_owned(), replica.to_owned());
    Ok(Home { namespace, replica, uid, node: status.node })
}

/// Whether the lease of a node is held at this epoch: by whoever may speak for the node.
pub async fn check_epoch(reader: &Reader, node: &str, epoch: u64) -> Result<(), Refusal> {
    if epoch_of(reader, node).await?.held == Some(epoch) {
        return Ok(());
    }
    reader.barrier.pass().await?;
    match epoch_of(reader, node).await?.held {
        Some(held) if held == epoch => Ok(()),
        _ => {
            let text = format!("the lease of node/{node} is not held at epoch {epoch}; take it first");
            Err(Refusal::new(Reason::Fenced, text))
        }
    }
}

async fn epoch_of(reader: &Reader, node: &str) -> Result<LeaseMoment, Refusal> {
    let (store, lease) = (reader.store.clone(), LeaseName::new(LEASES, format!("node-{node}")));
    let read = blocking(move || lease_moment(&store, &lease)).await?;
    read.map_err(|failure| reader.read_failure(failure))
}
