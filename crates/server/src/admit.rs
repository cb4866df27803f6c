//! Lets requests in: before anything of one is read, it needs a seat, and if it is a stream, a place.
//!
//! | requests | of which level | hold their seat until |
//! |---|---|---|
//! | health, keep-alives | none: they are never kept waiting | |
//! | leases, locks, elections | `System` | they are answered, or begin to wait for somebody else |
//! | writes | the client's | they are answered |
//! | reads | the client's | the answer is sent |
//! | lists, streamed ranges, hashes; large ranges and initial states, as their services find out | `Bulk` | it is sent |
//! | opening a stream | the client's | it is open |
//!
//! A seat costs an ordinary request no allocation and no copy: what is wrapped is what may last.
//!
//! Not here: whose turn it is (`access`), who asks (what is known of that is in the request's extensions), and what services
//! do with a seat (`apiserver::load`).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::Either;
use http::{Extensions, Request, Response};
use http_body::Frame;
use pin_project_lite::pin_project;
use setpoint_access::{Admission, Full, Level, Permit, Principal, Seats, Share, TooMany};
use setpoint_apiserver::etcd::error::{EtcdError, too_many};
use setpoint_apiserver::load::{self, Load, Seat};
use setpoint_apiserver::objects::Refusal;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

/// What a request is, as far as it is known by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Method {
    level: Option<Of>,
    hold: Hold,
    lasts: Option<Lasting>,
}

/// What decides the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    System,
    /// Who asks.
    Client,
    Bulk,
}

/// How long a seat is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Answered,
    Sent,
    /// Its service may give it back, or keep it longer.
    Lent,
    /// Likewise, and in any case until the answer is sent.
    LentSent,
}

/// Streams, and what else lasts for as long as its client likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasting {
    Stream,
    /// Others take it for a sign of life.
    Sign,
}

impl Method {
    fn of(path: &str) -> Self {
        let request = |level, hold| Self { level: Some(level), hold, lasts: None };
        let stream = |level, hold| Self { lasts: Some(Lasting::Stream), ..request(level, hold) };
        let exempt = Self { level: None, hold: Hold::Answered, lasts: None };
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return request(Of::Client, Hold::Answered);
        };
        match (service, method) {
            ("etcdserverpb.KV", "Put" | "DeleteRange") => request(Of::Client, Hold::Answered),
            ("etcdserverpb.KV", "Range") => request(Of::Client, Hold::LentSent),
            ("setpoint.v1.Objects", "List") | ("setpoint.v1.Ledgers", "List" | "Reservations") => {
                request(Of::Bulk, Hold::Sent)
            }
            ("etcdserverpb.KV", "Txn")
            | ("setpoint.v1.Objects", "Get" | "History" | "Kinds")
            | ("setpoint.v1.Ledgers", _) => request(Of::Client, Hold::Sent),
            ("setpoint.v1.Objects", "Watch") => stream(Of::Client, Hold::Lent),
            ("etcdserverpb.Watch", _) => stream(Of::Client, Hold::Answered),
            // They wait for an agent, or for what its client says first.
            ("setpoint.v1.Sessions", _) => stream(Of::Client, Hold::Lent),
            ("etcdserverpb.KV", "RangeStream") => stream(Of::Bulk, Hold::Sent),
            ("etcdserverpb.Maintenance", "Hash" | "HashKV") => request(Of::Bulk, Hold::Answered),
            ("etcdserverpb.Lease", "LeaseKeepAlive")
            | ("setpoint.v1.Coordination", "KeepAlive")
            | ("grpc.health.v1.Health", "Watch") => Self { lasts: Some(Lasting::Sign), ..exempt },
            ("grpc.health.v1.Health", _) | ("etcdserverpb.Maintenance", "Status") => exempt,
            // Has a bound of its own, and works at its client's pace.
            ("etcdserverpb.Maintenance", "Snapshot") | ("grpc.reflection.v1.ServerReflection", _) => {
                Self { lasts: Some(Lasting::Stream), ..exempt }
            }
            // What makes room comes before what takes it.
            ("setpoint.v1.Placement", "Release") => request(Of::System, Hold::Answered),
            ("setpoint.v1.Coordination", "Acquire") => request(Of::System, Hold::Lent),
            ("v3lockpb.Lock", "Lock") | ("v3electionpb.Election", "Campaign") => {
                stream(Of::System, Hold::Lent)
            }
            ("v3electionpb.Election", "Observe") => stream(Of::System, Hold::Answered),
            (
                "etcdserverpb.Lease" | "setpoint.v1.Coordination" | "v3lockpb.Lock" | "v3electionpb.Election",
                _,
            ) => request(Of::System, Hold::Answered),
            _ => request(Of::Client, Hold::Answered),
        }
    }
}

