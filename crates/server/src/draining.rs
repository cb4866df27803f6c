//! What a stop means for requests: what would never end by itself is ended at once, with the answer that sends its client
//! elsewhere; every other request is counted, so that the stop can wait for the last one.
//!
//! Not here: the order in which a node is taken apart (`node`).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use setpoint_apiserver::etcd::error::EtcdError;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

/// What lasts for as long as its client, or another one, likes: streams, and waiting for a lock or an office.
const ENDLESS: [&str; 13] = [
    "/setpoint.v1.Objects/Watch",
    "/setpoint.v1.Coordination/KeepAlive",
    "/setpoint.v1.Sessions/Logs",
    "/setpoint.v1.Sessions/Exec",
    "/setpoint.v1.Sessions/Attach",
    "/setpoint.v1.Sessions/Serve",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/v3lockpb.Lock/Lock",
    "/v3electionpb.Election/Campaign",
    "/v3electionpb.Election/Observe",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

#[derive(Clone)]
pub struct DrainLayer {
    /// Cancelled when the node begins to stop.
    pub stopping: CancellationToken,
    /// Holds a token for every request that is to be finished.
    pub requests: TaskTracker,
}

impl<S> Layer<S> for DrainLayer {
    type Service = Drain<S>;

    fn layer(&self, inner: S) -> Drain<S> {
        Drain { inner, layer: self.clone() }
    }
}

#[derive(Clone)]
pub struct Drain<S> {
    inner: S,
    layer: DrainLayer,
}

impl<S> Service<Request<Body>> for Drain<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let endless = ENDLESS.contains(&request.uri().path());
        let answer = self.inner.call(request);
        if !endless {
            let until = Until::Sent(self.layer.requests.token());
            return Box::pin(async move { Ok(answer.await?.map(|body| Body::new(Watched { body, until }))) });
        }
        let stopping = self.layer.stopping.clone();
        Box::pin(async move {
            let Some(answer) = stopping.run_until_cancelled(answer).await else {
                return Ok(Status::from(EtcdError::Stopped).into_http());
            };
            let until = Until::Stop(Box::pin(stopping.cancelled_owned()));
            Ok(answer?.map(|body| Body::new(Watched { body, until })))
        })
    }
}

/// How long an answer lasts.
enum Until {
    Stop(Pin<Box<WaitForCancellationFutureOwned>>),
    /// Held until the last of it was handed over to the connection.
    Sent(#[expect(dead_code, reason = "held for its drop")] TaskTrackerToken),
    Ended,
}

struct Watched {
    body: Body,
    until: Until,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let stopped = match &mut self.until {
            Until::Stop(stop) => stop.as_mut().poll(context).is_ready(),
            Until::Sent(_) => false,
            Until::Ended => return Poll::Ready(None),
        };
        if stopped {
            // Each frame holds whole messages, so an answer may end after any of them.
            self.until = Until::Ended;
            self.body = Body::empty();
            return Poll::Ready(Some(Ok(Frame::trailers(farewell()))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() {
            self.until = Until::Ended;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self.until {
            Until::Ended => true,
            Until::Stop(_) | Until::Sent(_) => self.body.is_end_stream(),
        }
    }
}

/// What etcd's clients take as: go on at another endpoint.
fn farewell() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // Fails only for a text that no header can carry, and this one is ours.
    let _ = Status::from(EtcdError::Stopped).add_header(&mut trailers);
    trailers
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use http_body::Body as _;
    use tower::ServiceExt;

    use super::*;

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

    async fn answer(layer: &DrainLayer, path: &str) -> Body {
        let silent = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::new(Silence)))
        });
        let request = Request::builder().uri(path).body(Body::empty()).expect("a path");
        layer.layer(silent).oneshot(request).await.expect("it cannot fail").into_body()
    }

    #[tokio::test]
    async fn a_stop_ends_endless_streams_and_leaves_other_requests_alone() {
        let layer = DrainLayer { stopping: CancellationToken::new(), requests: TaskTracker::new() };
        let mut watch = answer(&layer, "/etcdserverpb.Watch/Watch").await;
        let mut backup = answer(&layer, "/etcdserverpb.Maintenance/Snapshot").await;
        assert_eq!(layer.requests.len(), 1, "a stop waits for the backup and not for the watch");
        layer.stopping.cancel();
        let frame = poll_fn(|context| Pin::new(&mut watch).poll_frame(context)).await;
        let trailers = frame.expect("a frame").expect("not a failure").into_trailers().expect("the last one");
        assert_eq!(trailers.get("grpc-status").expect("a status"), "14");
        assert!(poll_fn(|context| Pin::new(&mut watch).poll_frame(context)).await.is_none());
        let unfinished = poll_fn(|context| Poll::Ready(Pin::new(&mut backup).poll_frame(context))).await;
        assert!(unfinished.is_pending());
        drop(backup);
        assert!(layer.requests.is_empty());
    }

    #[tokio::test]
    async fn a_stop_ends_waiting_for_a_lock() {
        let layer = DrainLayer { stopping: CancellationToken::new(), requests: TaskTracker::new() };
        let waiting = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<_, Infallible>>());
        let request = Request::builder().uri("/v3lockpb.Lock/Lock").body(Body::empty()).expect("a path");
        let answer = tokio::spawn(layer.layer(waiting).oneshot(request));
        layer.stopping.cancel();
        let answer = answer.await.expect("it does not panic").expect("it cannot fail");
        assert_eq!(answer.headers().get("grpc-status").expect("a status"), "14");
    }
}
