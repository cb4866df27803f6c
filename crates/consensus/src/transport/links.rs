//! The connections to each member. They follow a member when the membership gives it another address.
//!
//! openraft keeps the client it made for a member as long as a leadership lasts, so clients hold a name, not an
//! address: they look their link up here each time they need it.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::RPCTypes;
use openraft::error::{Timeout, Unreachable};
use parking_lot::Mutex;
use setpoint_api::setpoint::peer::v1::peer_client::PeerClient;
use setpoint_types::NodeId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tracing::{debug, info, warn};

use super::MESSAGE_BYTES_MAX;
use super::connector::{Connector, Lane};
use super::identity::Identity;
use super::reach::Reach;
use crate::config::Timing;
use crate::raft::{LogId, TypeConfig};

pub struct Links {
    identity: Identity,
    connector: Arc<dyn Connector>,
    timing: Timing,
    members: Mutex<HashMap<NodeId, Arc<Link>>>,
}

impl Links {
    pub fn new(identity: Identity, connector: Arc<dyn Connector>, timing: Timing) -> Self {
        Self { identity, connector, timing, members: Mutex::default() }
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Remembers where a member is. If it moved, the connections to its old address end.
    pub fn learn(&self, node: NodeId, address: &str) {
        let mut members = self.members.lock();
        let known = members.get(&node);
        if known.is_some_and(|link| link.address == address) {
            return;
        }
        let acknowledged = known.map(|link| Arc::clone(&link.acknowledged)).unwrap_or_default();
        if let Some(link) = known {
            debug!(node = %node, from = link.address, to = address, "a peer has moved");
            link.retired.cancel();
        }
        let link = Link {
            identity: self.identity.clone(),
            node,
            address: address.to_owned(),
            connector: Arc::clone(&self.connector),
            channels: Mutex::default(),
            retired: CancellationToken::new(),
            acknowledged,
            reach: Reach::default(),
            patience: self.timing.election_max,
        };
        members.insert(node, Arc::new(link));
    }

    /// Ends the connections to every node that `is_member` does not know.
    pub fn retain(&self, is_member: impl Fn(NodeId) -> bool) {
        self.members.lock().retain(|node, link| {
            let keep = is_member(*node);
            if !keep {
                link.retired.cancel();
            }
            keep
        });
    }

    pub fn get(&self, node: NodeId) -> Result<Arc<Link>, Unreachable<TypeConfig>> {
        self.members
            .lock()
            .get(&node)
            .cloned()
            .ok_or_else(|| Unreachable::from_string(format!("the address of node {node} is not known")))
    }

    /// Everybody we can talk to.
    pub fn all(&self) -> Vec<Arc<Link>> {
        self.members.lock().values().cloned().collect()
    }
}

/// A member at one address.
pub struct Link {
    identity: Identity,
    pub node: NodeId,
    address: String,
    connector: Arc<dyn Connector>,
    channels: Mutex<HashMap<Lane, Channel>>,
    /// Cancelled when the member has moved or left.
    pub retired: CancellationToken,
    pub acknowledged: Arc<Acknowledged>,
    reach: Reach,
    /// A peer with which nothing works for so long is reported.
    patience: Duration,
}

impl Link {
    pub fn client(&self, lane: Lane) -> Result<PeerClient<Channel>, Unreachable<TypeConfig>> {
        let mut channels = self.channels.lock();
        let channel = match channels.get(&lane) {
            Some(channel) => channel.clone(),
            None => {
                let channel =
                    self.connector.connect(&self.address, lane).map_err(|error| self.unreachable(&error))?;
                channels.insert(lane, channel.clone());
                channel
            }
        };
        Ok(PeerClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    pub fn us(&self) -> NodeId {
        self.identity.node
    }

    pub fn request<T>(&self, message: T) -> Request<T> {
        self.identity.request(self.node, message)
    }

    pub fn failed(&self, status: &Status) -> Unreachable<TypeConfig> {
        // The TLS library's way to say that the answer to its greeting was not TLS.
        let hint =
            if status.message().contains("InvalidContentType") { " (it does not speak TLS)" } else { "" };
        self.complain(&format!("{:?}: {}{hint}", status.code(), status.message()))
    }

    pub fn unreachable(&self, error: &dyn Error) -> Unreachable<TypeConfig> {
        self.complain(&error.to_string())
    }

    /// Every failure but a timeout comes through here.
    pub fn complain(&self, problem: &str) -> Unreachable<TypeConfig> {
        self.did_not_work(problem);
        Unreachable::from_string(format!("node {} at {}: {problem}", self.node, self.address))
    }

    pub fn timed_out(&self, action: RPCTypes, timeout: Duration) -> Timeout<TypeConfig> {
        self.did_not_work("it does not answer");
        Timeout { action, id: self.identity.node.0, target: self.node.0, timeout }
    }

    /// The peer answered.
    pub fn worked(&self) {
        if let Some(news) = self.reach.worked() {
            info!("node {} at {} {news}", self.node, self.address);
        }
    }

    fn did_not_work(&self, problem: &str) {
        if !self.retired.is_cancelled()
            && let Some(news) = self.reach.failed(self.patience, Instant::now())
        {
            warn!("node {} at {} {news}: {problem}", self.node, self.address);
        }
    }
}

/// How much of the log a peer has acknowledged to this node as the leader of one term.
///
/// A peer that later denies what it acknowledged has lost its data, say because its disk was replaced. openraft's
/// bookkeeping does not survive being told so. Such a peer is treated as unreachable until it is removed.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Term and index.
    last: Mutex<(u64, u64)>,
    denied: AtomicBool,
}

impl Acknowledged {
    pub fn note(&self, term: u64, last: LogId) {
        let mut known = self.last.lock();
        *known = (*known).max((term, last.index));
    }

    /// True if it ever acknowledged anything.
    pub fn any(&self) -> bool {
        *self.last.lock() != (0, 0)
    }

    /// True if a conflict at `previous` contradicts what was acknowledged.
    pub fn contradicts(&self, term: u64, previous: LogId) -> bool {
        let (known_term, index) = *self.last.lock();
        known_term == term && previous.index <= index
    }

    /// True the first time. The peer goes on denying for as long as it is asked, many times a second.
    pub fn is_first_denial(&self) -> bool {
        !self.denied.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_can_be_contradicted_in_its_term_and_is_news_once() {
        let at = |index| LogId { leader_id: 3.into(), index };
        let acknowledged = Acknowledged::default();
        assert!(!acknowledged.any() && !acknowledged.contradicts(3, at(1)));
        acknowledged.note(3, at(7));
        assert!(acknowledged.any() && acknowledged.contradicts(3, at(7)));
        assert!(!acknowledged.contradicts(3, at(8)) && !acknowledged.contradicts(4, at(7)));
        assert!(acknowledged.is_first_denial() && !acknowledged.is_first_denial());
    }
}
