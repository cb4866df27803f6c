//! Leases: they expire and take their keys along, never early, whatever happens to the leader.

use std::time::{Duration, Instant};

use setpoint_api::etcdserverpb as pb;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::{Testbed, patiently};
use tonic::Status;

/// The seconds a lease has left, or -1 if there is none.
async fn time_to_live(client: &Client, id: i64) -> Result<i64, Status> {
    let ask = pb::LeaseTimeToLiveRequest { id, keys: true };
    Ok(client.lease().lease_time_to_live(ask).await?.into_inner().ttl)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_expires_everywhere_and_takes_its_keys() {
    let bed = Testbed::start("a_lease_expires_everywhere").await;
    let begun = Instant::now();
    let lease = patiently(|| bed.clients[1].grant(3)).await;
    for key in ["a", "b"] {
        patiently(|| bed.clients[2].put_with_lease(key, "leased", lease)).await;
    }
    bed.until("the keys are gone", || async {
        bed.clients[0].get("a").await.is_ok_and(|value| value.is_none())
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_secs(3), "the lease ended after {:?}", begun.elapsed());
    for client in &bed.clients {
        assert_eq!(patiently(|| client.get("b")).await, None);
        assert_eq!(patiently(|| time_to_live(client, lease)).await, -1);
    }
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_outlives_its_leader_and_is_kept_alive_through_followers() {
    let mut bed = Testbed::start("a_lease_outlives_its_leader").await;
    let (leader, _) = bed.leader().await;
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    // Before the leases begin: what is asserted is only that they do not end early.
    let granted = Instant::now();
    let kept = patiently(|| bed.clients[one].grant(6)).await;
    let left = patiently(|| bed.clients[other].grant(6)).await;
    patiently(|| bed.clients[one].put_with_lease("kept", "v", kept)).await;
    patiently(|| bed.clients[one].put_with_lease("left", "v", left)).await;
    bed.kill(leader);
    let mut gone_after = None;
    while granted.elapsed() < Duration::from_secs(10) || gone_after.is_none() {
        assert!(granted.elapsed() < Duration::from_secs(60), "the other lease never expires");
        // An election may be under way.
        let renewed = bed.clients[one].keep_alive(kept).await;
        assert!(!matches!(renewed, Ok(0)), "the lease that is kept alive ended");
        if gone_after.is_none() && bed.clients[other].get("left").await.is_ok_and(|value| value.is_none()) {
            gone_after = Some(granted.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(gone_after >= Some(Duration::from_secs(6)), "the other lease ended early, after {gone_after:?}");
    assert_eq!(patiently(|| bed.clients[one].get("kept")).await.as_deref(), Some("v"));
    bed.restart(leader).await;
    assert_eq!(patiently(|| bed.clients[leader].get("kept")).await.as_deref(), Some("v"));
    bed.hashes_agree(0).await;
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deposed_leader_says_nothing_of_the_leases_it_remembers() {
    let bed = Testbed::start("a_deposed_leader_says_nothing").await;
    let lease = patiently(|| bed.clients[0].grant(3600)).await;
    let (leader, _) = bed.leader().await;
    let (alone, rest) = (&bed.clients[leader], [(leader + 1) % 3, (leader + 2) % 3]);
    assert!(patiently(|| alone.keep_alive(lease)).await > 0, "the leader counts the lease");
    bed.mesh.split(&[leader]);
    // At once, when it still takes itself for the leader, and when another has revoked the lease.
    for revoked in [false, true] {
        if revoked {
            bed.leader_among(&rest).await;
            bed.until("the lease is revoked", || async {
                let request = pb::LeaseRevokeRequest { id: lease };
                let done = bed.clients[rest[0]].lease().lease_revoke(request).await;
                done.map_or_else(|status| status.message().contains("lease not found"), |_| true)
            })
            .await;
        }
        let (renewed, left) = tokio::join!(alone.keep_alive(lease), time_to_live(alone, lease));
        assert!(renewed.is_err(), "a minority renewed a lease (revoked: {revoked}): {renewed:?}");
        assert!(left.is_err(), "a minority told of a lease (revoked: {revoked}): {left:?}");
    }
    bed.mesh.heal();
    assert_eq!(patiently(|| alone.keep_alive(lease)).await, 0);
    assert_eq!(patiently(|| time_to_live(alone, lease)).await, -1);
    bed.no_panics();
}
