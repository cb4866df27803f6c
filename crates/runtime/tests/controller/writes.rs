//! Read your writes: no run before the caches have seen what the last one wrote.

use std::time::Duration;

use setpoint_runtime::{Action, ControllerSettings};
use tokio::time::sleep;

use crate::rig::{PART, Result, Rig, Seen, create_part, object, settle};
use crate::server::Store;

/// Wants one part, and names it anew each time: whoever does not see the first makes a second.
async fn want_one_part(run: &setpoint_runtime::Run, seen: Seen) -> Result {
    if seen.parts.is_empty() {
        create_part(run, &seen, &format!("part-{}", seen.run)).await?;
    }
    Ok(Action::Done)
}

fn parked(rig: &Rig) -> f64 {
    rig.metric("setpoint_controller_parked{controller=\"rig\"}")
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_cache_has_what_it_wrote_and_no_worker_waits_with_it() {
    let store = Store::default();
    let mut rig = Rig::start(&store, |it| it, |run, seen| Box::pin(want_one_part(run, seen))).await;
    store.hold(PART, true);
    object(&store, "a", 1);
    rig.ran(1).await;
    // A change of its own comes through; the part does not.
    object(&store, "a", 2);
    sleep(Duration::from_secs(5)).await;
    assert_eq!((rig.runs("a"), parked(&rig)), (1, 1.0), "L3: it would not see its part");
    object(&store, "b", 1);
    settle().await;
    assert_eq!(rig.runs("b"), 1, "the worker has other keys");
    store.hold(PART, false);
    rig.ran(3).await;
    settle().await;
    assert_eq!((store.names(PART).len(), parked(&rig)), (2, 0.0), "one for each");
    rig.stop().await.expect("in order");
}

#[tokio::test(start_paused = true)]
async fn after_a_write_of_unknown_outcome_a_key_waits_for_a_later_revision() {
    for swallowed in [false, true] {
        let store = Store::default();
        let mut rig = Rig::start(
            &store,
            |it| it,
            move |run, seen| {
                Box::pin(async move {
                    let outcome = want_one_part(run, seen).await;
                    // Whoever does not look at the error is kept from its own haste as well.
                    if swallowed { Ok(Action::Done) } else { outcome }
                })
            },
        )
        .await;
        store.hold(PART, true);
        store.lose_answers(1000);
        object(&store, "a", 1);
        rig.ran(1).await;
        // The write was done at once, its answers are lost until the client gives up.
        sleep(Duration::from_secs(40)).await;
        store.lose_answers(0);
        object(&store, "a", 2);
        sleep(Duration::from_secs(5)).await;
        assert_eq!((rig.runs("a"), store.names(PART).len()), (1, 1), "L3: it may have been done");
        assert!(store.lists() > 0, "it asked for the present revision");
        store.hold(PART, false);
        rig.ran(2).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(store.names(PART).len(), 1, "swallowed: {swallowed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_dropped_in_a_write_is_in_doubt_too() {
    let store = Store::default();
    let settings = ControllerSettings { timeout_ms: 5_000, ..Default::default() };
    let mut rig =
        Rig::start(&store, |it| it.settings(settings), |run, seen| Box::pin(want_one_part(run, seen))).await;
    store.hold(PART, true);
    store.lose_answers(1000);
    object(&store, "a", 1);
    rig.ran(1).await;
    sleep(Duration::from_secs(20)).await;
    store.lose_answers(0);
    assert_eq!((rig.runs("a"), store.names(PART).len()), (1, 1));
    store.hold(PART, false);
    rig.ran(2).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(store.names(PART).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_restored_cluster_has_forgotten_is_not_waited_for_for_ever() {
    let store = Store::default();
    let mut rig = Rig::start(&store, |it| it, |run, seen| Box::pin(want_one_part(run, seen))).await;
    store.hold(PART, true);
    object(&store, "a", 1);
    rig.ran(1).await;
    settle().await;
    assert_eq!(parked(&rig), 1.0);
    store.restore(5);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(parked(&rig), 0.0);
}
