//! Running a command in a replica.

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::exec_request::Request as Asks;
use setpoint_api::setpoint::v1::exec_response::Response as Says;
use setpoint_api::setpoint::v1::sessions_client::SessionsClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{CHUNK_BYTES, Sessions, failed};
use crate::call::Call;
use crate::error::Error;
use crate::pool::Slot;

/// A replica that was found, in which nothing was run yet.
pub struct Exec {
    input: ExecInput,
    output: ExecOutput,
}

/// What is told to a command. Dropped before [`ExecInput::end`], it counts as the end.
pub struct ExecInput {
    requests: mpsc::Sender<pb::ExecRequest>,
}

/// What a command says. Dropped, it ends the command.
pub struct ExecOutput {
    answers: Streaming<pb::ExecResponse>,
    call: Call,
    /// Counts as a request while it lasts.
    _slot: Slot,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    Output(Bytes),
    Errors(Bytes),
    /// It has ended with this code; 128 and the signal's number if a signal ended it. Nothing of it is left.
    End(u32),
}

impl Sessions {
    /// Finds a replica to run a command in. Nothing is run before [`Exec::run`], so this is tried again as reads are.
    pub async fn exec(&self, replica: &str) -> Result<Exec, Error> {
        let home = self.client.home();
        let call = Call::read("exec", format!("Replica {}/{replica}", home.name())).apart();
        let open = pb::ExecOpen { namespace: home.name().to_owned(), replica: replica.to_owned() };
        let opened = self.client.open(&call, open, |wire, request| async move {
            // The command waits behind the beginning; after that one message is under way at a time.
            let (sender, receiver) = mpsc::channel(2);
            let request = request.map(|open| {
                // There is room for two.
                let _ = sender.try_send(pb::ExecRequest { request: Some(Asks::Open(open)) });
                ReceiverStream::new(receiver)
            });
            let answer = SessionsClient::new(wire).exec(request).await?;
            Ok((sender, answer.into_inner()))
        });
        let ((requests, answers), slot) = opened.await?;
        Ok(Exec { input: ExecInput { requests }, output: ExecOutput { answers, call, _slot: slot } })
    }
}

impl Exec {
    /// Runs a command, once: if this client does not learn what came of it, it may have been run. Its standard input is empty unless
    /// it is interactive.
    pub async fn run(self, command: &[String], interactive: bool) -> (ExecInput, ExecOutput) {
        let run = Asks::Run(pb::ExecCommand { command: command.to_vec(), interactive });
        // If it is over already, the output says why.
        let _ = self.input.send(run).await;
        (self.input, self.output)
    }
}

impl ExecInput {
    /// Waits until there is room for it. False: the command takes no more.
    pub async fn write(&self, mut bytes: Bytes) -> bool {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
            if !self.send(Asks::Input(chunk)).await {
                return false;
            }
        }
        true
    }

    pub async fn end(self) {
        let _ = self.send(Asks::InputEnd(pb::InputEnd {})).await;
    }

    async fn send(&self, request: Asks) -> bool {
        self.requests.send(pb::ExecRequest { request: Some(request) }).await.is_ok()
    }
}

impl ExecOutput {
    /// What comes next. After [`ExecEvent::End`] nothing does.
    ///
    /// Safe to drop and call again: nothing is lost.
    pub async fn next(&mut self) -> Result<ExecEvent, Error> {
        loop {
            match self.answers.message().await {
                Ok(Some(answer)) => match answer.response {
                    Some(Says::Output(bytes)) => return Ok(ExecEvent::Output(bytes)),
                    Some(Says::Errors(bytes)) => return Ok(ExecEvent::Errors(bytes)),
                    Some(Says::End(end)) => return Ok(ExecEvent::End(end.code)),
                    // Of a newer server; what it means, only a newer client knows.
                    None => {}
                },
                Ok(None) => return Err(self.call.unreadable("it ends without saying how the command ended")),
                Err(status) => return Err(failed(&self.call, status)),
            }
        }
    }
}
