//! Lease objects: a holder that fell silent is fenced off on every node, and a change of leader takes no lease away.

use std::time::{Duration, Instant};

use setpoint_api::etcdserverpb as etcd;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::status::error_of;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use tonic::Status;

const LEASE: &str = "duty";

async fn acquire(client: &Client, holder: &str, wait_ms: u32) -> Result<pb::AcquireResponse, Status> {
    let request = pb::AcquireRequest {
        lease: LEASE.into(),
        holder: holder.into(),
        ttl_seconds: 4,
        wait_ms,
        ..Default::default()
    };
    Ok(client.coordination().acquire(request).await?.into_inner())
}

async fn keep(client: &Client, holder: &str, epoch: u64) -> Result<pb::KeepAliveResponse, Status> {
    let observed = [("Node".to_owned(), 1)].into();
    let (lease, holder) = (LEASE.into(), holder.into());
    let request = pb::KeepAliveRequest { namespace: String::new(), lease, holder, epoch, observed };
    let mut answers = client.coordination().keep_alive(tokio_stream::once(request)).await?.into_inner();
    answers.message().await?.ok_or_else(|| Status::unavailable("the stream ended"))
}

/// Creates an object with a fence.
async fn write(client: &Client, name: &str, epoch: u64) -> Result<u64, Status> {
    let metadata = pb::Metadata { name: name.into(), ..Default::default() };
    let spec = "{}".into();
    let object =
        pb::Object { kind: "Namespace".into(), metadata: Some(metadata), spec, ..Default::default() };
    let fence = Some(pb::Fence { namespace: String::new(), lease: LEASE.into(), epoch });
    // So that one whose answer was lost can be sent again.
    let options = pb::WriteOptions { fence, operation: name.into(), ..Default::default() };
    let request = pb::CreateRequest { object: Some(object), options: Some(options) };
    Ok(client.objects().create(request).await?.into_inner().revision)
}

/// The reason of a refusal, asked for until it is one: an election may be under way.
async fn refused(client: &Client, name: &str, epoch: u64) -> Reason {
    patiently(|| async {
        match write(client, name, epoch).await {
            Ok(revision) => {
                panic!("{name} was written at revision {revision}, with the fence of epoch {epoch}")
            }
            Err(status) => match error_of(&status).map(|error| error.reason()) {
                Some(Reason::Unavailable | Reason::Timeout | Reason::TooManyRequests) | None => Err(status),
                Some(reason) => Ok(reason),
            },
        }
    })
    .await
}

async fn object(client: &Client) -> Result<String, Status> {
    let key = pb::ObjectKey { kind: "Lease".into(), name: LEASE.into(), ..Default::default() };
    let request = pb::GetRequest { key: Some(key), ..Default::default() };
    let object = client.objects().get(request).await?.into_inner().object.unwrap_or_default();
    Ok(String::from_utf8_lossy(&object.status).into_owned())
}

