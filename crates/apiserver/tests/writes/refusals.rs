//! What a refusal carries besides its text, and what policies note about a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_apiserver::access::Caller;
use setpoint_objects::Subresource;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::kit::Node;

fn object(kind: &str, name: &str, spec: serde_json::Value) -> pb::Object {
    let metadata = Some(pb::Metadata { name: name.to_owned(), ..pb::Metadata::default() });
    pb::Object { kind: kind.to_owned(), metadata, spec: spec.to_string().into(), ..pb::Object::default() }
}

fn create(object: pb::Object) -> pb::CreateRequest {
    pb::CreateRequest { object: Some(object), options: None }
}

#[tokio::test]
async fn a_refused_write_names_its_object() {
    let (node, caller) = (Node::new(), Caller::default());
    let web = object("Thing", "web", json!({}));
    node.writer.create(create(web.clone()), &caller).await.expect("is created");
    let again = node.writer.create(create(web.clone()), &caller).await.expect_err("is there already");
    assert_eq!(again.reason(), Reason::AlreadyExists);
    let named = again.error().object.clone().expect("an object");
    assert_eq!((named.kind.as_str(), named.name.as_str()), ("Thing", "web"));

    let mut old = web;
    old.metadata.as_mut().expect("it has some").revision = 99;
    let request = pb::UpdateRequest { object: Some(old), options: None };
    let refused = node.writer.update(request, Subresource::Main, &caller).await.expect_err("has moved on");
    assert_eq!(refused.reason(), Reason::Conflict);
    assert_eq!(refused.error().object.as_ref().expect("an object").name, "web");

    let fence = pb::Fence { namespace: "team".into(), lease: "leader".into(), epoch: 1 };
    let options = Some(pb::WriteOptions { fence: Some(fence), ..pb::WriteOptions::default() });
    let request = pb::CreateRequest { object: Some(object("Thing", "new", json!({}))), options };
    let refused = node.writer.create(request, &caller).await.expect_err("nobody holds it");
    assert_eq!(refused.error().held.as_ref().expect("the lease").namespace, "team");
}

#[tokio::test]
async fn before_a_compaction_the_oldest_kept_revision_is_the_first() {
    let node = Node::new();
    let web = create(object("Thing", "web", json!({})));
    node.writer.create(web, &Caller::default()).await.expect("is created");
    let key = pb::ObjectKey { kind: "Thing".into(), name: "web".into(), ..pb::ObjectKey::default() };
    let request = pb::HistoryRequest { key: Some(key), ..pb::HistoryRequest::default() };
    assert_eq!(node.writer.reader.history(request).await.expect("has a past").oldest_kept, 1);
}

#[tokio::test]
async fn what_cannot_be_in_a_list_or_a_watch_is_refused() {
    let node = Node::new();
    let (kind, namespace) = ("Thing".to_owned(), "NO PE".to_owned());
    let list = pb::ListRequest { kind: kind.clone(), namespace: namespace.clone(), ..Default::default() };
    let refused = node.writer.reader.list(list).await.expect_err("no such namespace can be");
    assert_eq!(refused.reason(), Reason::Invalid);
    let watch = pb::WatchRequest { kind: kind.clone(), namespace, ..Default::default() };
    let refused = node.writer.reader.watch(watch).await.err().expect("no such namespace can be");
    assert_eq!(refused.reason(), Reason::Invalid);
    let at = Some(pb::ReadAt { at: Some(pb::read_at::At::Exact(1)) });
    let watch = pb::WatchRequest { kind, at, ..Default::default() };
    let refused = node.writer.reader.watch(watch).await.err().expect("there is no state to be of a revision");
    assert_eq!(refused.reason(), Reason::Invalid);
}

/// Counts what policies note.
struct Counting(Arc<AtomicUsize>);

struct IsNote(bool);

impl Visit for IsNote {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}").contains("a policy notes a write");
    }
}

impl Subscriber for Counting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut note = IsNote(false);
        event.record(&mut note);
        self.0.fetch_add(usize::from(note.0), Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn what_policies_note_is_told_once_however_often_a_write_is_decided() {
    let (node, caller) = (Node::new(), Caller::default());
    let policy = json!({"match": {"kinds": ["Thing"]}, "actions": ["Audit"],
        "validations": [{"expression": "false", "message": "noted"}]});
    node.writer.create(create(object("AdmissionPolicy", "note", policy)), &caller).await.expect("is good");
    let noted = Arc::new(AtomicUsize::new(0));
    let _counting = tracing::subscriber::set_default(Counting(noted.clone()));
    let web = object("Thing", "web", json!({}));
    let options = Some(pb::WriteOptions { dry_run: true, ..pb::WriteOptions::default() });
    let dry = pb::CreateRequest { object: Some(web.clone()), options };
    node.writer.create(dry, &caller).await.expect("is only noted");
    assert_eq!(noted.load(Ordering::Relaxed), 1);
    node.writer.create(create(web.clone()), &caller).await.expect("is only noted");
    assert_eq!(noted.load(Ordering::Relaxed), 2);
    let same = pb::UpdateRequest { object: Some(web), options: None };
    let answer = node.writer.update(same, Subresource::Main, &caller).await.expect("is only noted");
    assert!(!answer.changed);
    assert_eq!(noted.load(Ordering::Relaxed), 3);
}
