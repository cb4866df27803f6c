//! How objects go on a cluster: at once, after their finalizers, after their parts; and what is waited for is told by
//! every node, also after all of them were killed.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::delete_request::Propagation;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::object::{THING, define_things, get, key, metadata, object, options, settled};
use setpoint_cluster_tests::testbed::{PATIENCE, Testbed, patiently};

const FOREGROUND: &str = "setpoint/foreground";
const ORPHAN: &str = "setpoint/orphan";
const OWN: &str = "example.com/cleanup";

async fn create(
    client: &Client,
    name: &str,
    finalizers: &[&str],
    owner: Option<(&pb::Object, bool)>,
) -> pb::Object {
    let mut thing = object(THING, name, "{}");
    metadata(&mut thing).finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect();
    if let Some((owner, blocks)) = owner {
        let it = owner.metadata.clone().unwrap_or_default();
        let reference = pb::OwnerReference {
            kind: THING.into(),
            name: it.name,
            uid: it.uid,
            controller: false,
            block_owner_deletion: blocks,
        };
        metadata(&mut thing).owners = vec![reference];
    }
    let request =
        pb::CreateRequest { object: Some(thing), options: options("test", &format!("create-{name}")) };
    let made = settled(std::slice::from_ref(client), |client| {
        let request = request.clone();
        async move { client.objects().create(request).await.map(tonic::Response::into_inner) }
    });
    made.await.expect("created").object.unwrap_or_default()
}

async fn delete(
    client: &Client,
    name: &str,
    how: Propagation,
    operation: &str,
) -> Result<pb::DeleteResponse, pb::Error> {
    let (key, options) = (Some(key(THING, name)), options("test", operation));
    let request = pb::DeleteRequest { key, propagation: how.into(), options, ..Default::default() };
    settled(std::slice::from_ref(client), |client| {
        let request = request.clone();
        async move { client.objects().delete(request).await.map(tonic::Response::into_inner) }
    })
    .await
}

/// What a deletion waits for, as text: `finalizer: part part`.
fn waits_for(answer: &pb::DeleteResponse) -> Vec<String> {
    let told = |blocker: &pb::Blocker| {
        let mut parts: Vec<&str> = blocker.dependents.iter().map(|it| it.name.as_str()).collect();
        parts.sort_unstable();
        let parts = parts.join(" ");
        if parts.is_empty() { blocker.finalizer.clone() } else { format!("{}: {parts}", blocker.finalizer) }
    };
    let mut said: Vec<String> = answer.blockers.iter().map(told).collect();
    said.sort_unstable();
    said
}

/// Every node says the same, to a deletion that is asked for once more.
async fn all_say(bed: &Testbed, name: &str, how: Propagation, expected: &[String]) {
    for client in &bed.clients {
        let answer = delete(client, name, how, "").await.expect("it is still there");
        assert!(!answer.gone && waits_for(&answer) == expected, "{name}: {answer:?}, not {expected:?}");
    }
}

/// Removes one finalizer, as whoever has done its part does.
async fn release(client: &Client, name: &str, finalizer: &str) {
    let released = settled(std::slice::from_ref(client), |client| async move {
        let mut thing = get(&client, THING, name).await?;
        metadata(&mut thing).finalizers.retain(|it| it != finalizer);
        let request = pb::UpdateRequest { object: Some(thing), options: options("collector", "") };
        client.objects().update(request).await.map(drop)
    });
    if let Err(error) = released.await {
        // Its first answer may have been lost.
        assert_eq!(error.reason(), Reason::NotFound, "{error:?}");
    }
}