/// True if the object and the leader tell of the holder.
async fn is_told(client: &Client) -> Result<bool, Status> {
    let holders = client.coordination().holders(pb::HoldersRequest::default()).await?.into_inner().holders;
    let seen = holders.iter().any(|it| it.lease == LEASE && it.observed.get("Node") == Some(&1));
    Ok(seen && object(client).await?.contains("\"holder\":\"holder\""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_holder_is_fenced_off_through_every_node() {
    let bed = Testbed::start("a_silent_holder_is_fenced_off").await;
    let first = patiently(|| acquire(&bed.clients[0], "first", 0)).await;
    assert!(first.acquired);
    // The first holder says no more. The second waits on another node, as often as it takes.
    let second = loop {
        let answer = patiently(|| acquire(&bed.clients[1], "second", 10_000)).await;
        if answer.acquired {
            break answer;
        }
    };
    assert!(second.epoch > first.epoch, "{second:?} after {first:?}");
    for (node, client) in bed.clients.iter().enumerate() {
        for write in 0..3 {
            let reason = refused(client, &format!("late-{node}-{write}"), first.epoch).await;
            assert_eq!(reason, Reason::Fenced);
        }
        let kept = patiently(|| keep(client, "first", first.epoch)).await;
        assert!(!kept.held && kept.epoch >= second.epoch, "{kept:?}");
        let asked = patiently(|| acquire(client, "first", 0)).await;
        assert!(!asked.acquired || asked.epoch > second.epoch, "{asked:?}");
    }
    bed.hashes_agree(0).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_outlives_the_leader_and_ends_once_nobody_keeps_it() {
    let mut bed = Testbed::start("a_hold_outlives_the_leader").await;
    let (leader, _) = bed.leader().await;
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    // When it was last kept, or before: its time is counted from a later moment on.
    let (begun, mut kept_at) = (Instant::now(), Instant::now());
    let mut held = patiently(|| acquire(&bed.clients[one], "holder", 0)).await;
    assert!(held.acquired);
    bed.kill(leader);
    // On a machine that is busy enough nobody keeps a lease. What must not be is that the leader's end costs it.
    while begun.elapsed() < Duration::from_secs(10) {
        let asked = Instant::now();
        match keep(&bed.clients[one], "holder", held.epoch).await {
            Ok(kept) if kept.held => kept_at = asked,
            Ok(kept) => {
                assert!(kept_at.elapsed() >= Duration::from_secs(4), "lost, although it was kept: {kept:?}");
                kept_at = Instant::now();
                held = patiently(|| acquire(&bed.clients[one], "holder", 10_000)).await;
            }
            // An election may be under way.
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    bed.until("the new leader tells who holds it and what that one has seen", || async {
        let Ok(again) = acquire(&bed.clients[one], "holder", 1_000).await else { return false };
        let kept = keep(&bed.clients[one], "holder", again.epoch).await;
        kept.is_ok_and(|kept| kept.held) && is_told(&bed.clients[other]).await.unwrap_or(false)
    })
    .await;
    bed.until("the object tells that nobody holds it", || async {
        object(&bed.clients[other]).await.is_ok_and(|status| !status.contains("\"holder\":"))
    })
    .await;
    assert_eq!(refused(&bed.clients[one], "late", held.epoch).await, Reason::Fenced);
    bed.restart(leader).await;
    assert_eq!(refused(&bed.clients[leader], "later", held.epoch).await, Reason::Fenced);
    bed.hashes_agree(0).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_keep_alive_does_not_end_the_stream_of_the_others() {
    let bed = Testbed::start_with("a_bad_keep_alive", Setup::of(1)).await;
    let client = &bed.clients[0];
    let epoch = patiently(|| acquire(client, "one", 0)).await.epoch;
    let request = |lease: &str| pb::KeepAliveRequest {
        lease: lease.into(),
        holder: "one".into(),
        epoch,
        ..Default::default()
    };
    let requests = tokio_stream::iter([request("NO SUCH NAME"), request(LEASE)]);
    let mut answers = client.coordination().keep_alive(requests).await.expect("a stream").into_inner();
    let bad = answers.message().await.expect("an answer").expect("the first");
    let error = bad.error.expect("it is wrong");
    assert_eq!((bad.held, error.reason()), (false, Reason::Invalid), "{error:?}");
    let good = answers.message().await.expect("an answer").expect("the second");
    assert!(good.held && good.error.is_none(), "{good:?}");
}

/// Also where everybody may do everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcds_clients_can_neither_renew_nor_end_nor_share_the_lease_of_a_hold() {
    let bed = Testbed::start_with("a_hold_and_etcds_clients", Setup::of(1)).await;
    let client = &bed.clients[0];
    let taken = patiently(|| acquire(client, "a", 0)).await;
    assert!(taken.acquired, "{taken:?}");
    let leases = patiently(|| async {
        Ok(client.lease().lease_leases(etcd::LeaseLeasesRequest {}).await?.into_inner().leases)
    })
    .await;
    let [lease] = &leases[..] else { panic!("one hold, one lease: {leases:?}") };
    let id = lease.id;
    let denied = |answer: Result<(), Status>| {
        let status = answer.expect_err("nobody may");
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    };
    let keep = tokio_stream::once(etcd::LeaseKeepAliveRequest { id });
    let mut kept = client.lease().lease_keep_alive(keep).await.expect("a stream").into_inner();
    denied(kept.message().await.map(drop));
    denied(client.lease().lease_revoke(etcd::LeaseRevokeRequest { id }).await.map(drop));
    let put = etcd::PutRequest { key: "k".into(), lease: id, ..Default::default() };
    denied(client.kv().put(put).await.map(drop));
    assert_eq!(patiently(|| client.get("k")).await, None);
}
