//! A node that has just started serves and obeys what users have defined before, also before it has compiled it by itself.

use std::sync::Arc;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_apiserver::access::Caller;
use setpoint_apiserver::objects::Catalog;
use setpoint_apiserver::objects::definitions::Definitions;
use tokio_util::sync::CancellationToken;

use crate::kit::Node;

const KIND: &str = r#"{"names":{"kind":"Database","plural":"databases"},"schema":{"type":"object","properties":{
    "spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}"#;
const POLICY: &str = r#"{"match":{"kinds":["PriorityClass"]},"validations":[{"expression":"false","message":"no"}],
    "actions":["Deny"]}"#;

async fn create(node: &Node, kind: &str, name: &str, spec: &str) -> Result<(), Reason> {
    let metadata = Some(pb::Metadata { name: name.into(), ..Default::default() });
    let spec = spec.to_owned().into();
    let object = Some(pb::Object { kind: kind.into(), metadata, spec, ..Default::default() });
    let options = Some(pb::WriteOptions { operation: name.into(), ..Default::default() });
    let done = node.writer.create(pb::CreateRequest { object, options }, &Caller::default()).await;
    done.map(drop).map_err(|refusal| refusal.reason())
}

/// The same store, with nothing compiled yet.
fn restart(node: &mut Node) {
    let (store, catalog) = (node.writer.reader.store.clone(), Arc::new(Catalog::built_in()));
    node.writer.reader.catalog = catalog.clone();
    node.writer.reader.definitions = Arc::new(Definitions::new(store, catalog));
}

#[tokio::test]
async fn a_node_that_has_just_started_knows_what_was_defined_before() {
    let mut node = Node::new();
    create(&node, "KindDefinition", "databases", KIND).await.expect("a kind");
    create(&node, "AdmissionPolicy", "closed", POLICY).await.expect("a policy");
    create(&node, "Database", "main", r#"{"size":1}"#).await.expect("one of the kind");

    restart(&mut node);
    let refused = create(&node, "PriorityClass", "high", r#"{"value":1}"#).await;
    assert_eq!(refused, Err(Reason::Invalid), "the policy is in force");

    restart(&mut node);
    let reader = node.writer.reader.clone();
    let unknown = reader.list(pb::ListRequest { kind: "Nothing".into(), ..Default::default() }).await;
    assert_eq!(unknown.map(drop).map_err(|refusal| refusal.reason()), Err(Reason::Invalid));
    // What compiles them runs, and has not come to it yet.
    let stop = CancellationToken::new();
    let (hub, halt) = (reader.hub.clone(), reader.halt.clone());
    tokio::spawn(node.writer.reader.definitions.clone().run(hub, halt, stop.clone()));
    let listed = reader.list(pb::ListRequest { kind: "Database".into(), ..Default::default() }).await;
    assert_eq!(listed.map(|it| it.objects.len()).map_err(|refusal| refusal.reason()), Ok(1));

    restart(&mut node);
    let (hub, halt) = (reader.hub.clone(), reader.halt.clone());
    tokio::spawn(node.writer.reader.definitions.clone().run(hub, halt, stop.clone()));
    let again = create(&node, "Database", "main", r#"{"size":1}"#).await;
    assert_eq!(again, Ok(()), "its operation is answered as the first time");
    stop.cancel();
}