async fn is_gone(client: &Client, name: &str) -> bool {
    let one = std::slice::from_ref(client);
    let found = settled(one, |client| async move { get(&client, THING, name).await }).await;
    found.is_err_and(|error| error.reason() == Reason::NotFound)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_wait_for_what_every_node_can_name() {
    let mut bed = Testbed::start("deletions_wait_for_what").await;
    define_things(&bed.clients).await;
    let [one, two, three] = [bed.clients[0].clone(), bed.clients[1].clone(), bed.clients[2].clone()];

    // In the background: it goes now, its parts stay for the collector.
    let plain = create(&one, "plain", &[], None).await;
    create(&two, "plain-part", &[], Some((&plain, true))).await;
    let answer = delete(&three, "plain", Propagation::Background, "delete-plain").await.expect("deleted");
    assert!(answer.gone && answer.blockers.is_empty(), "{answer:?}");
    assert!(is_gone(&two, "plain").await && !is_gone(&one, "plain-part").await);
    let again =
        delete(&one, "plain", Propagation::Background, "delete-plain").await.expect("the first answer");
    assert!(again.repeated && again.gone && again.revision == answer.revision, "{again:?}");

    // With finalizers, in the foreground and as orphans: it waits, and says for what.
    create(&one, "kept", &[OWN, "example.com/other"], None).await;
    let whole = create(&two, "whole", &[], None).await;
    for (name, blocks) in [("part-a", true), ("part-b", true), ("part-c", false)] {
        create(&three, name, &[], Some((&whole, blocks))).await;
    }
    let parent = create(&one, "parent", &[OWN], None).await;
    create(&two, "child", &[], Some((&parent, false))).await;
    let cases = [
        ("kept", Propagation::Background, vec![OWN.to_owned(), "example.com/other".to_owned()]),
        ("whole", Propagation::Foreground, vec![format!("{FOREGROUND}: part-a part-b")]),
        ("parent", Propagation::Orphan, vec![OWN.to_owned(), format!("{ORPHAN}: child")]),
    ];
    for (name, how, expected) in &cases {
        let first = delete(&two, name, *how, &format!("delete-{name}")).await.expect("it begins");
        assert!(!first.gone && waits_for(&first) == *expected, "{first:?}");
        all_say(&bed, name, *how, expected).await;
        let again = delete(&three, name, *how, &format!("delete-{name}")).await.expect("the first answer");
        assert!(
            again.repeated && again.revision == first.revision && waits_for(&again) == *expected,
            "{again:?}"
        );
    }
    // The check can fail: another deletion waits for something else.
    assert_ne!(cases[0].2, cases[1].2);

    // What has begun is not undone by the end of every process.
    (0..3).for_each(|node| bed.kill(node));
    (0..3).for_each(|node| bed.start_node(node));
    for node in 0..3 {
        bed.ready(node).await;
    }
    for (name, how, expected) in &cases {
        all_say(&bed, name, *how, expected).await;
    }
    let mut kept = patiently(|| get(&one, THING, "kept")).await;
    metadata(&mut kept).finalizers.push("example.com/late".into());
    let request = pb::UpdateRequest { object: Some(kept), options: options("test", "") };
    let refused = settled(std::slice::from_ref(&two), |client| {
        let request = request.clone();
        async move { client.objects().update(request).await.map(drop) }
    });
    let refused = refused.await.expect_err("no finalizer is added any more");
    assert!(refused.problems[0].path.contains("example.com/late"), "{refused:?}");

    // Each goes with its last finalizer, and watchers are shown its last state.
    let watch = pb::WatchRequest { kind: THING.into(), initial_state: true, ..Default::default() };
    let mut events =
        patiently(|| async { Ok(three.objects().watch(watch.clone()).await?.into_inner()) }).await;
    release(&two, "kept", OWN).await;
    all_say(&bed, "kept", Propagation::Background, &["example.com/other".to_owned()]).await;
    release(&one, "kept", "example.com/other").await;
    release(&three, "whole", FOREGROUND).await;
    release(&one, "parent", ORPHAN).await;
    release(&two, "parent", OWN).await;
    for name in ["kept", "whole", "parent"] {
        for client in &bed.clients {
            assert!(is_gone(client, name).await, "{name}");
        }
    }
    let mut gone = Vec::new();
    let watching = async {
        while gone.len() < 3 {
            for event in events.message().await.expect("the watch goes on").expect("and does not end").events
            {
                if event.r#type() == Type::Deleted {
                    let last = event.object.and_then(|it| it.metadata).unwrap_or_default();
                    assert!(last.deleted_ms.is_some() && last.revision == event.revision, "{last:?}");
                    gone.push(last.name);
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, watching).await.expect("three deletions are seen");
    assert_eq!(gone, ["kept", "whole", "parent"]);
    bed.hashes_agree(0).await;
    bed.no_panics();
}