#[derive(Clone)]
pub struct AdmitLayer(pub Load);

impl<S> Layer<S> for AdmitLayer {
    type Service = Admit<S>;

    fn layer(&self, inner: S) -> Admit<S> {
        Admit { inner, load: self.0.clone() }
    }
}

#[derive(Clone)]
pub struct Admit<S> {
    inner: S,
    load: Load,
}

type Later<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<S> Service<Request<Body>> for Admit<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Seated<S::Future>, Later<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = Method::of(request.uri().path());
        let place = match self.place(method, request.extensions()) {
            Ok(place) => place,
            Err(full) => return refused(no_place(request.uri().path(), full)),
        };
        let Some(of) = method.level else {
            return Either::Left(Seated::call(&mut self.inner, request, method.hold, None, place));
        };
        let level = level(of, request.extensions());
        match self.load.flow.ask(level, load::client(request.extensions()), Seats(1)) {
            Admission::Granted(permit) => {
                Either::Left(Seated::call(&mut self.inner, request, method.hold, Some(permit), place))
            }
            Admission::Refused(too_many) => refused(no_seat(request.uri().path(), too_many)),
            Admission::Waiting(waiter) => {
                // What was found to be ready is what has to be called.
                let clone = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, clone);
                Either::Right(Box::pin(async move {
                    match waiter.wait().await {
                        Ok(permit) => {
                            Seated::call(&mut inner, request, method.hold, Some(permit), place).await
                        }
                        Err(too_many) => Ok(no_seat(request.uri().path(), too_many).into_http()),
                    }
                }))
            }
        }
    }
}

impl<S> Admit<S> {
    fn place(&self, method: Method, extensions: &Extensions) -> Result<Option<Share>, Full> {
        let tally = match method.lasts {
            None => return Ok(None),
            Some(Lasting::Stream) => &self.load.streams,
            Some(Lasting::Sign) => &self.load.signs,
        };
        let mut share = tally.share(load::client(extensions));
        share.grow()?;
        Ok(Some(share))
    }
}

fn level(of: Of, extensions: &Extensions) -> Level {
    match of {
        Of::System => Level::System,
        Of::Bulk => Level::Bulk,
        Of::Client => extensions.get::<Principal>().map_or(Level::Users, Level::of),
    }
}

fn refused<F, E: Send + 'static>(status: Status) -> Either<F, Later<Response<Body>, E>> {
    Either::Right(Box::pin(std::future::ready(Ok(status.into_http()))))
}

/// Ours is the only contract with an error of its own; everybody else knows etcd's words.
fn is_ours(path: &str) -> bool {
    path.starts_with("/setpoint.")
}

fn no_seat(path: &str, refused: TooMany) -> Status {
    if is_ours(path) { Refusal::from(refused).into() } else { too_many(refused) }
}

fn no_place(path: &str, full: Full) -> Status {
    let refusal = Refusal::full(full, "open streams", "max-streams");
    if is_ours(path) {
        return refusal.into();
    }
    let wait_ms = refusal.error().retry_after_ms;
    setpoint_api::status::with_pushback(EtcdError::TooManyRequests.into(), wait_ms)
}

pin_project! {
    /// A request that was let in, on its way to its answer.
    pub struct Seated<F> {
        #[pin]
        answer: F,
        hold: Hold,
        held: Held,
    }
}

/// What a request has.
#[derive(Default)]
struct Held {
    permit: Option<Permit>,
    lent: Option<Seat>,
    place: Option<Share>,
}

impl<F> Seated<F> {
    fn call<S>(
        inner: &mut S,
        mut request: Request<Body>,
        hold: Hold,
        permit: Option<Permit>,
        place: Option<Share>,
    ) -> Self
    where
        S: Service<Request<Body>, Future = F>,
    {
        let mut held = Held { permit, lent: None, place };
        if matches!(hold, Hold::Lent | Hold::LentSent) {
            held.lent = held.permit.take().map(Seat::new);
            if let Some(seat) = &held.lent {
                request.extensions_mut().insert(seat.clone());
            }
        }
        Self { answer: inner.call(request), hold, held }
    }
}

impl<F, E> Future for Seated<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(context));
        let mut held = std::mem::take(this.held);
        if matches!(this.hold, Hold::Answered | Hold::Lent) {
            (held.permit, held.lent) = (None, None);
        }
        let nothing = held.permit.is_none() && held.lent.is_none() && held.place.is_none();
        let keep = |body: Body| if body_ended(&body) { body } else { Body::new(Kept { body, held }) };
        Poll::Ready(if nothing { answer } else { answer.map(|response| response.map(keep)) })
    }
}

