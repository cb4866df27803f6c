//! Who calls whom, in which cluster: stamped on every call, checked before its first message is read.
//!
//! A node whose address was given to another one, or a node of another cluster, must never be taken for a member: its
//! votes and acknowledgements would count. Not here: whether the caller may be believed, which is TLS's business.

use setpoint_types::{ClusterId, NodeId};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Request, Status};

const CLUSTER: &str = "setpoint-cluster";
const FROM: &str = "setpoint-from";
const TO: &str = "setpoint-to";

#[derive(Clone, Debug)]
pub struct Identity {
    pub cluster: ClusterId,
    pub node: NodeId,
}

impl Identity {
    /// A request from this node to `to`.
    pub fn request<T>(&self, to: NodeId, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert(CLUSTER, hexadecimal(self.cluster.0));
        metadata.insert(FROM, hexadecimal(self.node.0));
        metadata.insert(TO, hexadecimal(to.0));
        request
    }

    /// The caller, if it is another node of this cluster and means this node.
    pub fn admit(&self, metadata: &MetadataMap) -> Result<NodeId, Status> {
        let cluster = ClusterId(read(metadata, CLUSTER)?);
        if cluster != self.cluster {
            let message = format!("this is a node of cluster {}, not of {cluster}", self.cluster);
            return Err(Status::failed_precondition(message));
        }
        let to = NodeId(read(metadata, TO)?);
        if to != self.node {
            let message = format!("this is node {}, not {to}; the address of {to} is out of date", self.node);
            return Err(Status::failed_precondition(message));
        }
        let from = NodeId(read(metadata, FROM)?);
        if from == self.node {
            return Err(Status::failed_precondition(format!(
                "this is node {from} itself; the id is used twice"
            )));
        }
        Ok(from)
    }
}

fn hexadecimal(number: u64) -> MetadataValue<Ascii> {
    format!("{number:x}").parse().expect("hexadecimal digits are valid in a header")
}

fn read(metadata: &MetadataMap, key: &'static str) -> Result<u64, Status> {
    let text = metadata.get(key).and_then(|value| value.to_str().ok());
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(|| {
        Status::failed_precondition(format!("the call has no readable {key}; is the caller a peer?"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(cluster: u64, node: u64) -> Identity {
        Identity { cluster: ClusterId(cluster), node: NodeId(node) }
    }

    #[test]
    fn only_another_node_of_the_cluster_that_means_us_is_admitted() {
        let us = identity(0xabc, 2);
        let check = |caller: Identity, to: u64| us.admit(caller.request(NodeId(to), ()).metadata());
        assert_eq!(check(identity(0xabc, 1), 2).expect("a peer"), NodeId(1));
        for (caller, to, complaint) in [
            (identity(0xabd, 1), 2, "cluster abc"),
            (identity(0xabc, 1), 3, "this is node 2, not 3"),
            (identity(0xabc, 2), 2, "used twice"),
        ] {
            let status = check(caller, to).expect_err("not a peer");
            assert!(status.message().contains(complaint), "{status:?}");
        }
        let mut unreadable = MetadataMap::new();
        unreadable.insert(CLUSTER, "xyz".parse().expect("valid header text"));
        assert!(us.admit(&unreadable).is_err());
    }
}
