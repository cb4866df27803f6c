//! Two writers who disagree about one field, each through a node of its own.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::object::{get, key, object, options, settled};
use setpoint_cluster_tests::testbed::Testbed;

const WORKLOAD: &str = "Workload";

fn workload(replicas: u32, image: bool) -> pb::Object {
    let template = if image { r#","template":{"image":"web:1"}"# } else { "" };
    object(WORKLOAD, "web", &format!(r#"{{"replicas":{replicas}{template}}}"#))
}

async fn apply(
    client: &Client,
    manager: &str,
    replicas: u32,
    force: bool,
) -> Result<pb::ApplyResponse, pb::Error> {
    let request = pb::ApplyRequest {
        object: Some(workload(replicas, manager == "ci")),
        options: options(manager, ""),
        force,
        status: false,
    };
    settled(std::slice::from_ref(client), |client| {
        let request = request.clone();
        async move { client.objects().apply(request).await.map(tonic::Response::into_inner) }
    })
    .await
}

async fn update(client: &Client, manager: &str, replicas: u32) {
    let request = pb::UpdateRequest { object: Some(workload(replicas, true)), options: options(manager, "") };
    settled(std::slice::from_ref(client), |client| {
        let request = request.clone();
        async move { client.objects().update(request).await.map(drop) }
    })
    .await
    .expect("an update asks nobody");
}

async fn replicas(client: &Client) -> String {
    let one = std::slice::from_ref(client);
    let found = settled(one, |client| async move { get(&client, WORKLOAD, "web").await }).await;
    let spec = String::from_utf8_lossy(&found.expect("it exists").spec).into_owned();
    spec.split("\"replicas\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap_or("").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_apply_one_of_two_writers_is_told_of_the_other_and_without_nobody_is() {
    let bed = Testbed::start("with_apply_one_of_two_writers").await;
    let [ci, autoscaler, reader] = [&bed.clients[0], &bed.clients[1], &bed.clients[2]];
    apply(ci, "ci", 5, false).await.expect("nobody owns anything yet");
    let refused = apply(autoscaler, "autoscaler", 3, false).await.expect_err("ci says 5");
    assert_eq!(refused.reason(), Reason::Conflict, "{refused:?}");
    let owner = pb::FieldConflict { path: ".spec.replicas".into(), manager: "ci".into(), value: "5".into() };
    assert_eq!(refused.conflicts, std::slice::from_ref(&owner));
    assert!(refused.message.contains(".spec.replicas") && refused.message.contains("ci"), "{refused:?}");
    assert_eq!(replicas(reader).await, "5", "nothing was changed");
    // Whoever insists is told what it took; then it is the other's turn to be told.
    let taken = apply(autoscaler, "autoscaler", 3, true).await.expect("force takes");
    assert_eq!(taken.taken, [owner]);
    let refused = apply(ci, "ci", 5, false).await.expect_err("the autoscaler says 3");
    assert_eq!(refused.conflicts[0].manager, "autoscaler");
    assert_eq!(replicas(reader).await, "3");

    // Without ownership both succeed for ever, and the number goes back and forth.
    let mut expected = Vec::new();
    for _ in 0..3 {
        for (client, manager, count) in [(ci, "ci", 5), (autoscaler, "autoscaler", 3)] {
            update(client, manager, count).await;
            expected.push((manager.to_owned(), count.to_string()));
            assert_eq!(replicas(reader).await, count.to_string(), "the last one wins");
        }
    }
    let history = settled(&bed.clients[2..], |client| async move {
        let request = pb::HistoryRequest { key: Some(key(WORKLOAD, "web")), limit: 6, before: 0 };
        client.objects().history(request).await.map(tonic::Response::into_inner)
    });
    let told = history.await.expect("its history").versions.into_iter().rev().map(|version| {
        let spec = String::from_utf8_lossy(&version.object.unwrap_or_default().spec).into_owned();
        let count = if spec.contains("\"replicas\":5") { "5" } else { "3" };
        (version.author.unwrap_or_default().manager, count.to_owned())
    });
    assert_eq!(told.collect::<Vec<_>>(), expected, "only history shows the fight");
    bed.no_panics();
}
