//! Objects as the tests use them: a kind of their own, short requests, and what a refusal means.

use std::time::{Duration, Instant};

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::read_at::At;
use setpoint_api::status::error_of;
use tonic::Status;

use crate::client::Client;
use crate::testbed::PATIENCE;

/// The tests' kind: small, and with a field that selectors may name.
pub const THING: &str = "Thing";
const DEFINITION: &str = r#"{"names":{"kind":"Thing","plural":"things"},"selectableFields":["spec.zone"],"schema":{
    "type":"object","properties":{
        "spec":{"type":"object","properties":{
            "replicas":{"type":"integer"},"zone":{"type":"string"},"note":{"type":"string"}}},
        "status":{"type":"object","properties":{"ready":{"type":"integer"}}}}}}"#;
const POLL: Duration = Duration::from_millis(50);

/// Defines the kind, and waits until every node serves it.
pub async fn define_things(clients: &[Client]) {
    let definition = object("KindDefinition", "things", DEFINITION);
    let request = pb::CreateRequest { object: Some(definition), options: options("test", "define-things") };
    settled(&clients[..1], |client| {
        let request = request.clone();
        async move { client.objects().create(request).await.map(drop) }
    })
    .await
    .expect("the definition is taken");
    for client in clients {
        let one = std::slice::from_ref(client);
        settled(one, |client| async move {
            let list = pb::ListRequest { kind: THING.into(), ..Default::default() };
            match client.objects().list(list).await {
                Err(status) if reason(&status) == Some(Reason::Invalid) => {
                    Err(Status::unavailable("not served yet"))
                }
                other => other.map(drop),
            }
        })
        .await
        .expect("the kind is served");
    }
}

pub fn object(kind: &str, name: &str, spec: &str) -> pb::Object {
    let metadata = pb::Metadata { name: name.into(), ..Default::default() };
    pb::Object {
        kind: kind.into(),
        metadata: Some(metadata),
        spec: spec.to_owned().into(),
        ..Default::default()
    }
}

pub fn metadata(object: &mut pb::Object) -> &mut pb::Metadata {
    object.metadata.get_or_insert_default()
}

pub fn key(kind: &str, name: &str) -> pb::ObjectKey {
    pb::ObjectKey { kind: kind.into(), namespace: String::new(), name: name.into() }
}

pub fn options(manager: &str, operation: &str) -> Option<pb::WriteOptions> {
    Some(pb::WriteOptions { manager: manager.into(), operation: operation.into(), ..Default::default() })
}

pub fn exactly(revision: u64) -> Option<pb::ReadAt> {
    Some(pb::ReadAt { at: Some(At::Exact(revision)) })
}

pub async fn get(client: &Client, kind: &str, name: &str) -> Result<pb::Object, Status> {
    let request = pb::GetRequest { key: Some(key(kind, name)), ..Default::default() };
    Ok(client.objects().get(request).await?.into_inner().object.unwrap_or_default())
}

pub fn revision_of(object: &pb::Object) -> u64 {
    object.metadata.as_ref().map_or(0, |metadata| metadata.revision)
}

pub fn reason(status: &Status) -> Option<Reason> {
    error_of(status).map(|error| error.reason())
}

/// The refusal, if the node has decided something; none if the write may have happened, or can be asked for again.
pub fn refusal(status: &Status) -> Option<pb::Error> {
    let passing = |reason| matches!(reason, Reason::Unavailable | Reason::Timeout | Reason::TooManyRequests);
    error_of(status).filter(|error| !passing(error.reason()))
}

/// Asks one node after the other until one of them has decided.
pub async fn settled<T, F: Future<Output = Result<T, Status>>>(
    clients: &[Client],
    mut ask: impl FnMut(Client) -> F,
) -> Result<T, pb::Error> {
    let deadline = Instant::now() + PATIENCE;
    for client in clients.iter().cycle() {
        match ask(client.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(status) => match refusal(&status) {
                Some(error) => return Err(error),
                None => assert!(Instant::now() < deadline, "nobody answers: {status:?}"),
            },
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("there is no node to ask")
}
