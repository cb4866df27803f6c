//! More requests, streams and watches than a node takes: whoever sends them is told so, and nobody else notices.
//!
//! Clients come from different addresses of the loopback network, by which the node tells those apart that have not said
//! who they are. Requests are made slow by not sending their message, and not reading their answer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::setpoint::v1;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_api::status::{error_of, pushback_of};
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::metrics::Scrape;
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed, patiently};
use setpoint_cluster_tests::wire::{call, hang};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

const FLOOD: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];
/// From then on a seat may count as free although its request has not ended.
const HOLD: Duration = Duration::from_secs(30);

async fn bed(name: &'static str, arguments: &[&str]) -> (Testbed, Client, Client) {
    let bed = Testbed::start_with(name, Setup::of(1).with(arguments)).await;
    let address = bed.cluster.nodes()[0].client.clone();
    (bed, Client::from(FLOOD, &address), Client::from(OTHER, &address))
}

async fn metric(bed: &Testbed, series: &str) -> Option<f64> {
    Scrape::of(&bed.cluster.nodes()[0].http).await?.get(series)
}

/// Waits until the node shows these values.
async fn shows(bed: &Testbed, values: &[(&str, f64)]) {
    for (series, value) in values {
        bed.until(series, || async { metric(bed, series).await == Some(*value) }).await;
    }
}

const IDLE: [(&str, f64); 5] = [
    ("setpoint_seats_used{level=\"users\"}", 0.0),
    ("setpoint_requests_waiting{level=\"users\"}", 0.0),
    ("setpoint_seats_used{level=\"bulk\"}", 0.0),
    ("setpoint_client_open{what=\"streams\"}", 0.0),
    ("setpoint_client_open{what=\"watches\"}", 0.0),
];

fn namespace(name: &str, note: String) -> v1::CreateRequest {
    let annotations = [("note".to_owned(), note)].into();
    let metadata = v1::Metadata { name: name.into(), annotations, ..Default::default() };
    let object = v1::Object {
        kind: "Namespace".into(),
        metadata: Some(metadata),
        spec: "{}".into(),
        ..Default::default()
    };
    v1::CreateRequest { object: Some(object), options: None }
}

/// Everything that must go on, whatever else is asked of a node.
async fn signs_of_life(client: &Client, round: usize) {
    let lease = client.grant(3600).await.expect("a lease");
    assert!(client.keep_alive(lease).await.expect("kept alive") > 0);
    let acquire = v1::AcquireRequest {
        lease: format!("duty-{round}"),
        holder: "me".into(),
        ttl_seconds: 60,
        ..Default::default()
    };
    let held = client.coordination().acquire(acquire.clone()).await.expect("taken").into_inner();
    let keep = v1::KeepAliveRequest {
        lease: acquire.lease,
        holder: "me".into(),
        epoch: held.epoch,
        ..Default::default()
    };
    let answers = client.coordination().keep_alive(tokio_stream::once(keep)).await.expect("a stream");
    answers.into_inner().message().await.expect("answered").expect("an answer");
    let health = call(client, "/grpc.health.v1.Health/Check", Bytes::new()).await.expect("health");
    assert_eq!(&health[..], [8, 1], "serving");
    client.status().await.expect("its status");
}

