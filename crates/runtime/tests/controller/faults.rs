//! Runs that go wrong: each is contained, tried again with a pause, and shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_runtime::{Action, ControllerSettings, ReconcileError};
use tokio::time::sleep;

use crate::rig::{KIND, NAMESPACE, PART, Rig, Setup, create_part, object, settle, update_self};
use crate::server::Store;

fn results(rig: &Rig, result: &str) -> f64 {
    rig.metric(&format!("setpoint_controller_reconciles_total{{controller=\"rig\",result=\"{result}\"}}"))
}

/// The loop's condition of the object, as `reason`.
fn stalled(store: &Store, name: &str) -> Option<String> {
    let status = store.status(KIND, NAMESPACE, name);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let stalled = conditions.into_iter().find(|it| it["type"] == "Stalled");
    stalled.map(|it| it["reason"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_later_and_later_shows_it_and_takes_that_back() {
    let store = Store::default();
    object(&store, "a", 1);
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = broken.clone();
    let rig = Rig::start(
        &store,
        |it| it,
        move |_, _| {
            let broken = is_broken.load(Ordering::Relaxed);
            Box::pin(
                async move { if broken { Err(ReconcileError::retry("no luck")) } else { Ok(Action::Done) } },
            )
        },
    )
    .await;
    sleep(Duration::from_secs(1)).await;
    assert!((3..=7).contains(&rig.runs("a")), "{}", rig.runs("a"));
    assert_eq!(stalled(&store, "a"), None, "a few failures are nothing to speak of");
    sleep(Duration::from_secs(60)).await;
    assert!((9..=13).contains(&rig.runs("a")), "L2: no hot loop: {}", rig.runs("a"));
    assert_eq!(stalled(&store, "a").as_deref(), Some("Failing"));
    let attempts: Vec<u32> = rig.began().iter().map(|began| began.attempt).collect();
    assert!(attempts.is_sorted() && attempts[0] == 1 && attempts.last() > Some(&8));
    // One write for the condition, and none while it stays so.
    assert_eq!(store.asked().len(), 1);
    assert_eq!(store.asked()[0].manager, "rig/runtime");
    broken.store(false, Ordering::Relaxed);
    object(&store, "a", 2);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((stalled(&store, "a"), store.asked().len()), (None, 2));
    let runs = rig.runs("a");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.runs("a"), runs, "the loop's own condition wakes nobody");
    assert_eq!(results(&rig, "retry"), (runs - 1) as f64);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_succeed_is_left_alone_until_it_changes() {
    let store = Store::default();
    object(&store, "a", 1);
    let rig = Rig::start(
        &store,
        |it| it,
        |_, seen| {
            Box::pin(async move {
                match seen.object.spec["size"].as_u64() {
                    Some(1) => Err(ReconcileError::terminal("BadSize", "one is too small")),
                    _ => Ok(Action::Done),
                }
            })
        },
    )
    .await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!((rig.runs("a"), stalled(&store, "a").as_deref()), (1, Some("BadSize")));
    object(&store, "a", 2);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((rig.runs("a"), stalled(&store, "a")), (2, None));
    assert_eq!((results(&rig, "terminal"), results(&rig, "done")), (1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_in_a_run_is_contained() {
    for phase in ["observe", "plan", "execute"] {
        let store = Store::default();
        object(&store, "a", 1);
        let setup = Setup { panics_in: Some(phase), ..Setup::default() };
        let rig = Rig::with(
            setup,
            &store,
            |_, it| it,
            move |_, _| {
                Box::pin(async move {
                    assert!(phase != "execute", "as the test wants it");
                    Ok(Action::Done)
                })
            },
        )
        .await;
        sleep(Duration::from_secs(60)).await;
        assert!((8..=13).contains(&rig.runs("a")), "{phase}: {}", rig.runs("a"));
        assert_eq!(stalled(&store, "a").as_deref(), Some("Failing"), "{phase}");
        assert_eq!(results(&rig, "panic"), rig.runs("a") as f64);
        object(&store, "b", 1);
        sleep(Duration::from_secs(1)).await;
        assert!(rig.runs("b") > 0, "the worker lives");
        rig.stop().await.expect("in order");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_hangs_is_dropped_in_time_and_others_go_on() {
    let store = Store::default();
    object(&store, "hangs", 1);
    let settings = ControllerSettings { timeout_ms: 5_000, concurrency: 2, ..Default::default() };
    let mut rig = Rig::start(
        &store,
        |it| it.settings(settings),
        |run, _| {
            let hangs = run.key().name() == "hangs";
            Box::pin(async move { if hangs { std::future::pending().await } else { Ok(Action::Done) } })
        },
    )
    .await;
    rig.ran(1).await;
    object(&store, "b", 1);
    settle().await;
    assert_eq!(rig.runs("b"), 1);
    sleep(Duration::from_secs(60)).await;
    assert!((8..=11).contains(&rig.runs("hangs")), "{}", rig.runs("hangs"));
    let active = rig.metric("setpoint_controller_active_workers{controller=\"rig\"}");
    assert_eq!(results(&rig, "timeout") + active, rig.runs("hangs") as f64);
}

#[tokio::test(start_paused = true)]
async fn senseless_results_make_no_hot_loop() {
    let store = Store::default();
    object(&store, "now", 1);
    object(&store, "never", 1);
    let settings = ControllerSettings { requeue_max_ms: 20_000, ..Default::default() };
    let rig = Rig::start(
        &store,
        |it| it.settings(settings),
        |run, _| {
            let after = if run.key().name() == "now" { Duration::ZERO } else { Duration::MAX };
            Box::pin(async move { Ok(Action::RequeueAfter(after)) })
        },
    )
    .await;
    sleep(Duration::from_secs(10)).await;
    assert!((90..=101).contains(&rig.runs("now")), "L2: {}", rig.runs("now"));
    sleep(Duration::from_secs(12)).await;
    assert_eq!(rig.runs("never"), 2, "a hundred years are not waited for");
    let clamped = rig.metric("setpoint_controller_clamped_total{controller=\"rig\"}");
    assert_eq!(clamped as usize, rig.began().len());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_vanishes_in_the_middle_is_done_after_one_more_look() {
    let store = Store::default();
    object(&store, "a", 1);
    let vanishing = store.clone();
    let rig = Rig::start(
        &store,
        |it| it,
        move |run, seen| {
            vanishing.remove(KIND, NAMESPACE, "a");
            Box::pin(async move {
                update_self(run, &seen).await?;
                Ok(Action::Done)
            })
        },
    )
    .await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!((rig.runs("a"), store.gets()), (1, 1));
    assert_eq!((results(&rig, "gone"), results(&rig, "retry")), (1.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_discards_the_plan_and_is_retried_soon() {
    let store = Store::default();
    object(&store, "a", 1);
    let meddling = store.clone();
    let mut rig = Rig::start(
        &store,
        |it| it,
        move |run, seen| {
            if seen.run == 1 {
                meddling.put(KIND, NAMESPACE, "a", "meddler", json!({"size": 2}));
            }
            Box::pin(async move {
                update_self(run, &seen).await?;
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(2).await;
    assert!(rig.began()[1].at < Duration::from_millis(200));
    settle().await;
    let object = store.get(KIND, NAMESPACE, "a").expect("it is there");
    let spec: Value = serde_json::from_slice(&object.spec).expect("JSON");
    assert_eq!(spec["size"], 2, "the plan for size 1 was not carried out");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_for_minutes_costs_a_few_attempts_and_no_key() {
    let store = Store::default();
    for number in 0..5 {
        object(&store, &format!("k{number}"), 1);
    }
    let mut rig = Rig::start(
        &store,
        |it| it,
        |run, seen| {
            Box::pin(async move {
                let name = format!("{}-{}", seen.object.metadata.name, seen.object.spec["size"]);
                if !seen.parts.contains(&name) {
                    create_part(run, &seen, &name).await?;
                }
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(10).await;
    settle().await;
    let before = rig.began().len();
    // Two are on their way when it goes, three change meanwhile.
    object(&store, "k0", 2);
    object(&store, "k1", 2);
    sleep(Duration::from_millis(1)).await;
    store.down(true);
    for number in 2..5 {
        object(&store, &format!("k{number}"), 2);
    }
    sleep(Duration::from_secs(300)).await;
    assert!(rig.began().len() - before < 40, "L2: no hot loop: {}", rig.began().len() - before);
    store.down(false);
    sleep(Duration::from_secs(330)).await;
    let parts = store.names(PART);
    let wanted: Vec<String> = (0..5).flat_map(|it| [format!("k{it}-1"), format!("k{it}-2")]).collect();
    assert_eq!(parts, wanted, "L1: every key has come to its last state");
    assert_eq!(rig.metric("setpoint_controller_parked{controller=\"rig\"}"), 0.0);
}
