//! Many writers of one object, none of whom names the revision it read: everybody's part is written, nobody has to ask twice.

use futures::future::try_join_all;
use setpoint_api::setpoint::v1 as pb;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::object::{THING, define_things, get, key, object};
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use tonic::Status;

const WRITERS: usize = 16;
const ROUNDS: usize = 10;

async fn write(client: Client, writer: usize) -> Result<(), Status> {
    for round in 1..=ROUNDS {
        let patch = format!(r#"{{"metadata":{{"annotations":{{"writer-{writer}":"{round}"}}}}}}"#).into();
        let request = pb::PatchRequest { key: Some(key(THING, "busy")), patch, ..Default::default() };
        client.objects().patch(request).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_object_get_their_turn() {
    let bed = Testbed::start_with("writers_of_one_object", Setup::of(1)).await;
    define_things(&bed.clients).await;
    let client = &bed.clients[0];
    let create = pb::CreateRequest { object: Some(object(THING, "busy", "{}")), ..Default::default() };
    patiently(|| async { client.objects().create(create.clone()).await }).await;
    let writers = (0..WRITERS).map(|writer| write(client.clone(), writer));
    try_join_all(writers).await.expect("every write is done");
    let busy = get(client, THING, "busy").await.expect("it is there");
    let annotations = busy.metadata.unwrap_or_default().annotations;
    assert_eq!(annotations.len(), WRITERS);
    assert!(annotations.values().all(|last| *last == ROUNDS.to_string()), "{annotations:?}");
    bed.no_panics();
}
