//! How many requests that wait for a lease may be of one client.

use setpoint_access::TallyOptions;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_apiserver::access::Caller;
use setpoint_apiserver::coordination::CoordinationLimits;
use setpoint_apiserver::objects::Refusal;
use tokio::task::JoinHandle;

use crate::kit::{Node, settle};

fn acquire(
    node: &Node,
    from: [u8; 4],
    holder: &str,
    wait_ms: u32,
) -> JoinHandle<Result<pb::AcquireResponse, Refusal>> {
    let caller = Caller { source: Some((from, 1).into()), ..Caller::default() };
    let coordinator = node.coordinator.clone();
    let request = pb::AcquireRequest {
        lease: "lease".to_owned(),
        holder: holder.to_owned(),
        ttl_seconds: 3_000,
        wait_ms,
        ..pb::AcquireRequest::default()
    };
    tokio::spawn(async move { coordinator.acquire(request, &caller).await })
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_much_leaves_others_a_place_to_wait() {
    const ONE: [u8; 4] = [127, 0, 0, 1];
    const OTHER: [u8; 4] = [127, 0, 0, 2];
    let waiters = TallyOptions { client_max: 1, max: 4 };
    let node = Node::with(CoordinationLimits { waiters, ..CoordinationLimits::default() });
    assert!(acquire(&node, ONE, "a", 0).await.expect("no panic").is_ok_and(|it| it.acquired));
    let waits = acquire(&node, ONE, "b", 50_000);
    settle().await;
    let refused = acquire(&node, ONE, "c", 50_000).await.expect("no panic").expect_err("its share is taken");
    assert_eq!(refused.reason(), Reason::TooManyRequests, "{refused}");
    let other = acquire(&node, OTHER, "d", 50_000);
    settle().await;
    assert!(!waits.is_finished() && !other.is_finished());
    waits.abort();
    settle().await;
    let again = acquire(&node, ONE, "c", 50_000);
    settle().await;
    assert!(!again.is_finished(), "the place it left is free");
}
