//! What somebody else commits between the decision of a write and its commit: the write is then decided anew, by the rules
//! and on the state that are in force.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use prost::Message;
use serde_json::json;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_apiserver::access::Caller;
use setpoint_apiserver::objects::definitions::Definitions;
use setpoint_apiserver::objects::write::{CommitError, Commits, Writer};
use setpoint_apiserver::objects::{Catalog, Reader, Refusal};
use setpoint_store::Committed;
use setpoint_store::command::Command;
use setpoint_store::commit::{Commit, Op};
use setpoint_types::LeaseId;

use crate::kit::{Local, Node};

/// Lets somebody else go first, once.
struct After {
    local: Arc<Local>,
    other: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Commits for After {
    fn commit(&self, commit: Arc<Commit>, bytes: usize) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            let other = self.other.lock().take();
            if let Some(other) = other {
                other.await;
            }
            self.local.commit(commit, bytes).await
        })
    }
}

fn object(kind: &str, namespace: &str, name: &str, spec: serde_json::Value) -> pb::Object {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let metadata = Some(pb::Metadata { namespace, name, ..pb::Metadata::default() });
    pb::Object { kind: kind.to_owned(), metadata, spec: spec.to_string().into(), ..pb::Object::default() }
}

fn definition(plural: &str, kind: &str) -> pb::Object {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let spec = json!({"names": {"kind": kind, "plural": plural}, "schema": schema});
    object("KindDefinition", "", plural, spec)
}

fn policy(name: &str, message: &str) -> pb::Object {
    let validation = json!({"expression": "object.spec.replicas <= 3", "message": message});
    object("AdmissionPolicy", "", name, json!({"match": {"kinds": ["Thing"]}, "validations": [validation]}))
}

async fn create(writer: &Writer, object: pb::Object) -> Result<(), Refusal> {
    let request = pb::CreateRequest { object: Some(object), options: None };
    writer.create(request, &Caller::default()).await.map(drop)
}

async fn delete(writer: &Writer, kind: &str, name: &str) -> Result<bool, Refusal> {
    let key = pb::ObjectKey { kind: kind.to_owned(), namespace: String::new(), name: name.to_owned() };
    let request = pb::DeleteRequest { key: Some(key), ..pb::DeleteRequest::default() };
    Ok(writer.delete(request, &Caller::default()).await?.gone)
}

