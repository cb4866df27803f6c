//! Kinds and policies that users define: once one is acknowledged, no write through any node is decided without it.

use serde_json::{Value, json};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::status::error_of;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::{Testbed, patiently};
use tonic::Status;

fn object(kind: &str, name: &str, spec: &Value) -> pb::Object {
    let labels = [("app".to_owned(), "web".to_owned())].into();
    let metadata = pb::Metadata { name: name.into(), labels, ..Default::default() };
    pb::Object {
        kind: kind.into(),
        metadata: Some(metadata),
        spec: spec.to_string().into(),
        ..Default::default()
    }
}

fn definition(plural: &str, kind: &str) -> pb::Object {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    object(
        "KindDefinition",
        plural,
        &json!({"names": {"kind": kind, "plural": plural}, "schema": schema, "unknownFields": "Preserve"}),
    )
}

/// What became of a request: done, or refused for a reason that is not the cluster's momentary state.
type Settled<T> = Result<T, Reason>;

/// Asks until the answer is one: an election may be under way. A write whose answer was lost is repeated, not done twice.
async fn settled<T, F: Future<Output = Result<T, Status>>>(mut ask: impl FnMut() -> F) -> Settled<T> {
    patiently(|| {
        let asked = ask();
        async {
            match asked.await {
                Ok(answer) => Ok(Ok(answer)),
                Err(status) => match error_of(&status).map(|error| error.reason()) {
                    Some(Reason::Unavailable | Reason::Timeout | Reason::TooManyRequests) | None => {
                        Err(status)
                    }
                    Some(reason) => Ok(Err(reason)),
                },
            }
        }
    })
    .await
}

async fn create(client: &Client, object: pb::Object) -> Settled<u64> {
    let name = object.metadata.as_ref().map(|it| it.name.clone()).unwrap_or_default();
    let options = pb::WriteOptions { operation: format!("{}/{name}", object.kind), ..Default::default() };
    let request = pb::CreateRequest { object: Some(object), options: Some(options) };
    settled(|| async { Ok(client.objects().create(request.clone()).await?.into_inner().revision) }).await
}

async fn delete(client: &Client, kind: &str, name: &str) -> Settled<bool> {
    let key = Some(pb::ObjectKey { kind: kind.into(), name: name.into(), ..Default::default() });
    let options = Some(pb::WriteOptions { operation: format!("delete {kind}/{name}"), ..Default::default() });
    let request = pb::DeleteRequest { key, options, ..Default::default() };
    settled(|| async { Ok(client.objects().delete(request.clone()).await?.into_inner().gone) }).await
}

async fn list(client: &Client, kind: &str, labels: &str) -> Settled<usize> {
    let request = pb::ListRequest { kind: kind.into(), label_selector: labels.into(), ..Default::default() };
    settled(|| async { Ok(client.objects().list(request.clone()).await?.into_inner().objects.len()) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_was_acknowledged_binds_the_next_write_through_every_node() {
    let bed = Testbed::start("a_rule_binds_every_node").await;
    for round in 0..10 {
        let forbidden = format!("no-{round}");
        let expression = format!("object.metadata.name != '{forbidden}'");
        let spec =
            json!({"match": {"kinds": ["PriorityClass"]}, "validations": [{"expression": expression}]});
        let maker = &bed.clients[round % 3];
        create(maker, object("AdmissionPolicy", &forbidden, &spec)).await.expect("a good policy");
        let writers = [&bed.clients[(round + 1) % 3], &bed.clients[(round + 2) % 3]];
        let class = || object("PriorityClass", &forbidden, &json!({"value": 1}));
        let (one, other) = tokio::join!(create(writers[0], class()), create(writers[1], class()));
        assert_eq!((one, other), (Err(Reason::Invalid), Err(Reason::Invalid)), "round {round}");
    }
    bed.hashes_agree(0).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_is_served_by_every_node_as_soon_as_it_is_defined() {
    let bed = Testbed::start("a_kind_is_served_at_once").await;
    for round in 0..6 {
        let (plural, kind) = (format!("lakes{round}"), format!("Lake{round}"));
        create(&bed.clients[round % 3], definition(&plural, &kind)).await.expect("a good definition");
        let (reader, writer) = (&bed.clients[(round + 1) % 3], &bed.clients[(round + 2) % 3]);
        assert_eq!(list(reader, &kind, "").await, Ok(0), "round {round}");
        create(writer, object(&kind, "deep", &json!({}))).await.expect("its kind is there");
        for client in &bed.clients {
            assert_eq!(list(client, &kind, "app=web").await, Ok(1), "round {round}");
        }
    }
    bed.hashes_agree(0).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_writes_that_exclude_each_other_one_is_refused() {
    let bed = Testbed::start("writes_that_exclude_each_other").await;
    for round in 0..8 {
        // One name for two kinds.
        let kind = format!("Same{round}");
        let (a, b) = (format!("same{round}as"), format!("same{round}bs"));
        let (one, other) = tokio::join!(
            create(&bed.clients[0], definition(&a, &kind)),
            create(&bed.clients[1], definition(&b, &kind)),
        );
        assert!(one.is_ok() != other.is_ok(), "round {round}: {one:?}, {other:?}");
        let plural = if one.is_ok() { a } else { b };

        // The definition goes, or gets an object.
        let (gone, made) = tokio::join!(
            delete(&bed.clients[1], "KindDefinition", &plural),
            create(&bed.clients[2], object(&kind, "last", &json!({}))),
        );
        assert!(gone.is_ok() != made.is_ok(), "round {round}: {gone:?}, {made:?}");
        let left = list(&bed.clients[0], &kind, "").await;
        assert_eq!(left, if made.is_ok() { Ok(1) } else { Err(Reason::Invalid) }, "round {round}");

        // The namespace goes, or gets an object; or it is marked because the object came first.
        let space = format!("team{round}");
        create(&bed.clients[0], object("Namespace", &space, &json!({}))).await.expect("a good namespace");
        let mut inside = object("Lease", "door", &json!({"ttlSeconds": 10}));
        inside.metadata.as_mut().expect("it has some").namespace = space.clone();
        inside.metadata.as_mut().expect("it has some").name = format!("door{round}");
        let (gone, made) =
            tokio::join!(delete(&bed.clients[1], "Namespace", &space), create(&bed.clients[2], inside),);
        assert_eq!(gone.expect("it is deleted, or marked"), made.is_err(), "round {round}: {made:?}");
    }
    bed.hashes_agree(0).await;
    bed.no_panics();
}