/// A refusal is all in the headers.
fn body_ended(body: &Body) -> bool {
    http_body::Body::is_end_stream(body)
}

/// An answer that holds something until it is sent, or nobody wants it any more.
struct Kept {
    body: Body,
    held: Held,
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() {
            self.held = Held::default();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::IpAddr;

    use setpoint_access::{FlowKey, FlowOptions, TallyOptions};
    use setpoint_apiserver::load::LoadOptions;
    use tower::ServiceExt;

    use super::*;

    #[test]
    fn signs_of_life_are_never_kept_waiting_and_nothing_unknown_is_exempt() {
        for path in [
            "/grpc.health.v1.Health/Check",
            "/grpc.health.v1.Health/Watch",
            "/etcdserverpb.Lease/LeaseKeepAlive",
            "/setpoint.v1.Coordination/KeepAlive",
            "/etcdserverpb.Maintenance/Status",
        ] {
            assert_eq!(Method::of(path).level, None, "{path}");
        }
        for path in
            ["/etcdserverpb.Lease/LeaseGrant", "/setpoint.v1.Coordination/Acquire", "/v3lockpb.Lock/Lock"]
        {
            assert_eq!(Method::of(path).level, Some(Of::System), "{path}");
        }
        for path in
            ["/", "", "/etcdserverpb.KV/Put", "/etcdserverpb.KV/Invented", "/x/y/z", "grpc.health.v1.Health/"]
        {
            assert_eq!(Method::of(path).level, Some(Of::Client), "{path}");
        }
    }

    fn load() -> Load {
        let streams = TallyOptions { client_max: 2, max: 3 };
        Load::new(LoadOptions {
            flow: FlowOptions::sized(1, 1, 0),
            streams,
            watches: streams,
            sessions: streams,
        })
    }

    async fn answer(load: &Load, path: &str) -> Response<Body> {
        let echo = tower::service_fn(|request: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let body = Body::new(tonic::body::Body::new(Silence));
        let request = Request::builder().uri(path).body(body).expect("a path");
        AdmitLayer(load.clone()).layer(echo).oneshot(request).await.expect("it cannot fail")
    }

    /// A body that never ends by itself.
    struct Silence;

    impl http_body::Body for Silence {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Pending
        }
    }

    fn status(answer: &Response<Body>) -> Option<Status> {
        Status::from_header_map(answer.headers())
    }

    #[tokio::test]
    async fn a_read_holds_its_seat_until_it_is_sent_and_a_write_until_it_is_answered() {
        let load = load();
        let seats = || load.flow.counts(Level::Users).seats_used;
        let _write = answer(&load, "/etcdserverpb.KV/Put").await;
        assert_eq!(seats(), 0);
        let read = answer(&load, "/etcdserverpb.KV/Range").await;
        assert_eq!(seats(), 1);
        for (path, reason) in [
            ("/etcdserverpb.KV/Put", "etcdserver: too many requests"),
            ("/setpoint.v1.Objects/Create", "too many requests; try again in "),
        ] {
            let refused = status(&answer(&load, path).await).expect("refused");
            assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
            assert!(refused.message().starts_with(reason), "{refused:?}");
            assert!(setpoint_api::status::pushback_of(&refused).is_some(), "{refused:?}");
        }
        let lease = answer(&load, "/etcdserverpb.Lease/LeaseGrant").await;
        assert!(status(&lease).is_none(), "leases have seats of their own");
        drop(read);
        assert_eq!(seats(), 0);
        assert!(status(&answer(&load, "/etcdserverpb.KV/Put").await).is_none());
    }

    #[tokio::test]
    async fn streams_have_places_and_keep_alives_have_others() {
        let load = load();
        let watch = "/etcdserverpb.Watch/Watch";
        let open = [answer(&load, watch).await, answer(&load, watch).await];
        assert!(open.iter().all(|answer| status(answer).is_none()));
        assert_eq!(load.flow.counts(Level::Users).seats_used, 0, "an open stream needs no seat");
        let refused = status(&answer(&load, watch).await).expect("refused");
        assert_eq!(refused.message(), EtcdError::TooManyRequests.text());
        let refused = status(&answer(&load, "/setpoint.v1.Objects/Watch").await).expect("refused");
        assert!(refused.message().contains("2 open streams, its most"), "{refused:?}");
        assert!(status(&answer(&load, "/setpoint.v1.Coordination/KeepAlive").await).is_none());
        let mut other = load.streams.share(FlowKey::Address(IpAddr::from([10, 0, 0, 1])));
        assert_eq!((other.grow(), other.grow()), (Ok(()), Err(Full::Node(3))));
        drop(open);
        assert_eq!(load.streams.counts().open, 1);
    }
}
