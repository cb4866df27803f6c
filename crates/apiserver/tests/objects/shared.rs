//! An event is encoded once, whoever watches.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::objects::watch::WatchAnswers;

use crate::kit::{Draft, Node, small_limits};

async fn watch(node: &Node, labels: &str, metadata_only: bool) -> WatchAnswers {
    let request = pb::WatchRequest {
        kind: "Node".into(),
        label_selector: labels.into(),
        from_revision: 1,
        metadata_only,
        ..Default::default()
    };
    node.reader.watch(request).await.expect("a watch")
}

#[tokio::test]
async fn all_watches_share_one_encoding_of_an_event() {
    let mut node = Node::new(1 << 20, small_limits());
    let mut watches = Vec::new();
    for _ in 0..100 {
        watches.push(watch(&node, "", false).await);
        watches.push(watch(&node, "!none", false).await);
    }
    let mut names_only = watch(&node, "", true).await;
    let draft = Draft { kind: "Node".into(), name: "a".into(), spec: "{}".into(), ..Draft::default() };
    node.commit(vec![draft.put()]);
    let mut first: Option<Arc<_>> = None;
    for watch in &mut watches {
        let answer = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        let event = answer.expect("in time").expect("an event").events.remove(0);
        assert!(Arc::ptr_eq(first.get_or_insert(event.clone()), &event));
    }
    let other = names_only.next().await.expect("an event").events.remove(0);
    assert!(other.len() < first.expect("there were watches").len());
}

/// The ring counts a deletion as next to nothing: what it deleted must not stay for as long.
#[tokio::test]
async fn the_last_states_of_deleted_objects_do_not_outgrow_their_bound() {
    const RING_BYTES: usize = 1 << 20;
    let (count, bytes) = (200, 20_000);
    let mut node = Node::new(RING_BYTES, small_limits());
    let draft = |at: usize| {
        let spec = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
        Draft { kind: "Node".into(), name: format!("n{at}"), spec, ..Draft::default() }
    };
    for at in 0..count {
        node.commit(vec![draft(at).put()]);
    }
    let from_revision = node.reader.store.revision().get();
    let request = pb::WatchRequest { kind: "Node".into(), from_revision, ..Default::default() };
    let mut watch = node.reader.watch(request).await.expect("a watch");
    let mut told = Vec::new();
    for at in 0..count {
        node.commit(vec![draft(at).delete()]);
        let answer = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        let event = answer.expect("in time").expect("an event").events.remove(0);
        assert!(event.len() > bytes, "it has the last state");
        told.push(Arc::downgrade(&event));
    }
    let held = told.iter().filter(|event| event.strong_count() > 0).count();
    assert!(held * bytes <= RING_BYTES, "{held} events of {bytes} bytes are held");
}