/// Sends requests that hang until another one is refused.
async fn refused<T, F: Future<Output = Result<T, Status>>>(
    flood: &Client,
    stuck: &mut JoinSet<Status>,
    mut ask: impl FnMut() -> F,
) -> Status {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for _ in 0..4 {
            let flood = flood.clone();
            stuck.spawn(async move { hang(&flood, "/etcdserverpb.KV/Put").await });
        }
        match ask().await {
            Err(status) => return status,
            // The seats are taken in no particular order.
            Ok(_) => assert!(Instant::now() < deadline, "never refused"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_client_is_refused_and_leaves_leases_health_and_the_others_alone() {
    let limits = ["--max-requests", "2", "--max-waiting-requests", "4"];
    let (bed, flood, other) = bed("a_flood_of_one_client", &limits).await;
    patiently(|| flood.put("k", "before")).await;
    let mut stuck = JoinSet::new();
    for round in 0..3 {
        let status = refused(&flood, &mut stuck, || flood.put("k", "v")).await;
        assert_eq!(
            (status.code(), status.message()),
            (Code::ResourceExhausted, "etcdserver: too many requests")
        );
        assert!(pushback_of(&status).expect("a hint") > Duration::ZERO, "{status:?}");
        let create = || async {
            let name = format!("flood-{round}");
            flood.objects().create(namespace(&name, String::new())).await
        };
        let status = refused(&flood, &mut stuck, create).await;
        let error = error_of(&status).expect("an error for programs");
        assert_eq!((status.code(), error.reason()), (Code::ResourceExhausted, Reason::TooManyRequests));
        assert!(error.retry_after_ms > 0 && pushback_of(&status).is_some(), "{status:?}");
        assert!(status.message().contains("try again in"), "{status:?}");

        other.put("k", "other").await.expect("another client is served");
        other.get("k").await.expect("and may read");
        other.range(all()).await.expect("and list");
        signs_of_life(&flood, round).await;
        signs_of_life(&other, round + 10).await;
    }
    let turned_away = metric(&bed, "setpoint_requests_turned_away_total{level=\"users\"}").await;
    assert!(turned_away >= Some(6.0), "{turned_away:?}");
    // The clients vanish in the middle of it.
    stuck.shutdown().await;
    drop(flood);
    shows(&bed, &IDLE).await;
    let flood = Client::from(FLOOD, &bed.cluster.nodes()[0].client);
    flood.put("k", "after").await.expect("there is room again");
    shows(&bed, &IDLE).await;
    bed.no_panics();
}

fn all() -> pb::RangeRequest {
    pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() }
}

fn list() -> v1::ListRequest {
    v1::ListRequest { kind: "Namespace".into(), metadata_only: true, ..Default::default() }
}

async fn watch(client: &Client, initial_state: bool) -> Result<Streaming<v1::WatchResponse>, Status> {
    let request = v1::WatchRequest { kind: "Namespace".into(), initial_state, ..Default::default() };
    Ok(client.objects().watch(request).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_initial_state_has_a_seat_until_it_is_sent_and_lists_wait_for_their_turn() {
    let (bed, flood, other) = bed("an_initial_state_has_a_seat", &["--max-lists", "1"]).await;
    for number in 0..24 {
        let create = namespace(&format!("big-{number}"), "x".repeat(100 << 10));
        bed.clients[0].objects().create(create).await.expect("created");
    }
    // It is not read, and much larger than what fits between the two.
    let begun = Instant::now();
    // A connection of its own: what is not read stops everything else on it.
    let slow = Client::from(FLOOD, &bed.cluster.nodes()[0].client);
    let mut watching = watch(&slow, true).await.expect("a watch");
    let mut lists = JoinSet::new();
    let queued = flood.clone();
    lists.spawn(async move { queued.objects().list(list()).await.map(drop) });
    bed.until("the list waits for the watch", || async {
        let waiting = metric(&bed, "setpoint_requests_waiting{level=\"bulk\"}").await;
        // A machine so slow that the seat counts as free.
        waiting == Some(1.0) || begun.elapsed() > HOLD
    })
    .await;
    other.objects().list(list()).await.expect("another client is served");
    other.range(all()).await.expect("by every service");
    flood.put("k", "v").await.expect("writes are of another level");
    signs_of_life(&flood, 0).await;

    let mut objects = 0;
    loop {
        let answer = watching.message().await.expect("it goes on").expect("it does not end");
        objects += answer.events.iter().filter(|event| event.r#type() == Type::Added).count();
        if answer.events.iter().any(|event| event.initial_state_end) {
            break;
        }
    }
    assert!(objects >= 24, "{objects}");
    lists.join_next().await.expect("one").expect("no panic").expect("its turn has come");
    let one_watch = ("setpoint_client_open{what=\"watches\"}", 1.0);
    shows(&bed, &[("setpoint_seats_used{level=\"bulk\"}", 0.0), one_watch]).await;
    other.objects().create(namespace("late", String::new())).await.expect("created");
    let name = |event: v1::WatchEvent| event.object?.metadata.map(|metadata| metadata.name);
    loop {
        let answer = watching.message().await.expect("it goes on").expect("it does not end");
        if answer.events.into_iter().filter_map(name).any(|name| name == "late") {
            break;
        }
    }
    // Others vanish in the middle of their initial states.
    let vanishing = [watch(&other, true).await.expect("a watch"), watching];
    drop((vanishing, slow, flood, other));
    shows(&bed, &IDLE).await;
    bed.no_panics();
}

/// A stream of etcd's with a way to send on it.
async fn stream(
    client: &Client,
) -> Result<(mpsc::Sender<pb::WatchRequest>, Streaming<pb::WatchResponse>), Status> {
    let (send, requests) = mpsc::channel(8);
    Ok((send, client.watch().watch(ReceiverStream::new(requests)).await?.into_inner()))
}

async fn ask(
    stream: &mut (mpsc::Sender<pb::WatchRequest>, Streaming<pb::WatchResponse>),
    request: RequestUnion,
) -> pb::WatchResponse {
    stream.0.send(pb::WatchRequest { request_union: Some(request) }).await.expect("it is open");
    stream.1.message().await.expect("it goes on").expect("it does not end")
}

fn create() -> RequestUnion {
    RequestUnion::CreateRequest(pb::WatchCreateRequest { key: "k".into(), ..Default::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_so_many_streams_and_watches_and_no_more() {
    let limits = ["--max-watches-per-client", "3", "--max-streams-per-client", "4"];
    let (bed, flood, other) = bed("a_client_has_so_many_streams", &limits).await;
    let mut first = stream(&flood).await.expect("a stream");
    for _ in 0..3 {
        assert!(!ask(&mut first, create()).await.canceled);
    }
    let refused = ask(&mut first, create()).await;
    assert!(refused.created && refused.canceled, "{refused:?}");
    assert!(refused.cancel_reason.starts_with("etcdserver: too many requests; this client has 3 watches"));
    let Err(status) = watch(&flood, false).await else { panic!("a fourth watch") };
    let error = error_of(&status).expect("an error for programs");
    assert_eq!((status.code(), error.reason()), (Code::ResourceExhausted, Reason::TooManyRequests));
    assert!(error.message.contains("3 watches, its most") && error.retry_after_ms > 0, "{error:?}");
    let others = watch(&other, false).await.expect("another client has its own");
    // One less leaves room for one.
    let cancel = pb::WatchCancelRequest { watch_id: 0 };
    assert!(ask(&mut first, RequestUnion::CancelRequest(cancel)).await.canceled);
    let second = watch(&flood, false).await.expect("there is room");

    let more = [stream(&flood).await.expect("a third"), stream(&flood).await.expect("a fourth")];
    let Err(status) = stream(&flood).await else { panic!("a fifth stream") };
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "etcdserver: too many requests"));
    assert!(pushback_of(&status).is_some(), "{status:?}");
    signs_of_life(&flood, 0).await;
    stream(&other).await.expect("another client has its own");
    flood.put("k", "v").await.expect("requests are not streams");
    assert!(first.1.message().await.expect("it goes on").is_some_and(|answer| !answer.events.is_empty()));

    // Keep-alives have a bound, too.
    let mut alive = Vec::new();
    let status = loop {
        let (send, requests) = mpsc::channel(1);
        match flood.lease().lease_keep_alive(ReceiverStream::new(requests)).await {
            Ok(answers) => alive.push((send, answers)),
            Err(status) => break status,
        }
        assert!(alive.len() <= 4, "unbounded");
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let counted = metric(&bed, "setpoint_client_open_refused_total{what=\"signs\"}").await;
    assert_eq!(counted, Some(1.0));
    drop((first, second, more, others, alive, flood, other));
    shows(&bed, &IDLE).await;
    shows(&bed, &[("setpoint_client_open{what=\"signs\"}", 0.0)]).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_too_large_says_so_to_every_client() {
    let (bed, client, _) = bed("a_request_that_is_too_large", &[]).await;
    let status = client.objects().create(namespace("huge", "x".repeat(3 << 20))).await.expect_err("refused");
    let error = error_of(&status).expect("an error for programs");
    assert_eq!((status.code(), error.reason()), (Code::ResourceExhausted, Reason::TooLarge));
    assert!(error.message.contains("--max-request-bytes"), "{error:?}");
    let large = namespace("large", "x".repeat(1900 << 10));
    let status = client.objects().create(large).await.expect_err("refused");
    let error = error_of(&status).expect("an error for programs");
    assert!(matches!(error.reason(), Reason::TooLarge | Reason::Invalid), "{error:?}");
    let status = client.put("k", &"x".repeat(1900 << 10)).await.expect_err("refused");
    assert_eq!(status.message(), "etcdserver: request is too large");
    assert_eq!(client.get("k").await.expect("read"), None, "nothing was changed");
    bed.no_panics();
}
