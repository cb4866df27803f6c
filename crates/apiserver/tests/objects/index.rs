//! Lists by selectors: answered by the index where it can, and right also where it cannot.

use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::objects::{Kind, ReadLimits};

use crate::kit::{Draft, Node, small_limits};
use crate::script::decoded;

fn replica(name: String, app: &str) -> Draft {
    let labels = vec![("app".to_owned(), app.to_owned())];
    let spec = format!(r#"{{"nodeName":"n-{name}","zone":"z-{name}"}}"#);
    Draft { kind: "Replica".into(), namespace: "a".into(), name, labels, spec, ..Draft::default() }
}

async fn list(node: &Node, labels: &str, fields: &str) -> (Vec<String>, bool) {
    let request = pb::ListRequest {
        kind: "Replica".into(),
        label_selector: labels.into(),
        field_selector: fields.into(),
        ..Default::default()
    };
    let answer: pb::ListResponse = decoded(&node.reader.list(request).await.expect("a list"));
    let name = |object: pb::Object| object.metadata.expect("metadata").name;
    (answer.objects.into_iter().map(name).collect(), !answer.r#continue.is_empty())
}

/// More objects than a scan looks at in one request.
fn filled(limits: ReadLimits, index_bytes: usize) -> Node {
    let mut node = Node::with_index(1 << 20, limits, index_bytes);
    for number in 0..1200 {
        node.commit(vec![replica(format!("{number:04}"), if number == 1100 { "rare" } else { "web" }).put()]);
    }
    node
}

#[tokio::test(start_paused = true)]
async fn a_list_by_a_selector_looks_only_at_what_it_returns() {
    let limits = ReadLimits { scanned_objects: 1, ..small_limits() };
    let mut node = filled(limits.clone(), 64 << 20);
    assert_eq!(list(&node, "app=rare", "").await, (vec!["1100".to_owned()], false));
    assert_eq!(list(&node, "", "spec.nodeName=n-0007").await, (vec!["0007".to_owned()], false));
    node.commit(vec![replica("0007".into(), "rare").put(), replica("1100".into(), "web").put()]);
    assert_eq!(list(&node, "app=rare", "").await, (vec!["0007".to_owned()], false));
    let size = node.reader.index.size();
    assert_eq!(size.objects, 1200);
    assert!(size.bytes > 1200 * 100 && size.bytes < 1200 * 1000, "{size:?}");

    let without = filled(limits, 1);
    let (found, more) = list(&without, "app=rare", "").await;
    assert_eq!((found.len(), more), (0, true), "a scan ends early and says so");
}

#[tokio::test(start_paused = true)]
async fn beyond_its_memory_a_kind_is_scanned_with_the_same_answer() {
    let node = filled(small_limits(), 1);
    assert_eq!(list(&node, "app=rare", "").await, (vec!["1100".to_owned()], false));
    assert_eq!(node.reader.index.size().objects, 0);
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_a_state_that_is_replaced_as_a_whole() {
    for compacted in [false, true] {
        let (node, mut other) = (filled(small_limits(), 64 << 20), filled(small_limits(), 64 << 20));
        assert_eq!(list(&node, "app=rare", "").await.0, ["1100"]);
        other.commit(vec![replica("1100".into(), "web").put(), replica("0001".into(), "rare").put()]);
        let newest = other.commit(vec![replica("0002".into(), "rare").put()]);
        if compacted {
            other.compact(newest.get());
        }
        node.reader.store.replace(other.engine.clone()).expect("a state that loads");
        node.reader.hub.reset(node.reader.store.revision());
        assert_eq!(list(&node, "app=rare", "").await.0, ["0001", "0002"], "compacted: {compacted}");
        node.reader.index.reached(newest).await;
        assert_eq!(node.reader.index.revision(), newest);
        assert_eq!(node.reader.index.size().objects, 1200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_gets_new_selectable_fields_is_indexed_anew() {
    let limits = ReadLimits { scanned_objects: 1, ..small_limits() };
    let node = filled(limits, 64 << 20);
    assert_eq!(list(&node, "app=rare", "").await.0, ["1100"]);
    let old = node.reader.catalog.get("Replica").expect("a kind");
    let selectable_fields = vec!["spec.zone".to_owned()];
    node.reader.catalog.put(Kind::new(pb::KindInfo { selectable_fields, ..old.info.clone() }));
    // Until the index knows the field, a scan that ends early stands in for it.
    let found = async {
        loop {
            let (found, more) = list(&node, "", "spec.zone=z-1150").await;
            if !more {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    let found = tokio::time::timeout(std::time::Duration::from_secs(30), found).await;
    assert_eq!(found.expect("in time"), ["1150"]);
}

/// Of a kind that the index has not read yet it does not say that there is nothing.
#[tokio::test(start_paused = true)]
async fn objects_that_came_before_their_kind_are_found() {
    let mut node = Node::new(1 << 20, small_limits());
    let lake = |name: &str| Draft { kind: "Lake".into(), ..replica(name.to_owned(), "web") };
    let newest = node.commit(vec![lake("one").put()]);
    node.reader.index.reached(newest).await;
    let selected = |node: &Node| {
        let request =
            pb::ListRequest { kind: "Lake".into(), label_selector: "app=web".into(), ..Default::default() };
        let reader = node.reader.clone();
        async move { decoded::<pb::ListResponse>(&reader.list(request).await.expect("a list")).objects.len() }
    };
    let old = node.reader.catalog.get("Replica").expect("a kind");
    node.reader.catalog.put(Kind::new(pb::KindInfo { kind: "Lake".into(), ..old.info.clone() }));
    assert_eq!(selected(&node).await, 1);
    node.commit(vec![lake("two").put(), replica("other".into(), "web").put()]);
    assert_eq!(selected(&node).await, 2);
    // Once it is read, it is in the index beside what was there.
    let indexed = async {
        while node.reader.index.size().objects != 3 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), indexed).await.expect("in time");
    assert_eq!(selected(&node).await, 2);
    node.reader.catalog.remove("Lake");
    node.commit(vec![lake("three").put()]);
    let forgotten = async {
        while node.reader.index.size().objects != 1 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), forgotten).await.expect("in time");
}

/// S: later pages of a list by a selector are found by the index, as they were at the list's revision.
#[tokio::test(start_paused = true)]
async fn later_pages_look_only_at_what_they_return_and_at_what_has_moved() {
    let limits = ReadLimits { scanned_objects: 1, ..small_limits() };
    let mut node = filled(limits, 64 << 20);
    node.commit(vec![replica("0007".into(), "rare").put(), replica("0500".into(), "rare").put()]);
    let mut page = pb::ListRequest {
        kind: "Replica".into(),
        label_selector: "app=rare".into(),
        limit: 1,
        ..Default::default()
    };
    let mut found = Vec::new();
    for _ in 0..10 {
        let answer: pb::ListResponse = decoded(&node.reader.list(page.clone()).await.expect("a page"));
        found.extend(answer.objects.into_iter().map(|object| object.metadata.expect("metadata").name));
        if answer.r#continue.is_empty() {
            break;
        }
        page.r#continue = answer.r#continue;
        // One leaves, one comes, one goes altogether, and one stays but changes: none of it is of the list's revision.
        node.commit(vec![replica("0500".into(), "web").put(), replica("0600".into(), "rare").put()]);
        node.commit(vec![replica("1100".into(), "rare").delete(), replica("0700".into(), "rare").put()]);
    }
    assert_eq!(found, ["0007", "0500", "1100"]);
}
