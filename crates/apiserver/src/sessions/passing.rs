//! Logs and commands on their way between a client and an agent, as fast as they are taken.
//!
//! What goes to the client is pulled from the agent by the client's own reading: a client that does not read leaves it at the
//! agent. What goes to the agent is one message at a time. Either side's end is the other's; so is the end of a right (A13).

use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt, unfold};
use setpoint_access::{Need, Share};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::exec_request::Request as FromClient;
use setpoint_api::setpoint::v1::exec_response::Response as ToClient;
use setpoint_api::setpoint::v1::serve_request::Request as FromAgent;
use setpoint_api::setpoint::v1::serve_response::Response as ToAgent;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use super::home::Home;
use super::session::{Gone, Requests, Session, broken_off, next, tell};
use crate::access::{Caller, Gate, Standing};
use crate::objects::Refusal;

/// What a stream is allowed for, for as long as it lasts.
pub struct Allowed {
    pub standing: Standing,
    pub needs: Box<dyn Fn() -> Vec<Need> + Send + Sync>,
}

impl Allowed {
    /// Resolves once it is so no longer.
    async fn lost(&mut self) -> Refusal {
        self.standing.lost(&self.needs).await.into()
    }

    fn check_again(&mut self) -> Result<(), Refusal> {
        Ok(self.standing.check_again(&self.needs)?)
    }
}

/// How long a client may take to say the next thing it has to say.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// Of a command with its arguments.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// What an agent sends, while it is allowed to be read.
struct Outputs {
    node: String,
    requests: Requests,
    allowed: Allowed,
    /// Why the other direction has failed.
    failed: Option<oneshot::Receiver<Refusal>>,
    _place: Share,
    _permit: OwnedSemaphorePermit,
    /// Ends the other direction.
    _over: Option<DropGuard>,
}

impl Outputs {
    async fn next(&mut self) -> Result<FromAgent, Refusal> {
        loop {
            let failed = async {
                match &mut self.failed {
                    Some(failed) => failed.await,
                    None => std::future::pending().await,
                }
            };
            let message = tokio::select! {
                // In this order: that the other direction has failed is why the agent ends.
                biased;
                refusal = self.allowed.lost() => return Err(refusal),
                failed = failed => match failed {
                    Ok(refusal) => return Err(refusal),
                    Err(_) => {
                        self.failed = None;
                        continue;
                    }
                },
                message = next(&mut self.requests, &self.node) => message?,
            };
            self.allowed.check_again()?;
            return Ok(message);
        }
    }
}

/// What a client reads of a log.
pub fn logs(
    session: Session,
    allowed: Allowed,
    place: Share,
) -> impl Stream<Item = Result<pb::LogsResponse, Status>> + Send {
    let Session { node, requests, answers, permit } = session;
    let outputs =
        Outputs { node, requests, allowed, failed: None, _place: place, _permit: permit, _over: None };
    // The agent's side of it stays open as long as somebody reads.
    unfold(Some((outputs, answers)), |state| async move {
        let (mut outputs, answers) = state?;
        match outputs.next().await {
            Ok(FromAgent::Output(text)) => Some((Ok(pb::LogsResponse { text }), Some((outputs, answers)))),
            Ok(FromAgent::End(_)) => None,
            Ok(_) => Some((Err(broken_off(&outputs.node).into()), None)),
            Err(refusal) => Some((Err(refusal.into()), None)),
        }
    })
}

/// A command that a client may run.
pub struct Exec {
    pub home: Home,
    pub gate: Gate,
    pub caller: Caller,
    pub client: BoxStream<'static, Result<pb::ExecRequest, Status>>,
    /// For each direction.
    pub allowed: [Allowed; 2],
    pub place: Share,
}

