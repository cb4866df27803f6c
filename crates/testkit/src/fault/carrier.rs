//! What carries the requests of one process, and what happens to them on the way.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::status::refused;
use setpoint_client::{Wire, WireError};
use tokio::time::{Instant, sleep};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{ServiceExt, service_fn};

use super::faults::Faults;
use super::frames::{self, Whole};
use super::plan::Fault;
use super::process::Life;
use super::stream;

/// On the way to the server. Whoever asks without end at least lets time pass.
const LATENCY: Duration = Duration::from_millis(1);
/// What a server under load tells its clients.
const RETRY_AFTER: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct Carrier {
    pub faults: Faults,
    pub life: Life,
    server: Wire,
}

type Answer = Result<Response<Body>, WireError>;

/// What a method does, as far as faults tell them apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Read,
    Write,
    Watch,
    KeepAlive,
}

impl Sort {
    fn of(path: &str) -> Self {
        match path.rsplit('/').next() {
            Some("Watch") => Self::Watch,
            Some("KeepAlive") => Self::KeepAlive,
            Some("Get" | "List" | "History" | "Kinds" | "Holders" | "Reservations") => Self::Read,
            // What is not known is taken for the more delicate.
            _ => Self::Write,
        }
    }
}

impl Carrier {
    pub fn new(faults: Faults, life: Life, server: Wire) -> Self {
        Self { faults, life, server }
    }

    pub fn into_wire(self) -> Wire {
        Wire::new(service_fn(move |request| self.clone().carry(request)))
    }

    async fn carry(self, request: Request<Body>) -> Answer {
        if self.life.is_silent() {
            return std::future::pending().await;
        }
        self.faults.count_request();
        let life = self.life.clone();
        let answered = async {
            sleep(LATENCY).await;
            let answer = match Sort::of(request.uri().path()) {
                Sort::Write => self.write(request).await,
                Sort::Read => self.read(request).await,
                Sort::Watch => self.open(request, true).await,
                Sort::KeepAlive => self.open(request, false).await,
            };
            sleep(self.faults.wrong().slow).await;
            answer
        };
        tokio::select! {
            biased;
            () = life.ended() => std::future::pending().await,
            answer = answered => answer,
        }
    }

    async fn write(&self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let message = frames::collect(body).await.map_err(WireError::new)?;
        let fault = self.faults.count_write();
        if let Some(answer) = self.turned_away() {
            return answer;
        }
        if fault == Some(Fault::LoseRequest) {
            return Err(lost());
        }
        // In a task of its own: what was sent is done, whatever becomes of the sender.
        let performed = tokio::spawn(self.clone().perform(parts, message, fault));
        match performed.await {
            Ok(Some(answer)) => answer,
            Ok(None) => std::future::pending().await,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(lost()),
        }
    }

    /// None: nobody hears of it.
    async fn perform(self, parts: Parts, message: Bytes, fault: Option<Fault>) -> Option<Answer> {
        self.faults.thawed().await;
        if let Some(Fault::Late(time)) = fault {
            sleep(time).await;
        }
        let answer = self.send(&parts, message.clone()).await;
        match fault {
            Some(Fault::Late(_)) => None,
            Some(Fault::LoseAnswer) => Some(Err(lost())),
            Some(Fault::CrashBeforeAnswer) => {
                self.life.end();
                None
            }
            Some(Fault::CrashAfterAnswer) => {
                self.life.end_after_answer();
                Some(answer)
            }
            Some(Fault::Duplicate(after)) => {
                tokio::spawn(async move {
                    sleep(after).await;
                    self.send(&parts, message).await
                });
                Some(answer)
            }
            _ => Some(answer),
        }
    }

    async fn read(&self, request: Request<Body>) -> Answer {
        self.faults.thawed().await;
        if let Some(answer) = self.turned_away() {
            return answer;
        }
        let lag = self.faults.wrong().lag;
        if lag.is_zero() {
            return self.server.clone().oneshot(request).await;
        }
        let (parts, body) = request.into_parts();
        let mut message = frames::collect(body).await.map_err(WireError::new)?;
        let log = self.faults.world().log();
        let then = Instant::now().checked_sub(lag).map(|then| log.revision_at(then)).unwrap_or_default();
        // What is compacted, no node has.
        let oldest = log.store.compacted().max(1) as u64;
        let revision = then.max(setpoint_types::Revision::new(oldest));
        if let Some(older) = frames::made_older(parts.uri.path(), &message, revision) {
            message = older;
        }
        self.send(&parts, message).await
    }

    async fn open(&self, request: Request<Body>, is_watch: bool) -> Answer {
        self.faults.thawed().await;
        if let Some(answer) = self.turned_away() {
            return answer;
        }
        if is_watch && self.faults.wrong().missing_until > Instant::now() {
            return Err(lost());
        }
        if !is_watch {
            let answer = self.server.clone().oneshot(request).await?;
            return Ok(answer.map(|body| stream::carried(self.clone(), body, None)));
        }
        let (parts, body) = request.into_parts();
        let message = frames::collect(body).await.map_err(WireError::new)?;
        let late = self.faults.late(&frames::watched(&message));
        let answer = self.send(&parts, message).await?;
        Ok(answer.map(|body| stream::carried(self.clone(), body, Some(late))))
    }

    async fn send(&self, parts: &Parts, message: Bytes) -> Answer {
        let request = Request::from_parts(parts.clone(), Whole::body(message));
        self.server.clone().oneshot(request).await
    }

    /// What a request gets that does not even come in.
    fn turned_away(&self) -> Option<Answer> {
        let (wrong, now) = (self.faults.wrong(), Instant::now());
        if wrong.gone_until > now {
            return Some(Err(lost()));
        }
        let error = pb::Error {
            reason: pb::Reason::TooManyRequests.into(),
            message: "the server is asked for more than it can do".to_owned(),
            retry_after_ms: u32::try_from(RETRY_AFTER.as_millis()).unwrap_or(u32::MAX),
            ..pb::Error::default()
        };
        (wrong.refusing_until > now).then(|| Ok(refused(Code::ResourceExhausted, &error).into_http()))
    }
}

fn lost() -> WireError {
    WireError::new(Status::unavailable("the connection broke"))
}
