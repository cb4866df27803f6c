//! The leader's end of a forward stream.

use std::pin::pin;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::forward_request::Body as Request;
use setpoint_types::NodeId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::message;
use crate::error::CallError;
use crate::node::Node;
use crate::propose::Origin;

/// Questions of one follower that are being answered. Beyond, nothing more is read from its stream.
const ANSWERING_MAX: usize = 256;
const REPLIES_AHEAD: usize = 64;

type Replies = mpsc::Sender<Result<proto::ForwardReply, Status>>;

/// Serves one follower until it ends the stream, is removed or the node stops. Of one that is removed nothing more is read
/// (invariant S15); what it had asked before, perhaps for its own removal, is still answered.
pub fn serve(
    node: Node,
    from: NodeId,
    requests: Streaming<proto::ForwardRequest>,
) -> ReceiverStream<Result<proto::ForwardReply, Status>> {
    let (replies, stream) = mpsc::channel(REPLIES_AHEAD);
    let shutdown = node.shutdown_token();
    let task = run(node.clone(), from, requests, replies);
    node.spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = task => {}
        }
    });
    ReceiverStream::new(stream)
}

async fn run(node: Node, from: NodeId, requests: Streaming<proto::ForwardRequest>, replies: Replies) {
    let mut requests = pin!(requests.take_until(node.until_removed(from)));
    let (refusals, mut refused) = mpsc::channel(REPLIES_AHEAD);
    node.authority().listen_to(from, refusals.downgrade());
    let mut answering: FuturesUnordered<BoxFuture<'static, proto::ForwardReply>> = FuturesUnordered::new();
    loop {
        let reply = tokio::select! {
            () = replies.closed() => return,
            Some(reply) = answering.next(), if !answering.is_empty() => Some(reply),
            Some(reply) = refused.recv() => Some(reply),
            request = requests.next(), if answering.len() < ANSWERING_MAX => match request {
                Some(Ok(proto::ForwardRequest { body: Some(Request::Submit(submit)) })) => {
                    take(&node, submit, &refusals)
                }
                Some(Ok(proto::ForwardRequest { body: Some(Request::Call(call)) })) => {
                    answering.push(answer(node.clone(), from, call));
                    None
                }
                Some(Ok(proto::ForwardRequest { body: Some(Request::Pledge(proto::Pledge { round, term })) })) => {
                    node.authority().hear(from, round, term);
                    None
                }
                Some(Ok(proto::ForwardRequest { body: None })) => None,
                None if requests.is_stopped() => break,
                None | Some(Err(_)) => return,
            },
        };
        if let Some(reply) = reply
            && replies.send(Ok(reply)).await.is_err()
        {
            return;
        }
    }
    let last_answers = async {
        while let Some(reply) = answering.next().await
            && replies.send(Ok(reply)).await.is_ok()
        {}
    };
    tokio::select! {
        () = replies.closed() => {}
        () = last_answers => {}
    }
}

/// Queues the commands; returns those that were not taken.
fn take(
    node: &Node,
    submit: proto::Submit,
    refusals: &mpsc::Sender<proto::ForwardReply>,
) -> Option<proto::ForwardReply> {
    let origin = Origin::Remote(refusals.downgrade());
    let mut commands = submit.commands.into_iter();
    while let Some(command) = commands.next() {
        if let Err(reason) = node.take_forwarded(command.clone(), origin.clone()) {
            // The others would hardly fare better, and the order is kept.
            return Some(message::refused(reason, std::iter::once(command).chain(commands).collect()));
        }
    }
    None
}

fn answer(node: Node, from: NodeId, call: proto::Call) -> BoxFuture<'static, proto::ForwardReply> {
    Box::pin(async move {
        let outcome = match message::read_question(call.question) {
            Some(question) => node.answer(question, node.mandate(from, call.pledged)).await,
            None => Err(CallError::Broken),
        };
        message::answer(call.id, outcome)
    })
}