/// A writer whose first commit comes after what another one does.
fn behind<F>(node: &Node, other: impl FnOnce(Writer) -> F) -> Writer
where
    F: Future<Output = ()> + Send + 'static,
{
    let other = Mutex::new(Some(Box::pin(other(node.writer.clone())) as BoxFuture<'static, ()>));
    Writer { commits: Arc::new(After { local: node.local.clone(), other }), ..node.writer.clone() }
}

fn reason<T>(outcome: Result<T, Refusal>) -> (Reason, String) {
    match outcome {
        Ok(_) => panic!("must be refused"),
        Err(refusal) => (refusal.reason(), refusal.error().message.clone()),
    }
}

#[tokio::test]
async fn a_policy_that_is_committed_first_judges_what_was_decided_before_it() {
    let node = Node::new();
    let writer = behind(&node, |other| async move {
        create(&other, policy("few", "too many")).await.expect("a good policy");
    });
    let refused = create(&writer, object("Thing", "", "web", json!({"replicas": 9}))).await;
    assert_eq!(reason(refused), (Reason::Invalid, "too many (policy few)".to_owned()));
}

#[tokio::test]
async fn an_object_is_not_made_of_a_kind_that_is_gone_nor_a_kind_deleted_that_has_one() {
    let node = Node::new();
    create(&node.writer, definition("lakes", "Lake")).await.expect("a good definition");
    let writer = behind(&node, |other| async move {
        assert!(delete(&other, "KindDefinition", "lakes").await.expect("nothing is in the way"));
    });
    let refused = create(&writer, object("Lake", "", "deep", json!({}))).await;
    assert_eq!(reason(refused).0, Reason::Invalid);

    create(&node.writer, definition("lakes", "Lake")).await.expect("a good definition");
    let writer = behind(&node, |other| async move {
        create(&other, object("Lake", "", "deep", json!({}))).await.expect("its kind is there");
    });
    let (why, text) = reason(delete(&writer, "KindDefinition", "lakes").await);
    assert_eq!(why, Reason::Conflict, "{text}");
    assert!(text.contains("objects of the kind Lake, 1"), "{text}");
}

#[tokio::test]
async fn of_two_definitions_of_one_name_at_once_one_is_refused() {
    let node = Node::new();
    let writer = behind(&node, |other| async move {
        create(&other, definition("sames", "Same")).await.expect("the first");
    });
    let (why, text) = reason(create(&writer, definition("equals", "Same")).await);
    assert_eq!(why, Reason::Invalid, "{text}");
    assert!(text.contains("taken by the kind Same"), "{text}");
}

#[tokio::test]
async fn the_last_policy_there_may_be_is_one() {
    let node = Node::new();
    for name in ["a", "b", "c", "d", "e"] {
        create(&node.writer, policy(name, "few")).await.expect("there is room");
    }
    let writer = behind(&node, |other| async move {
        create(&other, policy("f", "few")).await.expect("the last one");
    });
    assert_eq!(reason(create(&writer, policy("g", "few")).await).0, Reason::QuotaExceeded);
}

#[tokio::test]
async fn a_namespace_does_not_go_while_something_comes_into_it() {
    let node = Node::new();
    create(&node.writer, object("Namespace", "", "team", json!({}))).await.expect("a good namespace");
    let writer = behind(&node, |other| async move {
        create(&other, object("Thing", "team", "web", json!({}))).await.expect("its namespace is there");
    });
    assert!(!delete(&writer, "Namespace", "team").await.expect("is marked"), "it waits");

    create(&node.writer, object("Namespace", "", "other", json!({}))).await.expect("a good namespace");
    let writer = behind(&node, |other| async move {
        assert!(delete(&other, "Namespace", "other").await.expect("nothing is in it"));
    });
    let refused = create(&writer, object("Thing", "other", "web", json!({}))).await;
    assert_eq!(reason(refused).0, Reason::NotFound);
}

/// The tasks that follow definitions do not run here: a node may be as far behind as it likes.
#[tokio::test]
async fn a_kind_that_was_defined_elsewhere_is_read_at_once() {
    let node = Node::new();
    let catalog = Arc::new(Catalog::built_in());
    let definitions = Arc::new(Definitions::new(node.writer.reader.store.clone(), catalog.clone()));
    let elsewhere = Reader { catalog, definitions, ..node.writer.reader.clone() };
    create(&node.writer, definition("lakes", "Lake")).await.expect("a good definition");
    create(&node.writer, object("Lake", "", "deep", json!({}))).await.expect("its kind is there");
    let key = pb::ObjectKey { kind: "Lake".into(), namespace: String::new(), name: "deep".into() };
    elsewhere.get(pb::GetRequest { key: Some(key), ..Default::default() }).await.expect("is read");
    let found = elsewhere.list(pb::ListRequest { kind: "Lake".into(), ..Default::default() }).await;
    assert_eq!(found.expect("is listed").objects.len(), 1);
    let watched = elsewhere.watch(pb::WatchRequest { kind: "Lake".into(), ..Default::default() }).await;
    drop(watched.expect("is watched"));

    delete(&node.writer, "Lake", "deep").await.expect("is deleted");
    delete(&node.writer, "KindDefinition", "lakes").await.expect("has no objects");
    let request = pb::ListRequest { kind: "Lake".into(), ..Default::default() };
    assert_eq!(reason(elsewhere.list(request).await.map(drop)).0, Reason::Invalid);
}

#[tokio::test]
async fn a_watch_ends_with_the_definition_of_its_kind() {
    let node = Node::new();
    create(&node.writer, definition("lakes", "Lake")).await.expect("a good definition");
    let request =
        pb::WatchRequest { kind: "Lake".into(), bookmark_interval_ms: 100, ..pb::WatchRequest::default() };
    let mut watch = node.writer.reader.watch(request).await.expect("is watched");
    delete(&node.writer, "KindDefinition", "lakes").await.expect("has no objects");
    node.writer.reader.rules().await.expect("the definitions are read");
    let ended = async {
        while let Some(answer) = watch.next().await {
            let answer = pb::WatchResponse::decode(&answer.encode_to_vec()[..]).expect("an answer");
            if let Some(error) = answer.events.into_iter().find_map(|it| it.error) {
                return error;
            }
        }
        panic!("ends without a reason");
    };
    let error = tokio::time::timeout(Duration::from_secs(30), ended).await.expect("ends");
    assert_eq!(error.reason(), Reason::Invalid);
    assert!(error.message.contains("no longer served"), "{}", error.message);
}

/// Past all rules, as an earlier version may have stored it.
fn store(node: &Node, key: &'static str, value: bytes::Bytes) {
    let put = Op::Put { key: key.into(), value, lease: LeaseId::NONE };
    let commit = Commit { ops: vec![put], ..Commit::default() };
    node.local.apply(Command::Commit(Arc::new(commit))).expect("is stored");
}

#[tokio::test]
async fn whatever_removes_a_definition_finds_the_objects_of_its_kind() {
    let node = Node::new();
    let mut lakes = definition("lakes", "Lake");
    lakes.metadata.as_mut().expect("it has some").finalizers = vec!["example.com/wait".to_owned()];
    create(&node.writer, lakes).await.expect("a good definition");
    assert!(!delete(&node.writer, "KindDefinition", "lakes").await.expect("is marked"));
    let deep = object("Lake", "default", "deep", json!({}));
    store(&node, "/setpoint.v1/Lake/default/deep", deep.encode_to_vec().into());
    let key = pb::ObjectKey { kind: "KindDefinition".into(), name: "lakes".into(), ..Default::default() };
    let patch = r#"{"metadata":{"finalizers":[]}}"#.into();
    let last = pb::PatchRequest { key: Some(key), patch, ..Default::default() };
    let removed = node.writer.patch(last.clone(), &Caller::default()).await;
    assert_eq!(reason(removed).0, Reason::Conflict);
    let key = pb::ObjectKey { kind: "Lake".into(), name: "deep".into(), ..Default::default() };
    let request = pb::DeleteRequest { key: Some(key), ..Default::default() };
    node.writer.delete(request, &Caller::default()).await.expect("can be deleted still");
    node.writer.patch(last, &Caller::default()).await.expect("has no objects");
}

#[tokio::test]
async fn definitions_that_an_earlier_version_stored_are_in_force() {
    let (node, earlier) = (Node::new(), policy("few", "too many"));
    store(&node, "/setpoint.v1/AdmissionPolicy//few", earlier.encode_to_vec().into());
    let refused = create(&node.writer, object("Thing", "", "web", json!({"replicas": 9}))).await;
    assert_eq!(reason(refused), (Reason::Invalid, "too many (policy few)".to_owned()));
}
