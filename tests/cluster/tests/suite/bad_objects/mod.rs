//! Requests of the object API that are wrong in every way: each gets a reason of its own, names what is wrong, and changes
//! nothing.
//!
//! Not here: etcd's services (`input`), and what each refusal says in full (golden scripts of the crates).

mod ask;
mod cases;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_api::status::error_of;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use tonic::Status;

use ask::{Ask, answer, apply, create, create_with, key, object, refused, reserve, thing, transact, with};

/// A kind with a field of every sort that can be wrong.
const THING: &str = r#"{
    "names": {"kind": "Thing", "plural": "things"}, "selectableFields": ["spec.size"],
    "schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "maximum": 100},
            "size": {"type": "string", "x-setpoint-immutable": true},
            "zones": {"type": "array", "x-setpoint-list-type": "set", "items": {"type": "string"}},
            "free": {"type": "object", "x-setpoint-preserve-unknown": true}},
            "x-setpoint-rules": [{"rule": "!has(self.replicas) || self.replicas != 13", "message": "bad luck"}]},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}}"#;

/// What the cases are about.
pub struct Scene {
    /// Of a list that has moved on since.
    pub stale: String,
    /// Of a list that goes on.
    pub token: String,
    /// Of a hold that ran out.
    pub expired: u64,
    pub uid: String,
    pub child: String,
}

async fn done(client: &Client, ask: Ask) {
    patiently(|| async {
        match answer(client, ask.clone()).await {
            // What was done before the answer was lost is done.
            Err(status) if error_of(&status).is_some_and(|it| it.reason() == Reason::AlreadyExists) => Ok(()),
            answer => answer,
        }
    })
    .await;
}

async fn acquire(client: &Client, lease: &str, holder: &str, ttl_seconds: u32) -> u64 {
    let (lease, holder) = (lease.to_owned(), holder.to_owned());
    let request = pb::AcquireRequest { lease, holder, ttl_seconds, wait_ms: 20_000, ..Default::default() };
    let acquired = patiently(|| async {
        let answer = client.coordination().acquire(request.clone()).await?.into_inner();
        if answer.acquired { Ok(answer) } else { Err(Status::unavailable("held by another")) }
    });
    acquired.await.epoch
}

async fn uid(client: &Client, name: &str) -> String {
    let request = pb::GetRequest { key: key("Thing", name), ..Default::default() };
    let got = patiently(|| async { client.objects().get(request.clone()).await }).await.into_inner();
    got.object.and_then(|it| it.metadata).expect("it is there").uid
}

async fn page(client: &Client) -> String {
    let request = pb::ListRequest { kind: "Thing".into(), limit: 1, ..Default::default() };
    let page = patiently(|| async { client.objects().list(request.clone()).await }).await;
    page.into_inner().r#continue
}

async fn scene(client: &Client) -> Scene {
    done(client, create(object("KindDefinition", "things", THING))).await;
    done(client, apply(thing("web", r#"{"replicas":1,"size":"a","zones":["x"]}"#), "owner")).await;
    done(client, create(thing("parent", "{}"))).await;
    let parent = pb::OwnerReference {
        kind: "Thing".into(),
        name: "parent".into(),
        uid: uid(client, "parent").await,
        ..Default::default()
    };
    done(client, create(with(thing("child", "{}"), |it| it.owners = vec![parent]))).await;
    let stale = page(client).await;
    let limits = pb::LedgerLimits { ledger: "desk".into(), limits: [("cpu".to_owned(), 4)].into() };
    done(client, transact(vec![], vec![Write::Limits(limits), reserve("one", 3)])).await;
    let used = pb::WriteOptions { operation: "used".into(), ..Default::default() };
    done(client, create_with(thing("first", "{}"), used)).await;
    let policy = r#"{"match":{"kinds":["Thing"]},"validations":[{"expression":
        "!has(object.spec.replicas) || object.spec.replicas != 7","message":"no sevens","path":".spec.replicas"}]}"#;
    done(client, create(object("AdmissionPolicy", "no-sevens", policy))).await;
    // The second holder comes once the time of the first is up, or its release.
    let first = acquire(client, "door", "first", 600).await;
    let release = pb::ReleaseRequest {
        namespace: String::new(),
        lease: "door".into(),
        holder: "first".into(),
        epoch: first,
    };
    patiently(|| async { client.coordination().release(release.clone()).await }).await;
    assert_eq!((first, acquire(client, "door", "second", 600).await), (1, 2));
    let expired = acquire(client, "short", "silent", 1).await;
    patiently(|| async {
        let holders =
            client.coordination().holders(pb::HoldersRequest::default()).await?.into_inner().holders;
        let held = holders.iter().any(|it| it.lease == "short");
        if held { Err(Status::unavailable("still held")) } else { Ok(()) }
    })
    .await;
    let newest = patiently(|| client.revision()).await;
    patiently(|| client.compact(newest)).await;
    let (uid, child) = (uid(client, "parent").await, uid(client, "child").await);
    Scene { stale, token: page(client).await, expired, uid, child }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bad_request_names_what_is_wrong_and_changes_nothing() {
    let bed = Testbed::start_with("every_bad_request_names_what_is_wrong", Setup::of(1)).await;
    let client = &bed.clients[0];
    let scene = scene(client).await;
    let before = patiently(|| client.revision()).await;
    let some = [cases::malformed(), cases::names(), cases::fields(&scene), cases::reads(&scene)];
    let more = [
        cases::conditions(),
        cases::definitions(),
        cases::transactions(),
        cases::holds(&scene),
        cases::patches(),
    ];
    let mut wrong = Vec::new();
    for (name, ask, reason, names) in some.into_iter().chain(more).flatten() {
        let error = refused(client, name, &ask, reason).await;
        if error.reason() != reason || error.message.is_empty() || !names.are_in(&error) {
            wrong.push(format!("{name}: expected {} and {names:?}, got {error:?}", reason.as_str_name()));
        }
        let after = patiently(|| client.revision()).await;
        assert_eq!(after, before, "{name} changed something");
    }
    assert!(wrong.is_empty(), "{} of the answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    bed.no_panics();
}
