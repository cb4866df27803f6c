//! One agent's answer to the question for a log, line by line.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::exit::Exit;
use crate::failure::Failure;

/// Which lines of which replica.
pub struct LogRequest {
    pub namespace: String,
    pub replica: String,
    pub follow: bool,
    pub tail: Option<u64>,
    /// In milliseconds since 1970.
    pub since: Option<u64>,
    pub timestamps: bool,
    pub token: Option<String>,
}

/// Lines, each with the replica it is of.
pub type Lines = Pin<Box<dyn Stream<Item = (String, Result<String, Failure>)> + Send>>;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Longer lines are broken: an agent breaks them long before.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Of an answer that is no log.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Asks for a log. An answer is the beginning of it, or why there is none.
pub async fn open(node: &str, address: &str, request: LogRequest) -> Result<Lines, Failure> {
    let unreachable = |cause: String| {
        let text = format!(
            "the agent of node/{node} cannot be reached at {address}: {cause}. Logs come from the agents: run this where they can be \
             reached, or start the agent with --listen-http and --advertise-host that suit"
        );
        Failure::new(Exit::Unreachable, text)
    };
    let stream = timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await;
    let stream = stream
        .map_err(|_| unreachable("no answer".to_owned()))?
        .map_err(|error| unreachable(error.to_string()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(error.to_string()))?;
    // Ends with the answer, or when nobody reads it any more.
    tokio::spawn(connection);
    let answer = sender.send_request(question(address, &request)?).await;
    let answer = answer.map_err(|error| unreachable(error.to_string()))?;
    match answer.status() {
        StatusCode::OK => Ok(lines(request.replica, answer, sender)),
        status => Err(refused(node, status, answer).await),
    }
}

fn question(address: &str, request: &LogRequest) -> Result<Request<Empty<Bytes>>, Failure> {
    let mut query = format!("follow={}&timestamps={}", request.follow, request.timestamps);
    if let Some(tail) = request.tail {
        query.push_str(&format!("&tail={tail}"));
    }
    if let Some(since) = request.since {
        query.push_str(&format!("&sinceMs={since}"));
    }
    // Names of objects need no escaping in a path.
    let path = format!("/v1/logs/{}/{}?{query}", request.namespace, request.replica);
    let mut question = Request::get(path).header("host", address);
    if let Some(token) = &request.token {
        question = question.header("authorization", format!("Bearer {token}"));
    }
    question
        .body(Empty::new())
        .map_err(|error| Failure::usage(format!("the agents' token cannot be sent: {error}")))
}

async fn refused(node: &str, status: StatusCode, answer: Response<Incoming>) -> Failure {
    let mut said = Vec::new();
    let mut body = answer.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        said.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
        if said.len() > REFUSAL_BYTES_MAX {
            break;
        }
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    match status {
        StatusCode::UNAUTHORIZED => {
            let text =
                format!("the agent of node/{node} asks for its token: name the file with --agent-token-file");
            Failure::new(Exit::Forbidden, text)
        }
        StatusCode::NOT_FOUND => Failure::new(Exit::NotFound, format!("node/{node}: {said}")),
        StatusCode::TOO_MANY_REQUESTS => Failure::new(Exit::Unreachable, format!("node/{node}: {said}")),
        status => Failure::failed(format!("the agent of node/{node} answered {status}: {said}")),
    }
}

/// What an unfold carries from line to line. The sender keeps the connection open.
struct Reading {
    body: Incoming,
    rest: Vec<u8>,
    over: bool,
    _sender: http1::SendRequest<Empty<Bytes>>,
}

fn lines(replica: String, answer: Response<Incoming>, sender: http1::SendRequest<Empty<Bytes>>) -> Lines {
    let reading = Reading { body: answer.into_body(), rest: Vec::new(), over: false, _sender: sender };
    let lines = futures::stream::unfold(reading, |mut reading| async move {
        let line = reading.next().await?;
        Some((line, reading))
    });
    lines.map(move |line| (replica.clone(), line)).boxed()
}

impl Reading {
    async fn next(&mut self) -> Option<Result<String, Failure>> {
        loop {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let full = self.rest.len() >= LINE_BYTES_MAX;
            if let Some(end) = end.or_else(|| full.then(|| self.rest.len() - 1)) {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(Ok(text(&line)));
            }
            if self.over {
                let last = std::mem::take(&mut self.rest);
                return (!last.is_empty()).then(|| Ok(text(&last)));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    self.rest.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default())
                }
                None => self.over = true,
                Some(Err(error)) => {
                    self.over = true;
                    self.rest.clear();
                    return Some(Err(Failure::new(
                        Exit::Unreachable,
                        format!("the log was cut: {error}; ask again with --since"),
                    )));
                }
            }
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned()
}