/// What a client reads of a command.
pub fn exec(exec: Exec, session: Session) -> impl Stream<Item = Result<pb::ExecResponse, Status>> + Send {
    let Exec { home, gate, caller, client, allowed: [reads, writes], place } = exec;
    let Session { node, requests, answers, permit } = session;
    let (fails, failed) = oneshot::channel();
    let over = CancellationToken::new();
    let inputs = Inputs { home, gate, caller, client, answers, allowed: writes };
    tokio::spawn(inputs.run(over.clone(), fails));
    let outputs = Outputs {
        node,
        requests,
        allowed: reads,
        failed: Some(failed),
        _place: place,
        _permit: permit,
        _over: Some(over.drop_guard()),
    };
    unfold(Some(outputs), |state| async move {
        let mut outputs = state?;
        let (answer, is_last) = match outputs.next().await {
            Ok(FromAgent::Output(bytes)) => (Ok(ToClient::Output(bytes)), false),
            Ok(FromAgent::Errors(bytes)) => (Ok(ToClient::Errors(bytes)), false),
            Ok(FromAgent::End(end)) => (Ok(ToClient::End(end)), true),
            Ok(_) => (Err(broken_off(&outputs.node)), true),
            Err(refusal) => (Err(refusal), true),
        };
        let answer = answer.map(|it| pb::ExecResponse { response: Some(it) }).map_err(Status::from);
        Some((answer, (!is_last).then_some(outputs)))
    })
}

/// What a client sends.
struct Inputs {
    home: Home,
    gate: Gate,
    caller: Caller,
    client: BoxStream<'static, Result<pb::ExecRequest, Status>>,
    answers: mpsc::Sender<pb::ServeResponse>,
    allowed: Allowed,
}

/// Why nothing more is passed on.
enum Stop {
    Refused(Refusal),
    /// Nobody is left to be told.
    Gone,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl Inputs {
    /// Until the session is over. If this ends before, the agent ends it.
    async fn run(mut self, over: CancellationToken, fails: oneshot::Sender<Refusal>) {
        let stopped = over.run_until_cancelled(async {
            match self.pass_on().await {
                Ok(never) => match never {},
                Err(stop) => stop,
            }
        });
        if let Some(Stop::Refused(refusal)) = stopped.await {
            // It may have ended by itself.
            let _ = fails.send(refusal);
        }
    }

    async fn pass_on(&mut self) -> Result<std::convert::Infallible, Stop> {
        let first = timeout(CLIENT_PATIENCE, self.next()).await;
        let run = match first {
            Ok(Ok(Some(FromClient::Run(run)))) => run,
            Ok(Err(stop)) => return Err(stop),
            _ => return Err(Refusal::invalid("request", "must be `run` after `open`, at once").into()),
        };
        check_command(&run.command)?;
        let Home { namespace, replica, .. } = &self.home;
        let pass = self.gate.enter(&self.caller, "", || vec![Need::exec(namespace, replica, &run.command)]);
        // Written down before it is run.
        pass.map_err(Refusal::from)?.begun().await;
        self.tell(ToAgent::Run(run)).await?;
        loop {
            let message = match self.next().await? {
                Some(FromClient::Input(bytes)) => ToAgent::Input(bytes),
                Some(FromClient::InputEnd(end)) => ToAgent::InputEnd(end),
                Some(_) => {
                    return Err(Refusal::invalid("request", "must be `input` or `input_end` now").into());
                }
                // It has said everything, and goes on listening.
                None => {
                    self.tell(ToAgent::InputEnd(pb::InputEnd {})).await?;
                    return Err(self.allowed.lost().await.into());
                }
            };
            self.tell(message).await?;
        }
    }

    /// What the client says next; none if it has said everything.
    async fn next(&mut self) -> Result<Option<FromClient>, Stop> {
        let message = tokio::select! {
            refusal = self.allowed.lost() => return Err(refusal.into()),
            message = self.client.next() => message,
        };
        match message {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(message.request.ok_or(Stop::Gone)?)),
            Some(Err(_)) => Err(Stop::Gone),
        }
    }

    async fn tell(&mut self, message: ToAgent) -> Result<(), Stop> {
        tokio::select! {
            refusal = self.allowed.lost() => Err(refusal.into()),
            told = tell(&self.answers, message) => Ok(told?),
        }
    }
}

fn check_command(command: &[String]) -> Result<(), Refusal> {
    if command.first().is_none_or(String::is_empty) {
        return Err(Refusal::invalid("run.command", "must name a program"));
    }
    let bytes: usize = command.iter().map(|word| word.len() + 1).sum();
    if bytes > COMMAND_BYTES_MAX {
        let text = format!("run.command has {bytes} bytes, the most is {COMMAND_BYTES_MAX}");
        return Err(Refusal::new(Reason::TooLarge, text));
    }
    if command.iter().any(|word| word.contains('\0')) {
        return Err(Refusal::invalid("run.command", "has a zero byte, which no program can be given"));
    }
    Ok(())
}
