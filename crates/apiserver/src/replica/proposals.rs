//! Who waits for the verdict of which proposal.
//!
//! A verdict arrives when this node applies the command, whoever led. A waiter that gave up is forgotten at once, so the
//! table never holds more than the requests in flight.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_consensus::Refusal;
use setpoint_store::Verdict;
use setpoint_store::command::{Proposal, ProposalId};
use setpoint_types::NodeId;
use tokio::sync::oneshot;

pub struct Proposals {
    node: NodeId,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
}

/// What became of a proposal.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Applied(Verdict),
    /// It was certainly not proposed.
    Refused(Refusal),
}

/// An answer to come. Dropping it forgets the waiter.
pub struct Waiter {
    proposals: Arc<Proposals>,
    sequence: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Proposals {
    /// `first` must differ between lives of the node, so that a verdict of an earlier life finds no waiter here.
    pub fn new(node: NodeId, first: u64) -> Arc<Self> {
        Arc::new(Self { node, next: AtomicU64::new(first), waiting: Mutex::default() })
    }

    pub fn register(self: &Arc<Self>) -> (ProposalId, Waiter) {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(sequence, sender);
        let waiter = Waiter { proposals: self.clone(), sequence, answer };
        (ProposalId { node: self.node, sequence }, waiter)
    }

    pub fn resolve(&self, verdicts: Vec<(ProposalId, Verdict)>) {
        if verdicts.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        for (id, verdict) in verdicts {
            if let Some(waiter) = waiting.remove(&id.sequence) {
                // A closed receiver is a client that left.
                let _ = waiter.send(Answer::Applied(verdict));
            }
        }
    }

    /// A command came back from consensus unproposed.
    pub fn refuse(&self, command: Bytes, reason: Refusal) {
        let Ok(proposal) = Proposal::decode(command) else { return };
        if proposal.id.node == self.node
            && let Some(waiter) = self.waiting.lock().remove(&proposal.id.sequence)
        {
            let _ = waiter.send(Answer::Refused(reason));
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }
}

impl Future for Waiter {
    type Output = Result<Answer, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.proposals.waiting.lock().remove(&self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_store::Response;
    use setpoint_store::command::Command;
    use setpoint_types::Revision;

    use super::*;

    fn verdict() -> Verdict {
        Ok(Response::Compact { revision: Revision::INITIAL })
    }

    #[tokio::test]
    async fn a_verdict_reaches_its_waiter_and_only_once() {
        let proposals = Proposals::new(NodeId(1), 100);
        let (first, waiter) = proposals.register();
        let (second, other) = proposals.register();
        proposals.resolve(vec![(first, verdict()), (first, Err(setpoint_store::Rejection::KeyNotFound))]);
        assert_eq!(waiter.await.expect("answered"), Answer::Applied(verdict()));
        assert_eq!(proposals.waiting(), 1);
        let command = Proposal { id: second, command: Command::Compact { revision: 1 } }.encode();
        proposals.refuse(command, Refusal::NotLeader);
        assert_eq!(other.await.expect("answered"), Answer::Refused(Refusal::NotLeader));
    }

    #[test]
    fn a_waiter_that_left_is_forgotten() {
        let proposals = Proposals::new(NodeId(1), 0);
        drop(proposals.register());
        assert_eq!(proposals.waiting(), 0);
    }
}
