//! What the client does about failures: servers that answer by script, and a clock that stands still but for waits.

mod server;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use server::{Cluster, Step, refuse};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_client::{
    DeleteOptions, Dynamic, Error, ListOptions, OperationId, Reason, Scope, Settings, Token, Typed,
    WatchEvent, WatchOptions, WriteOptions,
};
use setpoint_types::kinds::{Node, NodeSpec};
use setpoint_types::object::{Fence, Object};
use setpoint_types::{Epoch, ObjectKey, Revision};
use tokio::time::Instant;
use tonic::Code;

fn node(name: &str) -> Typed<Node> {
    Typed::new(name, NodeSpec { zone: "z".into(), ..NodeSpec::default() })
}

fn without_id() -> WriteOptions {
    WriteOptions { operation: OperationId::None, ..WriteOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_sent_again_under_its_id_and_gets_the_first_answer() {
    let cluster = Cluster::new(1);
    cluster.servers[0].script([Step::Lose, Step::Hang, Step::Answer]);
    let written = cluster
        .client()
        .api::<Node>()
        .create(&node("a"), &WriteOptions::default())
        .await
        .expect("as the test made it");
    assert!(written.repeated, "the caller sees that it had been done");
    let asked = cluster.servers[0].asked();
    assert_eq!(asked.len(), 3);
    assert!(!asked[0].operation.is_empty());
    assert!(asked.iter().all(|it| it.operation == asked[0].operation && it.deadline));
    assert_eq!(cluster.done().len(), 1, "it was done once");
}

#[tokio::test(start_paused = true)]
async fn two_calls_are_two_operations() {
    let cluster = Cluster::new(1);
    let nodes = cluster.client().api::<Node>();
    nodes.create(&node("a"), &WriteOptions::default()).await.expect("as the test made it");
    nodes.delete("a", &DeleteOptions::default()).await.expect("as the test made it");
    assert_eq!(cluster.done().len(), 2);
    let chosen = WriteOptions { operation: OperationId::Chosen("mine".into()), ..WriteOptions::default() };
    assert!(!nodes.create(&node("b"), &chosen).await.expect("as the test made it").repeated);
    assert!(nodes.create(&node("b"), &chosen).await.expect("as the test made it").repeated);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_id_is_sent_again_only_if_it_was_surely_not_done() {
    let cluster = Cluster::new(1);
    let nodes = cluster.client().api::<Node>();
    cluster.servers[0].script([Step::Lose]);
    let error = nodes.create(&node("a"), &without_id()).await.unwrap_err();
    assert!(error.is_ambiguous() && error.is_transient(), "{error}");
    assert_eq!(cluster.servers[0].count(), 1);
    cluster.servers[0].script([refuse(pb::Reason::TooManyRequests, 0), Step::Answer]);
    assert!(nodes.create(&node("a"), &without_id()).await.is_ok());
    assert_eq!(cluster.servers[0].count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_answer_and_asked_for_once() {
    let cluster = Cluster::new(2);
    let error = pb::Error {
        reason: pb::Reason::Conflict.into(),
        message: "another revision".into(),
        revision: 12,
        ..Default::default()
    };
    cluster.servers.iter().for_each(|it| it.script([Step::Refuse(Code::Aborted, Box::new(error.clone()))]));
    let error =
        cluster.client().api::<Node>().update(&node("a"), &WriteOptions::default()).await.unwrap_err();
    assert!(error.is_conflict() && !error.is_transient() && !error.is_ambiguous());
    assert_eq!(error.refusal().expect("as the test made it").revision, Revision::new(12));
    assert_eq!(error.to_string(), "update Node a was refused: Conflict: another revision");
    assert_eq!(cluster.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_servers_wish_to_be_left_alone_is_kept() {
    let cluster = Cluster::new(2);
    // Whoever is asked first is busy; asking the other one at once would only move the crowd.
    cluster.servers.iter().for_each(|it| it.script([refuse(pb::Reason::TooManyRequests, 2_000)]));
    let begun = Instant::now();
    cluster.client().api::<Node>().get("a").await.expect("as the test made it");
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_secs(2), "{elapsed:?}");
    let cluster = Cluster::new(1);
    cluster.servers[0].script([refuse(pb::Reason::Unavailable, 3_000)]);
    let begun = Instant::now();
    cluster.client().api::<Node>().get("a").await.expect("as the test made it");
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn another_server_is_asked_instead_of_one_that_cannot() {
    let cluster = Cluster::new(3);
    cluster.servers[0].otherwise(refuse(pb::Reason::Unavailable, 60_000));
    cluster.servers[1].otherwise(Step::Fail(Code::Unavailable));
    let nodes = cluster.client().api::<Node>();
    for _ in 0..20 {
        nodes.get("a").await.expect("as the test made it");
    }
    assert!(cluster.servers[0].count() <= 2, "it asked for patience");
    assert!(cluster.servers[1].count() <= 10, "it was left alone: {}", cluster.servers[1].count());
    assert!(cluster.servers[2].count() >= 20);
}

#[tokio::test(start_paused = true)]
async fn reads_are_spread_over_all_servers() {
    let cluster = Cluster::new(3);
    let nodes = cluster.client().api::<Node>();
    for _ in 0..60 {
        nodes.get("a").await.expect("as the test made it");
    }
    let counts: Vec<usize> = cluster.servers.iter().map(|it| it.count()).collect();
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_by_its_deadline() {
    let cluster = Cluster::new(2);
    cluster.servers.iter().for_each(|it| it.otherwise(Step::Hang));
    let client = cluster.client().with_timeout(Duration::from_secs(7));
    let begun = Instant::now();
    let error = client.api::<Node>().get("a").await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(matches!(error, Error::Unanswered { ambiguous: false, .. }), "{error}");
    let error = client.api::<Node>().create(&node("a"), &WriteOptions::default()).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let begun = Instant::now();
    assert!(client.api::<Node>().watch(&WatchOptions::default()).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_left_alone_and_found_again() {
    let cluster = Cluster::new(2);
    cluster.servers[1].otherwise(Step::Fail(Code::Unavailable));
    let nodes = cluster.client().api::<Node>();
    for _ in 0..50 {
        nodes.get("a").await.expect("as the test made it");
    }
    let while_down = cluster.servers[1].count();
    assert!(while_down <= 6, "{while_down}");
    cluster.servers[1].otherwise(Step::Answer);
    for _ in 0..100 {
        nodes.get("a").await.expect("as the test made it");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(cluster.servers[1].count() >= while_down + 20, "{}", cluster.servers[1].count());
}

#[tokio::test(start_paused = true)]
async fn while_all_are_down_requests_wait_instead_of_hammering() {
    let cluster = Cluster::new(1);
    cluster.servers[0].otherwise(Step::Fail(Code::Unavailable));
    let client = cluster.client().with_timeout(Duration::from_secs(600));
    let calls = (0..50).map(|number| {
        let nodes = client.api::<Node>();
        async move { nodes.get(&format!("n{number}")).await.is_err() }
    });
    let failed = futures::future::join_all(calls).await;
    assert!(failed.iter().all(|failed| *failed));
    // One trial at a time, of all calls together, each some seconds after the last.
    assert!(cluster.servers[0].count() <= 200, "fifty calls asked {} times", cluster.servers[0].count());
}

/// A person is told at once that nobody listens; but not before every server was asked, nor by a server that was there before.
#[tokio::test(start_paused = true)]
async fn a_call_to_nobody_ends_soon_if_it_is_told_to_and_nobody_was_ever_there() {
    let cluster = Cluster::new(3);
    cluster.servers.iter().for_each(|it| it.listen(false));
    let client = cluster.client_with(Settings { refusals_max: 3, ..cluster.settings() });
    let begun = Instant::now();
    let error = client.api::<Node>().create(&node("a"), &without_id()).await.unwrap_err();
    assert!(matches!(error, Error::Unanswered { attempts: 3, ambiguous: false, .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    let refused: Vec<usize> = cluster.servers.iter().map(|it| it.0.lock().refused).collect();
    assert!(refused.iter().all(|count| *count >= 1), "each was asked: {refused:?}");

    cluster.servers[2].listen(true);
    client.api::<Node>().get("a").await.expect("one of them listens");
    cluster.servers[2].listen(false);
    let (begun, servers) = (Instant::now(), cluster.servers[2].clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        servers.listen(true);
    });
    client.api::<Node>().get("a").await.expect("it was there before, and comes back");
    assert!(begun.elapsed() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn without_a_word_about_it_a_server_that_only_starts_is_waited_for() {
    let cluster = Cluster::new(1);
    cluster.servers[0].listen(false);
    let server = cluster.servers[0].clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.listen(true);
    });
    cluster.client().api::<Node>().get("a").await.expect("it starts");
}

#[tokio::test(start_paused = true)]
async fn writes_carry_what_the_client_carries() {
    let cluster = Cluster::new(1);
    let mut settings = cluster.settings();
    settings.token = Some(Token::new("secret"));
    let written: Arc<Mutex<Vec<(ObjectKey, Revision)>>> = Arc::default();
    let log = written.clone();
    let fence = Fence { namespace: "default".into(), lease: "duty".into(), epoch: Epoch(3) };
    let client = cluster
        .client_with(settings)
        .with_manager("robot")
        .with_fence(fence)
        .with_trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .with_on_write(Arc::new(move |key, revision| log.lock().push((key.clone(), revision))));
    let nodes = client.api::<Node>();
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    nodes.create(&node("a"), &WriteOptions::default()).await.expect("as the test made it");
    nodes.update_status(&node("b"), &WriteOptions::default()).await.expect("as the test made it");
    nodes.apply(&node("c"), true, &dry).await.expect("as the test made it");
    nodes.delete("d", &DeleteOptions::default()).await.expect("as the test made it");
    client
        .transaction()
        .create(&node("e"))
        .commit(&WriteOptions::default())
        .await
        .expect("as the test made it");
    let asked = cluster.servers[0].asked();
    assert_eq!(asked.len(), 5);
    for it in &asked {
        assert_eq!(it.options.manager, "robot", "{}", it.method);
        assert_eq!(it.options.fence.as_ref().map(|fence| fence.epoch), Some(3), "{}", it.method);
        assert_eq!(it.authorization.as_deref(), Some("Bearer secret"));
        assert!(it.trace.is_some());
    }
    let written: Vec<(String, u64)> =
        written.lock().iter().map(|(key, revision)| (key.name.clone(), revision.get())).collect();
    let expected = [("a", 7), ("b", 7), ("d", 8), ("e", 11)].map(|(name, at)| (name.to_owned(), at));
    assert_eq!(written, expected, "what was only tried out is not told of");
}

#[tokio::test(start_paused = true)]
async fn an_object_has_the_namespace_of_its_api() {
    let cluster = Cluster::new(1);
    let things = cluster.client().dynamic("Thing", Scope::namespace("web"));
    let object = Object::new("Other", "elsewhere", "a");
    let written = things.create(&object, &WriteOptions::default()).await.expect("as the test made it");
    assert_eq!(written.object.key(), ObjectKey::new("Thing", "web", "a"));
    let everywhere = things.all_namespaces();
    assert!(matches!(everywhere.get("a").await, Err(Error::Senseless { .. })));
    let nameless = Object::new("Thing", "", "a");
    assert!(matches!(
        everywhere.create(&nameless, &WriteOptions::default()).await,
        Err(Error::Senseless { .. })
    ));
    assert_eq!(cluster.asked(), 1, "what makes no sense is not sent");
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_also_over_failures() {
    let cluster = Cluster::new(1);
    let page = |names: &[&str], next: &str| pb::ListResponse {
        objects: names
            .iter()
            .map(|name| pb::Object {
                metadata: Some(pb::Metadata { name: (*name).into(), ..Default::default() }),
                spec: r#"{"zone":"z"}"#.into(),
                ..Default::default()
            })
            .collect(),
        revision: 40,
        r#continue: next.into(),
        remaining: None,
    };
    cluster.servers[0].0.lock().pages = [page(&["a", "b"], "t1"), page(&[], "t2"), page(&["c"], "")].into();
    cluster.servers[0].script([Step::Answer, Step::Fail(Code::Unavailable)]);
    let (nodes, revision) =
        cluster.client().api::<Node>().list_all(&ListOptions::default()).await.expect("as the test made it");
    let names: Vec<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
    assert_eq!((names, revision), (vec!["a", "b", "c"], Revision::new(40)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_servers_reason() {
    let cluster = Cluster::new(1);
    let event = |kind: Type, revision: u64| pb::WatchEvent {
        r#type: kind.into(),
        revision,
        object: Some(pb::Object::default()),
        ..Default::default()
    };
    let error = pb::Error { reason: pb::Reason::Expired.into(), revision: 30, ..Default::default() };
    let last = pb::WatchEvent { r#type: Type::Error.into(), error: Some(error), ..Default::default() };
    cluster.servers[0].0.lock().watch = vec![
        pb::WatchResponse { events: vec![event(Type::Added, 3), event(Type::Deleted, 4)] },
        pb::WatchResponse { events: vec![last] },
    ];
    let things = cluster.client().shaped::<Dynamic>("Thing", Scope::AllNamespaces);
    let mut watch = things.watch(&WatchOptions::default()).await.expect("as the test made it");
    let events = watch.next().await.expect("as the test made it").expect("as the test made it");
    assert!(matches!(
        events[..],
        [WatchEvent::Added { revision: three, .. }, WatchEvent::Deleted { .. }] if three.get() == 3
    ));
    let error = watch.next().await.unwrap_err();
    assert!(error.is_expired(), "{error}");
    assert_eq!(error.reason(), Some(Reason::Expired));
    assert_eq!(error.refusal().expect("as the test made it").revision, Revision::new(30));
}
