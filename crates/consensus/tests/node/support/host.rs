//! The process around a node, as far as a test cares: it takes notes, echoes calls and lets everybody join.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use setpoint_consensus::{
    Admission, FatalError, Host, LeaderService, Mandate, Member, Newcomer, Node, Peer, Refusal,
    ServiceRefusal,
};
use setpoint_types::NodeId;

#[derive(Default)]
pub struct TestHost {
    pub refused: Mutex<Vec<(Bytes, Refusal)>>,
    pub fatal: Mutex<Option<FatalError>>,
}

impl TestHost {
    /// True if `command` was refused; it is as if it had not been, afterwards.
    pub fn forget_refusal(&self, command: &Bytes) -> bool {
        let mut refused = self.refused.lock();
        let at = refused.iter().position(|(refused, _)| refused == command);
        at.map(|at| refused.swap_remove(at)).is_some()
    }
}

impl Host for TestHost {
    fn refused(&self, command: Bytes, reason: Refusal) {
        self.refused.lock().push((command, reason));
    }

    fn has_met(&self, _node: NodeId) -> bool {
        false
    }

    fn fatal(&self, failure: FatalError) {
        *self.fatal.lock() = Some(failure);
    }
}

impl LeaderService for TestHost {
    /// Answers with who answered. "no" is refused; "never" is not answered.
    fn call(
        &self,
        node: &Node,
        request: Bytes,
        _mandate: Mandate,
    ) -> BoxFuture<'static, Result<Bytes, ServiceRefusal>> {
        let id = node.id();
        async move {
            match &request[..] {
                b"no" => Err(ServiceRefusal::Final("the answer is no".to_owned())),
                b"never" => std::future::pending().await,
                request => Ok([format!("{id}:").as_bytes(), request].concat().into()),
            }
        }
        .boxed()
    }

    fn join(&self, node: &Node, newcomer: Newcomer) -> BoxFuture<'static, Result<Admission, ServiceRefusal>> {
        let node = node.clone();
        async move {
            let id = node.next_id();
            let peer = Peer { name: newcomer.name, address: newcomer.address };
            node.add_learner(id, peer).await.map_err(|error| ServiceRefusal::Final(error.to_string()))?;
            let status = node.status().borrow().clone();
            let member = |(node, member): (_, setpoint_consensus::MemberStatus)| Member {
                node,
                peer: member.peer,
                voter: member.voter,
            };
            let members = status.members.into_iter().map(member).collect();
            Ok(Admission { cluster: node.cluster(), node: id, members })
        }
        .boxed()
    }
}
