//! Informers over streams that the test holds in its hand, and a clock that stands still but for waits.

mod server;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use server::{Stage, bookmark, error, object};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_runtime::cache::{Cause, Index, Key, Transform};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_types::Revision;
use setpoint_types::kinds::{Namespace, Node};

fn key(name: &str) -> Key {
    Key::new("", name)
}

fn at(revision: u64) -> Revision {
    Revision::new(revision)
}

#[tokio::test(start_paused = true)]
async fn it_begins_with_the_whole_state_and_goes_on_with_changes() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let nodes = informers.cache::<Node>(Selection::everywhere().labels("a=b").fields("spec.zone=z"));
    nodes.add_index(Index::spec("zone", "/zone"));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = told.clone();
    nodes.observe(Box::new(move |delta| {
        let author = delta.author().map(|author| author.principal).unwrap_or_default();
        log.lock().push(format!("{} {:?} {author}", delta.key, delta.cause));
    }));
    let stream = stage.stream().await;
    let request = &stream.request;
    assert!(request.initial_state && request.from_revision == 0 && request.bookmark_interval_ms == 1000);
    assert_eq!((&*request.label_selector, &*request.field_selector), ("a=b", "spec.zone=z"));
    stream.send(vec![object(Type::Added, "a", 3, "z1")]).await;
    stream.send(vec![object(Type::Added, "b", 2, "z2"), bookmark(5, true)]).await;
    nodes.synced().await.expect("as the test made it");
    assert_eq!((nodes.revision(), nodes.len()), (Some(at(5)), 2));
    assert_eq!(
        nodes.read(&key("a")).expect("as the test made it").expect("as the test made it").spec.zone,
        "z1"
    );

    stream.send(vec![object(Type::Modified, "a", 7, "z2"), object(Type::Deleted, "b", 8, "z2")]).await;
    assert_eq!(nodes.at_least(at(8)).await, Ok(at(8)));
    let zone: Vec<String> = nodes.find("zone", "z2").iter().map(|it| it.key().to_string()).collect();
    assert_eq!((zone, nodes.find("zone", "z1").len()), (vec!["a".to_owned()], 0));
    stream.send(vec![bookmark(20, false)]).await;
    assert_eq!(nodes.at_least(at(19)).await, Ok(at(20)), "a bookmark moves a quiet cache");
    assert_eq!(
        *told.lock(),
        ["a Initial ", "b Initial ", "a Event user:jane", "b Event user:jane"].map(str::to_owned)
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_the_same_shares_it_and_late_observers_are_told_what_there_is() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let one = informers.cache::<Node>(Selection::everywhere());
    let same = informers.dynamic("Node", false, Selection::everywhere());
    let stream = stage.stream().await;
    stream.send(vec![object(Type::Added, "a", 3, "z1"), bookmark(5, true)]).await;
    one.synced().await.expect("as the test made it");
    assert_eq!(
        same.read(&key("a")).expect("as the test made it").expect("as the test made it").spec["zone"],
        "z1"
    );
    let told: Arc<Mutex<Vec<(String, Cause)>>> = Arc::default();
    let log = told.clone();
    same.observe(Box::new(move |delta| log.lock().push((delta.key.to_string(), delta.cause))));
    assert_eq!(*told.lock(), [("a".to_owned(), Cause::Initial)]);
    let _ = informers.metadata::<Node>(Selection::everywhere());
    assert!(stage.stream().await.request.metadata_only, "that is another one");
    assert!(stage.streams.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_given_up_and_resumed_where_it_was() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let nodes = informers.cache::<Node>(Selection::everywhere());
    let stream = stage.stream().await;
    stream.send(vec![object(Type::Added, "a", 3, "z1"), bookmark(5, true)]).await;
    stream.send(vec![bookmark(9, false)]).await;
    nodes.at_least(at(9)).await.expect("as the test made it");
    // Nothing comes any more, not even a bookmark.
    stream.given_up().await;
    let next = stage.stream().await;
    assert!(!next.request.initial_state);
    assert_eq!(next.request.from_revision, 9);
    next.send(vec![object(Type::Modified, "a", 10, "z2")]).await;
    nodes.at_least(at(10)).await.expect("as the test made it");
    let stats = nodes.stats();
    assert_eq!((stats.stalls, stats.streams, stats.relists_expired), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_expired_stream_is_replaced_by_a_whole_state_at_once_and_what_is_gone_is_told() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let nodes = informers.cache::<Node>(Selection::everywhere());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = told.clone();
    nodes.observe(Box::new(move |delta| {
        let gone = delta.after.is_none() && delta.last.is_none();
        log.lock().push(format!("{} {:?}{}", delta.key, delta.cause, if gone { " gone" } else { "" }));
    }));
    let stream = stage.stream().await;
    let both = [object(Type::Added, "a", 3, "z1"), object(Type::Added, "b", 4, "z1")];
    stream.send(both.into_iter().chain([bookmark(5, true)]).collect()).await;
    nodes.synced().await.expect("as the test made it");
    told.lock().clear();
    stream.send(vec![error(pb::Reason::Expired)]).await;
    let next = stage.stream().await;
    assert!(next.request.initial_state);
    next.send(vec![object(Type::Added, "b", 4, "z1"), object(Type::Added, "c", 30, "z1")]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        nodes.get(&key("a")).is_some() && nodes.get(&key("c")).is_none(),
        "the old state stays until then"
    );
    assert_eq!(nodes.revision(), Some(at(5)));
    next.send(vec![bookmark(31, true)]).await;
    nodes.at_least(at(31)).await.expect("as the test made it");
    assert!(nodes.get(&key("a")).is_none() && nodes.get(&key("c")).is_some());
    assert_eq!(*told.lock(), ["a Relist gone", "c Relist"].map(str::to_owned));
    assert_eq!(nodes.stats().relists_expired, 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_of_the_whole_state_leaves_nothing_behind() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let nodes = informers.cache::<Node>(Selection::everywhere());
    let stream = stage.stream().await;
    stream.send(vec![object(Type::Added, "a", 3, "z1")]).await;
    drop(stream);
    let next = stage.stream().await;
    assert!(next.request.initial_state);
    next.send(vec![object(Type::Added, "b", 4, "z1"), bookmark(5, true)]).await;
    nodes.synced().await.expect("as the test made it");
    assert!(nodes.get(&key("a")).is_none() && nodes.len() == 1);
}

#[tokio::test(start_paused = true)]
async fn kinds_are_seen_at_one_revision_also_while_one_is_ahead() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let nodes = informers.cache::<Node>(Selection::everywhere());
    let of_nodes = stage.stream().await;
    let namespaces = informers.cache::<Namespace>(Selection::everywhere());
    let of_namespaces = stage.stream().await;
    of_nodes.send(vec![object(Type::Added, "a", 3, "z1"), bookmark(5, true)]).await;
    of_namespaces.send(vec![bookmark(5, true)]).await;
    informers.synced().await.expect("as the test made it");
    of_nodes.send(vec![object(Type::Modified, "a", 8, "z2")]).await;
    of_nodes.send(vec![object(Type::Deleted, "a", 9, "z2")]).await;
    nodes.at_least(at(9)).await.expect("as the test made it");
    let both = || informers.joint().with(&nodes).with(&namespaces);
    assert_eq!(both().revision(), Some(at(5)));
    let then = both().snapshot().await.expect("as the test made it");
    let zone = then
        .of(&nodes)
        .expect("as the test made it")
        .get(&key("a"))
        .expect("as the test made it")
        .read()
        .expect("as the test made it")
        .spec
        .zone;
    assert_eq!((then.revision(), &*zone), (at(5), "z1"));
    assert!(nodes.get(&key("a")).is_none(), "by itself it is ahead");
    of_namespaces.send(vec![bookmark(8, false)]).await;
    let then = both().snapshot_at_least(at(8)).await.expect("as the test made it");
    let zone = then
        .of(&nodes)
        .expect("as the test made it")
        .get(&key("a"))
        .expect("as the test made it")
        .read()
        .expect("as the test made it")
        .spec
        .zone;
    assert_eq!((then.revision(), &*zone), (at(8), "z2"));
    assert_eq!(informers.observed().get("Node"), Some(&at(9)));
}

#[tokio::test(start_paused = true)]
async fn a_transformation_makes_objects_smaller_and_keeps_what_they_are() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let without_spec = Transform::new("without-spec", |parts| {
        parts.spec = Default::default();
        parts.metadata.name = "forged".into();
    });
    let nodes = informers.dynamic("Node", false, Selection::everywhere().transform(without_spec));
    let stream = stage.stream().await;
    stream.send(vec![object(Type::Added, "a", 3, "z1"), bookmark(5, true)]).await;
    nodes.synced().await.expect("as the test made it");
    let kept = nodes.read(&key("a")).expect("as the test made it").expect("as the test made it");
    assert!(kept.spec.is_null());
    assert_eq!((kept.metadata.name.as_str(), kept.metadata.uid.as_str()), ("a", "u-a"));
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_nobody_waits() {
    let mut stage = Stage::new();
    let informers = Informers::new(stage.client.clone(), InformerSettings::default());
    let nodes = informers.cache::<Node>(Selection::everywhere());
    let stream = stage.stream().await;
    let waiting = tokio::spawn({
        let nodes = nodes.clone();
        async move { nodes.synced().await }
    });
    informers.shutdown().await;
    assert!(waiting.await.expect("as the test made it").is_err());
    assert!(informers.joint().with(&nodes).snapshot().await.is_err());
    stream.given_up().await;
}
