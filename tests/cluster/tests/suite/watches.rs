//! Watches of objects when something goes wrong: a node that is cut off, a client that does not read, a time that is up.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::fold::Fold;
use setpoint_cluster_tests::object::{THING, define_things, exactly, object, options, settled};
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed, patiently};
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

type Answers = Streaming<pb::WatchResponse>;

const BOOKMARKS_MS: u32 = 200;
/// Many times that.
const SILENCE: Duration = Duration::from_millis(2_500);

async fn put(clients: &[Client], name: &str, note: &str) -> u64 {
    let thing = object(THING, name, &format!(r#"{{"note":"{note}"}}"#));
    let request =
        pb::ApplyRequest { object: Some(thing), options: options("test", ""), ..Default::default() };
    let done = settled(clients, |client| {
        let request = request.clone();
        async move { client.objects().apply(request).await.map(tonic::Response::into_inner) }
    });
    done.await.expect("applied").write.unwrap_or_default().revision
}

fn request(from_revision: u64) -> pb::WatchRequest {
    pb::WatchRequest {
        kind: THING.into(),
        from_revision,
        initial_state: from_revision == 0,
        bookmark_interval_ms: BOOKMARKS_MS,
        ..Default::default()
    }
}

async fn watch(client: &Client, request: pb::WatchRequest) -> Answers {
    patiently(|| async { Ok(client.objects().watch(request.clone()).await?.into_inner()) }).await
}

/// Reads until it has come to a revision.
async fn read_to(fold: &mut Fold, answers: &mut Answers, revision: u64) {
    let reading = async {
        while fold.at < revision {
            let answer = answers.message().await.expect("the watch goes on").expect("and does not end");
            let ended = fold.take(answer).unwrap_or_else(|problem| panic!("{problem}"));
            assert!(ended.is_none(), "{ended:?}");
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it comes to the revision");
}

/// What a fold has is what a node lists.
async fn agree(fold: &Fold, client: &Client) {
    let (mut listed, mut token) = (Vec::new(), String::new());
    loop {
        let page = patiently(|| async {
            let (at, token) = (exactly(fold.at), token.clone());
            let request = pb::ListRequest { kind: THING.into(), at, r#continue: token, ..Default::default() };
            Ok(client.objects().list(request).await?.into_inner())
        });
        let page = page.await;
        listed.extend(page.objects);
        token = page.r#continue;
        if token.is_empty() {
            break;
        }
    }
    fold.compare(listed).unwrap_or_else(|problem| panic!("{problem}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_at_a_node_that_is_cut_off_falls_silent_and_goes_on_elsewhere() {
    let bed = Testbed::start("a_watch_at_a_node_that_is_cut_off").await;
    define_things(&bed.clients).await;
    for leads in [false, true] {
        let (leader, _) = bed.leader().await;
        let node = if leads { leader } else { (leader + 1) % 3 };
        let others: Vec<Client> =
            (0..3).filter(|other| *other != node).map(|other| bed.clients[other].clone()).collect();
        let before = put(&bed.clients, "first", &format!("{leads}")).await;
        let (mut fold, mut answers) = (Fold::default(), watch(&bed.clients[node], request(0)).await);
        read_to(&mut fold, &mut answers, before).await;

        bed.mesh.split(&[node]);
        let alone = || async { bed.clients[node].status().await.is_ok_and(|status| status.leader == 0) };
        bed.until("the node knows that it has no leader", alone).await;
        let mut last = 0;
        for name in ["a", "b", "c"] {
            last = put(&others, name, &format!("while cut off: {leads}")).await;
        }
        // What was under way arrives, then nothing: no event, and no bookmark either.
        let deadline = Instant::now() + PATIENCE;
        while let Ok(answer) = tokio::time::timeout(SILENCE, answers.message()).await {
            let answer = answer.expect("the stream stays").expect("and does not end");
            assert_eq!(fold.take(answer), Ok(None));
            assert!(Instant::now() < deadline, "the stream does not fall silent");
        }
        assert!(fold.at < last, "nobody could have told it");
        // Whoever noticed goes on at another node, from where it was.
        let mut elsewhere = Fold::default();
        let mut started = watch(&bed.clients[node], at_cached()).await;
        read_to(&mut elsewhere, &mut started, fold.at).await;
        let mut resumed = watch(&others[0], request(elsewhere.at)).await;
        read_to(&mut elsewhere, &mut resumed, last).await;
        agree(&elsewhere, &others[1]).await;
        // And who waited misses nothing.
        bed.mesh.heal();
        read_to(&mut fold, &mut answers, last).await;
        agree(&fold, &bed.clients[node]).await;
    }
    bed.no_panics();
}

/// What the node has, however old: it can ask nobody.
fn at_cached() -> pb::WatchRequest {
    let cached = pb::read_at::At::Cached(true);
    pb::WatchRequest { at: Some(pb::ReadAt { at: Some(cached) }), ..request(0) }
}

/// A connection that takes little until it is read.
async fn narrow(address: &str) -> Result<ObjectsClient<tonic::transport::Channel>, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address is part of a URL");
    let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    let channel = endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(ObjectsClient::new(channel).max_decoding_message_size(64 << 20))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_not_read_is_told_why_it_ends_and_begins_again() {
    let bed = Testbed::start_with("a_watch_that_is_not_read", Setup::calm()).await;
    define_things(&bed.clients).await;
    let mut random = StdRng::seed_from_u64(bed.seed);
    // More than lies between a node and a client that does not read, and nothing that can be compressed.
    for number in 0..60 {
        let note: String = (0..200_000).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
        put(&bed.clients, &format!("large-{number}"), &note).await;
    }
    let address = bed.addresses()[1].clone();
    let open = || async { Ok(narrow(&address).await?.watch(request(0)).await?.into_inner()) };
    let mut slow = patiently(open).await;
    let (mut fold, mut quick) = (Fold::default(), watch(&bed.clients[1], request(0)).await);
    let mut last = 0;
    for number in 0..3 {
        last = put(&bed.clients, "large-0", &format!("changed {number}")).await;
    }
    read_to(&mut fold, &mut quick, last).await;
    patiently(|| compacted(&bed.clients[0], last as i64)).await;
    // Nobody else notices.
    last = put(&bed.clients, "large-1", "changed").await;
    read_to(&mut fold, &mut quick, last).await;
    agree(&fold, &bed.clients[2]).await;

    let mut late = Fold::default();
    let error = loop {
        let answer = slow.message().await.expect("an answer and no failure").expect("the reason comes first");
        if let Some(error) = late.take(answer).unwrap_or_else(|problem| panic!("{problem}")) {
            break error;
        }
        assert!(!late.is_loaded(), "it had not read its initial state when that was compacted");
    };
    assert_eq!(error.reason(), Reason::TooSlow, "{error:?}");
    assert!(error.revision > 1 && !error.message.is_empty(), "{error:?}");
    assert!(slow.message().await.expect("an end and no failure").is_none());
    late.restart();
    let mut again = patiently(open).await;
    read_to(&mut late, &mut again, last).await;
    agree(&late, &bed.clients[0]).await;
    bed.no_panics();
}

/// Compacts, also if the first answer to it was lost.
async fn compacted(client: &Client, revision: i64) -> Result<(), Status> {
    match client.compact(revision).await {
        Err(status) if status.message().contains("has been compacted") => Ok(()),
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_whose_time_is_up_ends_with_a_bookmark_to_go_on_from() {
    let bed = Testbed::start("a_watch_whose_time_is_up").await;
    define_things(&bed.clients).await;
    let mut fold = Fold::default();
    let mut last = 0;
    for round in 0..6 {
        let client = &bed.clients[round % 3];
        // No bookmark comes for another reason, and the stream ends while things happen.
        let limited = pb::WatchRequest { bookmark_interval_ms: 600_000, timeout_ms: 400, ..request(fold.at) };
        let mut answers = watch(client, limited).await;
        last = put(&bed.clients, &format!("thing-{round}"), "new").await;
        let mut ends_with = None;
        while let Some(answer) = answers.message().await.expect("an end and no failure") {
            ends_with = answer.events.last().map(|event| (event.r#type(), event.revision));
            assert_eq!(fold.take(answer), Ok(None));
        }
        let (kind, revision) = ends_with.expect("something was sent");
        assert_eq!((kind, revision), (Type::Bookmark, fold.at), "the last word is where to go on");
        agree(&fold, &bed.clients[(round + 1) % 3]).await;
    }
    let mut answers = watch(&bed.clients[0], request(fold.at)).await;
    read_to(&mut fold, &mut answers, last).await;
    agree(&fold, &bed.clients[1]).await;
    bed.no_panics();
}

/// The informers' check can fail, on answers of a real node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_or_repeated_answer_is_noticed() {
    let bed = Testbed::start_with("a_lost_or_repeated_answer", Setup::of(1)).await;
    define_things(&bed.clients).await;
    put(&bed.clients, "kept", "old").await;
    let mut answers = watch(&bed.clients[0], request(0)).await;
    let mut fold = Fold::default();
    while !fold.is_loaded() {
        let answer = answers.message().await.expect("an answer").expect("and no end");
        assert_eq!(fold.take(answer), Ok(None));
    }
    put(&bed.clients, "kept", "new").await;
    let change = loop {
        let answer = answers.message().await.expect("an answer").expect("and no end");
        if answer.events.iter().any(|event| event.r#type() == Type::Modified) {
            break answer;
        }
    };
    let listed = || async {
        let request = pb::ListRequest { kind: THING.into(), ..Default::default() };
        bed.clients[0].objects().list(request).await.map(|it| it.into_inner().objects)
    };
    let listed = patiently(listed).await;
    assert!(fold.compare(listed.clone()).is_err(), "the change was lost");
    assert_eq!(fold.take(change.clone()), Ok(None));
    assert_eq!(fold.compare(listed), Ok(()));
    assert!(fold.take(change).is_err(), "the change came twice");
}
