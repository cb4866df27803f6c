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
