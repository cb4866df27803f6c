//! A state of many objects: complete, of one revision, and followed by what changed since, in whatever order it comes.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;

use crate::kit::{Draft, Node, small_limits};
use crate::wire::serve;

const COUNT: usize = 3_000;

fn draft(number: usize, spec: &str) -> Draft {
    let label = if number.is_multiple_of(2) { "even" } else { "odd" };
    Draft {
        kind: "Replica".into(),
        namespace: "default".into(),
        // Neighbours by name were not written one after the other.
        name: format!("r{:03}-{number}", number * 37 % 1_000),
        labels: vec![("number".into(), label.into())],
        spec: spec.into(),
        status: "{}".into(),
    }
}

/// Every object was written, every third again, every seventh deleted.
fn fill(node: &mut Node) -> BTreeMap<String, (u64, usize)> {
    let mut expected = BTreeMap::new();
    for number in 0..COUNT {
        let it = draft(number, r#"{"nodeName":"n1"}"#);
        expected.insert(it.name.clone(), (node.commit(vec![it.put()]).get(), number));
    }
    for number in (0..COUNT).step_by(3) {
        let it = draft(number, r#"{"nodeName":"n2"}"#);
        expected.insert(it.name.clone(), (node.commit(vec![it.put()]).get(), number));
    }
    for number in (0..COUNT).step_by(7) {
        let it = draft(number, "{}");
        node.commit(vec![it.delete()]);
        expected.remove(&it.name);
    }
    expected
}

async fn check(node: &mut Node, label_selector: &str, metadata_only: bool) {
    let mut expected = fill(node);
    expected.retain(|_, (_, number)| label_selector.is_empty() || !number.is_multiple_of(2));
    let request = pb::WatchRequest {
        kind: "Replica".into(),
        label_selector: label_selector.into(),
        initial_state: true,
        metadata_only,
        ..Default::default()
    };
    let mut watch = serve(node).await.watch(request).await.expect("a watch").into_inner();
    let at = node.reader.store.revision().get();
    node.commit(vec![draft(1, r#"{"nodeName":"later"}"#).put(), draft(COUNT + 1, "{}").put()]);
    let (mut found, mut after) = (BTreeMap::new(), Vec::new());
    let mut complete = None;
    while after.len() < 2 {
        let answer = tokio::time::timeout(Duration::from_secs(30), watch.message()).await;
        for event in answer.expect("in time").expect("no error").expect("the stream goes on").events {
            let object = event.object.clone().unwrap_or_default();
            let metadata = object.metadata.unwrap_or_default();
            match (event.r#type(), complete) {
                (Type::Added, None) => {
                    assert_eq!(event.revision, metadata.revision);
                    assert_eq!(object.spec.is_empty(), metadata_only);
                    assert_eq!(found.insert(metadata.name, event.revision), None, "it came twice");
                }
                (Type::Bookmark, None) if event.initial_state_end => complete = Some(event.revision),
                (Type::Bookmark, _) => {}
                (_, Some(_)) => after.push(metadata.name),
                other => panic!("{other:?} in the initial state"),
            }
        }
    }
    assert_eq!(complete, Some(at));
    assert_eq!(found, expected.into_iter().map(|(name, (revision, _))| (name, revision)).collect());
    assert_eq!(after, [draft(1, "").name, draft(COUNT + 1, "").name]);
}

#[tokio::test]
async fn a_large_state_is_whole() {
    check(&mut Node::new(1 << 20, small_limits()), "", false).await;
}

#[tokio::test]
async fn a_large_state_of_metadata_is_whole() {
    check(&mut Node::new(1 << 20, small_limits()), "", true).await;
}

/// With an index that has no room for the kind.
#[tokio::test]
async fn a_large_state_by_a_selector_that_has_to_scan_is_whole() {
    check(&mut Node::with_index(1 << 20, small_limits(), 1), "number=odd", false).await;
}
