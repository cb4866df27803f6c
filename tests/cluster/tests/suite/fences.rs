//! A holder that paused and was replaced can write nothing more: by no method, through no node, under no leader (C3, S23).

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::guard::Guard;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::object::{THING, define_things, get, key, object, options, revision_of, settled};
use setpoint_cluster_tests::testbed::{Testbed, patiently};
use tonic::Status;

const LEASE: &str = "duty";
/// What every fenced write is about; it exists before.
const KEPT: &str = "kept";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Create,
    Update,
    UpdateStatus,
    Apply,
    ApplyStatus,
    Patch,
    PatchStatus,
    Transact,
    /// With the fence as a guard and not as an option.
    Guarded,
    /// Nothing but a ledger is written.
    Reserve,
    /// The object already is as asked.
    NoChange,
    Delete,
}

const METHODS: [Method; 12] = [
    Method::Create,
    Method::Update,
    Method::UpdateStatus,
    Method::Apply,
    Method::ApplyStatus,
    Method::Patch,
    Method::PatchStatus,
    Method::Transact,
    Method::Guarded,
    Method::Reserve,
    Method::NoChange,
    Method::Delete,
];

fn thing(name: &str, number: usize) -> pb::Object {
    object(THING, name, &format!(r#"{{"replicas":{number}}}"#))
}

fn with_status(number: usize) -> pb::Object {
    pb::Object { status: format!(r#"{{"ready":{number}}}"#).into(), ..thing(KEPT, 0) }
}

/// One write under the fence. `number` is another one each time.
async fn write(client: &Client, method: Method, epoch: u64, number: usize) -> Result<(), Status> {
    let mut objects = client.objects();
    let fence = pb::Fence { namespace: String::new(), lease: LEASE.into(), epoch };
    let operation = format!("{method:?}-{epoch}-{number}");
    let mut options = options("holder", &operation).unwrap_or_default();
    if method != Method::Guarded {
        options.fence = Some(fence.clone());
    }
    let options = Some(options);
    let new = thing(&operation.to_lowercase(), number);
    let transact = |writes: Vec<Write>, guards: Vec<pb::Guard>| {
        let writes = writes.into_iter().map(|write| pb::Write { write: Some(write) }).collect();
        pb::TransactRequest { guards, writes, options: options.clone() }
    };
    match method {
        Method::Create => objects.create(pb::CreateRequest { object: Some(new), options }).await.map(drop),
        Method::Update | Method::NoChange => {
            let object = match method {
                Method::Update => thing(KEPT, number),
                _ => get(client, THING, KEPT)
                    .await
                    .map(|it| pb::Object { status: Default::default(), ..it })?,
            };
            objects.update(pb::UpdateRequest { object: Some(object), options }).await.map(drop)
        }
        Method::UpdateStatus => {
            let request = pb::UpdateRequest { object: Some(with_status(number)), options };
            objects.update_status(request).await.map(drop)
        }
        Method::Apply | Method::ApplyStatus => {
            let status = method == Method::ApplyStatus;
            let object = Some(if status { with_status(number) } else { thing(KEPT, number) });
            objects.apply(pb::ApplyRequest { object, options, force: true, status }).await.map(drop)
        }
        Method::Patch | Method::PatchStatus => {
            let status = method == Method::PatchStatus;
            let part = if status { r#"{"status":{"ready":"# } else { r#"{"spec":{"replicas":"# };
            let patch = format!("{part}{number}}}}}").into();
            let key = Some(key(THING, KEPT));
            objects
                .patch(pb::PatchRequest { key, patch, options, status, ..Default::default() })
                .await
                .map(drop)
        }
        Method::Transact => {
            let writes = vec![Write::Update(thing(KEPT, number)), Write::Create(new)];
            objects.transact(transact(writes, Vec::new())).await.map(drop)
        }
        Method::Guarded => {
            let guards = vec![pb::Guard { guard: Some(Guard::Fence(fence)) }];
            objects.transact(transact(vec![Write::Create(new)], guards)).await.map(drop)
        }
        Method::Reserve => {
            let amounts = [("cpu".to_owned(), number as i64)].into();
            let reserve = pb::Reserve { ledger: "pool".into(), owner: "holder".into(), amounts };
            objects.transact(transact(vec![Write::Reserve(reserve)], Vec::new())).await.map(drop)
        }
        Method::Delete => {
            let key = Some(key(THING, KEPT));
            objects.delete(pb::DeleteRequest { key, options, ..Default::default() }).await.map(drop)
        }
    }
}

/// The methods that are not refused as fenced off, and what became of them.
async fn unfenced(client: &Client, epoch: u64, number: usize) -> Vec<(Method, Option<Reason>)> {
    let mut found = Vec::new();
    for (place, method) in METHODS.into_iter().enumerate() {
        let number = number * 100 + place + 1;
        let one = std::slice::from_ref(client);
        match settled(one, |client| async move { write(&client, method, epoch, number).await }).await {
            Ok(()) => found.push((method, None)),
            Err(error) if error.reason() == Reason::Fenced => {
                assert!(
                    error.held.is_some_and(|held| held.epoch > epoch),
                    "{method:?}: who holds it is told"
                );
            }
            Err(error) => found.push((method, Some(error.reason()))),
        }
    }
    found
}

async fn acquire(client: &Client, holder: &str, ttl_seconds: u32) -> pb::AcquireResponse {
    loop {
        let answer = patiently(|| async {
            let request = pb::AcquireRequest {
                lease: LEASE.into(),
                holder: holder.into(),
                ttl_seconds,
                wait_ms: 10_000,
                ..Default::default()
            };
            Ok(client.coordination().acquire(request).await?.into_inner())
        })
        .await;
        if answer.acquired {
            return answer;
        }
    }
}

async fn prepare(bed: &Testbed) {
    define_things(&bed.clients).await;
    let limits = [("*".to_owned(), 1_000_000)].into();
    let limits = Write::Limits(pb::LedgerLimits { ledger: "pool".into(), limits });
    let writes = [limits, Write::Create(thing(KEPT, 0))].map(|write| pb::Write { write: Some(write) });
    let request = pb::TransactRequest {
        writes: writes.into(),
        options: options("test", "prepare"),
        guards: Vec::new(),
    };
    settled(&bed.clients, |client| {
        let request = request.clone();
        async move { client.objects().transact(request).await.map(drop) }
    })
    .await
    .expect("prepared");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_holder_writes_nothing_by_any_method_on_any_node() {
    let mut bed = Testbed::start("a_replaced_holder_writes_nothing").await;
    prepare(&bed).await;
    let first = acquire(&bed.clients[0], "first", 2).await;
    // The first holder pauses here, and says nothing for longer than its lease lasts.
    let second = acquire(&bed.clients[1], "second", 2).await;
    assert!(second.epoch > first.epoch);
    let before = patiently(|| get(&bed.clients[0], THING, KEPT)).await;
    let things = patiently(|| count(&bed.clients[0])).await;
    for (node, client) in bed.clients.iter().enumerate() {
        assert_eq!(unfenced(client, first.epoch, node + 1).await, [], "through node {}", node + 1);
    }
    let (leader, term) = bed.leader().await;
    bed.kill(leader);
    let rest: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    let (_, later) = bed.leader_among(&rest).await;
    assert!(later > term);
    for node in rest {
        assert_eq!(unfenced(&bed.clients[node], first.epoch, node + 11).await, [], "under the new leader");
    }
    bed.restart(leader).await;
    assert_eq!(unfenced(&bed.clients[leader], first.epoch, 21).await, [], "through the old leader");
    let after = patiently(|| get(&bed.clients[leader], THING, KEPT)).await;
    assert_eq!(revision_of(&after), revision_of(&before), "nothing was changed");
    assert_eq!(patiently(|| count(&bed.clients[leader])).await, things, "nothing was made");
    // The check can fail: whoever holds the lease gets everything through.
    let third = acquire(&bed.clients[leader], "third", 600).await;
    let passed = unfenced(&bed.clients[leader], third.epoch, 31).await;
    assert_eq!(passed, METHODS.map(|method| (method, None)), "the holder's own writes");
    bed.hashes_agree(0).await;
    bed.no_panics();
}

async fn count(client: &Client) -> Result<usize, Status> {
    let request = pb::ListRequest { kind: THING.into(), ..Default::default() };
    Ok(client.objects().list(request).await?.into_inner().objects.len())
}
