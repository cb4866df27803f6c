//! Ordinary clients over a connection: generated types, codes and details of refusals.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use setpoint_access::Authorizer;
use setpoint_api::raw::v1::objects_server::ObjectsServer;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_api::status::error_of;
use setpoint_apiserver::access::{Gate, Roles};
use setpoint_apiserver::objects::ObjectsService;
use setpoint_apiserver::objects::write::{CommitError, Commits, Turns, WriteLimits, Writer};
use setpoint_consensus::SystemClock;
use setpoint_store::Committed;
use setpoint_store::commit::Commit;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};

use crate::kit::{Draft, Node, small_limits};

/// Nothing is written here over the wire.
struct Nowhere;

impl Commits for Nowhere {
    fn commit(&self, _: Arc<Commit>, _: usize) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(std::future::ready(Err(CommitError::NoSpace)))
    }
}

pub async fn serve(node: &Node) -> ObjectsClient<Channel> {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("an address");
    let writer = Writer {
        reader: node.reader.clone(),
        roles: Arc::new(Roles::new(node.reader.store.clone(), Arc::new(Authorizer::off()))),
        commits: Arc::new(Nowhere),
        clock: Arc::new(SystemClock),
        turns: Arc::new(Turns::new(0)),
        draw: Arc::new(|| 0),
        limits: WriteLimits::default(),
    };
    let (reader, gate) = (node.reader.clone(), Gate::open());
    let service = ObjectsServer::new(ObjectsService { reader, writer, gate });
    let incoming = TcpIncoming::from(socket);
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    ObjectsClient::connect(format!("http://{address}")).await.expect("it listens")
}

fn draft(name: &str) -> Draft {
    let (kind, namespace, name) = ("Replica".into(), "default".into(), name.into());
    let labels = vec![("app".into(), "web".into())];
    Draft { kind, namespace, name, labels, spec: r#"{"nodeName":"n1"}"#.into(), status: "{}".into() }
}

fn key(name: &str) -> Option<pb::ObjectKey> {
    Some(pb::ObjectKey { kind: "Replica".into(), namespace: "default".into(), name: name.into() })
}

#[tokio::test]
async fn ordinary_clients_read_what_was_stored() {
    let mut node = Node::new(1 << 20, small_limits());
    node.commit(vec![draft("a").put(), draft("b").put()]);
    let mut client = serve(&node).await;

    let got = client.get(pb::GetRequest { key: key("a"), ..Default::default() }).await.expect("it is there");
    let object = got.into_inner().object.expect("an object");
    let metadata = object.metadata.expect("metadata");
    assert_eq!((metadata.name.as_str(), metadata.revision), ("a", 2));
    assert_eq!(metadata.labels["app"], "web");
    assert_eq!(&object.spec[..], br#"{"nodeName":"n1"}"#);

    let request = pb::ListRequest {
        kind: "Replica".into(),
        field_selector: "spec.nodeName=n1".into(),
        metadata_only: true,
        ..Default::default()
    };
    let listed = client.list(request).await.expect("a list").into_inner();
    assert_eq!((listed.objects.len(), listed.revision), (2, 2));
    assert!(listed.objects.iter().all(|object| object.spec.is_empty() && object.kind == "Replica"));

    let request = pb::WatchRequest { kind: "Replica".into(), initial_state: true, ..Default::default() };
    let mut watch = client.watch(request).await.expect("a watch").into_inner();
    let mut seen = Vec::new();
    node.commit(vec![draft("a").delete()]);
    while seen.len() < 4 {
        let answer = tokio::time::timeout(Duration::from_secs(30), watch.message()).await;
        let answer = answer.expect("in time").expect("no error").expect("the stream goes on");
        seen.extend(answer.events);
    }
    let types: Vec<_> = seen.iter().map(pb::WatchEvent::r#type).collect();
    assert_eq!(types, [Type::Added, Type::Added, Type::Bookmark, Type::Deleted]);
    assert_eq!(seen[3].author.as_ref().expect("an author").principal, "user:jane");
    assert_eq!(seen[3].object.as_ref().and_then(|it| it.metadata.as_ref()).expect("its state").revision, 3);
}

#[tokio::test]
async fn refusals_carry_their_reason_in_the_details_of_the_status() {
    let node = Node::new(1 << 20, small_limits());
    let mut client = serve(&node).await;
    let missing = client.get(pb::GetRequest { key: key("a"), ..Default::default() }).await;
    let status = missing.expect_err("there is none");
    assert_eq!(status.code(), Code::NotFound);
    let error = error_of(&status).expect("details");
    assert_eq!((error.reason(), error.object), (pb::Reason::NotFound, key("a")));

    let bad = pb::ListRequest { kind: "Replica".into(), label_selector: "a in".into(), ..Default::default() };
    let status = client.list(bad).await.expect_err("no selector");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(error_of(&status).expect("details").problems[0].path, "label_selector");

    let status = client.create(pb::CreateRequest::default()).await.expect_err("nothing to create");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(error_of(&status).expect("details").problems[0].path, "object");
}
