//! The agent's end of a session: a call of Serve whose word was found.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::serve_request::Request as FromAgent;
use setpoint_api::setpoint::v1::serve_response::Response as ToAgent;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tonic::Status;

use crate::objects::Refusal;

/// What an agent sends.
pub type Requests = BoxStream<'static, Result<pb::ServeRequest, Status>>;

/// How long an agent may take to begin with what it was asked for.
pub const AGENT_PATIENCE: Duration = Duration::from_secs(5);

/// One session. Dropped, it is over for the agent, too.
pub struct Session {
    pub node: String,
    pub requests: Requests,
    pub answers: mpsc::Sender<pb::ServeResponse>,
    /// Of the agent's sessions.
    pub permit: OwnedSemaphorePermit,
}

impl Session {
    /// Tells the agent what is wanted, and waits until it has it.
    pub async fn begin(&mut self, wanted: ToAgent) -> Result<(), Refusal> {
        let begun = async {
            tell(&self.answers, wanted).await.map_err(|_| broken_off(&self.node))?;
            match next(&mut self.requests, &self.node).await? {
                FromAgent::Ready(_) => Ok(()),
                _ => Err(broken_off(&self.node)),
            }
        };
        timeout(AGENT_PATIENCE, begun).await.unwrap_or_else(|_| Err(silent(&self.node)))
    }
}

/// To the agent; an error if it is gone.
pub async fn tell(answers: &mpsc::Sender<pb::ServeResponse>, message: ToAgent) -> Result<(), Gone> {
    answers.send(pb::ServeResponse { response: Some(message) }).await.map_err(|_| Gone)
}

/// Nobody is there any more.
pub struct Gone;

/// The next message of the agent. That it cannot do it, and that it broke off, are refusals.
pub async fn next(requests: &mut Requests, node: &str) -> Result<FromAgent, Refusal> {
    match requests.next().await {
        Some(Ok(pb::ServeRequest { request: Some(FromAgent::Refused(error)) })) => {
            Err(Refusal::new(error.reason(), format!("node/{node}: {}", error.message)))
        }
        Some(Ok(pb::ServeRequest { request: Some(request) })) => Ok(request),
        _ => Err(broken_off(node)),
    }
}

pub fn broken_off(node: &str) -> Refusal {
    let text = format!(
        "the agent of node/{node} broke off; what it was asked for is over there, too. Ask again once it is back"
    );
    Refusal::new(Reason::Unavailable, text)
}

pub fn silent(node: &str) -> Refusal {
    let text = format!(
        "the agent of node/{node} is attached here and does not answer; try again, or look at its log"
    );
    Refusal::new(Reason::Unavailable, text)
}
