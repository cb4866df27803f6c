//! What makes a key run.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_runtime::cache::{Delta, Key};
use setpoint_runtime::informer::{Informers, Selection};
use setpoint_runtime::{Action, Controller, ControllerSettings, Predicate, queue};
use tokio::time::sleep;

use crate::rig::{KIND, NAMESPACE, PART, Rig, Setup, create_part, object, settle};
use crate::server::Store;

#[tokio::test(start_paused = true)]
async fn what_is_there_runs_once_then_every_change_and_many_changes_are_one_run() {
    let store = Store::default();
    object(&store, "a", 1);
    let mut rig = Rig::start(
        &store,
        |it| it,
        |_, _| {
            Box::pin(async {
                sleep(Duration::from_secs(1)).await;
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(1).await;
    for size in 2..=20 {
        object(&store, "a", size);
        settle().await;
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.runs("a"), 2, "nineteen changes during a run are one more");
    assert!(store.asked().is_empty(), "where nothing is to be done nothing is written");
    rig.stop().await.expect("in order");
}

#[tokio::test(start_paused = true)]
async fn a_part_wakes_its_owner_also_when_it_goes() {
    let store = Store::default();
    object(&store, "a", 1);
    let mut rig = Rig::start(
        &store,
        |it| it,
        |run, seen| {
            Box::pin(async move {
                if seen.run == 1 {
                    create_part(run, &seen, "a-1").await?;
                }
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(2).await;
    settle().await;
    assert_eq!(rig.began()[1].parts, 1);
    store.remove(PART, NAMESPACE, "a-1");
    rig.ran(3).await;
    assert_eq!(rig.began()[2].parts, 0);
}

#[tokio::test(start_paused = true)]
async fn any_object_can_wake_any_key_if_its_change_passes_and_a_mapping_that_panics_harms_nobody() {
    let store = Store::default();
    object(&store, "a", 1);
    let rule = |about: &str, weight: u64| {
        store.put("Rule", NAMESPACE, "r", "somebody", json!({"for": about, "weight": weight}));
    };
    rule("b", 1);
    let named = |informers: &Informers, controller: Controller| {
        let rules = informers.dynamic("Rule", true, Selection::everywhere());
        let map = |delta: &Delta, wake: &mut dyn FnMut(Key)| {
            for state in delta.states() {
                let spec: Value = state.parts().and_then(|parts| parts.spec()).expect("a rule");
                wake(Key::new(NAMESPACE, spec["for"].as_str().expect("a rule that names nobody")));
            }
        };
        controller.watches(&rules, map).only_if(Predicate::generation_changed())
    };
    let mut rig =
        Rig::with(Setup::default(), &store, named, |_, _| Box::pin(async { Ok(Action::Done) })).await;
    rig.ran(1).await;
    settle().await;
    rule("a", 1);
    rig.ran(2).await;
    // It names nobody: the mapping panics. Whoever comes next is served all the same.
    store.put("Rule", NAMESPACE, "r", "somebody", json!({"for": 3}));
    settle().await;
    assert_eq!(rig.metric("setpoint_controller_mapping_panics_total{controller=\"rig\"}"), 1.0);
    object(&store, "a", 2);
    rig.ran(3).await;
    rig.stop().await.expect("in order");
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_room_loses_no_key() {
    let store = Store::default();
    for number in 0..100 {
        object(&store, &format!("k{number}"), 1);
    }
    let queue = queue::Settings { keys_max: 10, ..Default::default() };
    let settings = ControllerSettings { queue, ..Default::default() };
    let mut rig = Rig::start(
        &store,
        |it| it.settings(settings),
        |_, _| {
            Box::pin(async {
                sleep(Duration::from_millis(10)).await;
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(100).await;
    // All at once, and more than there is room for.
    for number in 0..100 {
        object(&store, &format!("k{number}"), 2);
    }
    sleep(Duration::from_secs(60)).await;
    let left: Vec<String> = (0..100).map(|it| format!("k{it}")).filter(|it| rig.runs(it) < 2).collect();
    assert!(left.is_empty(), "L1: these did not run after their change: {left:?}");
    assert!(rig.metric("setpoint_queue_adds_overflowed_total{controller=\"rig\"}") > 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_new_goes_before_what_was_there() {
    let store = Store::default();
    for number in 0..200 {
        object(&store, &format!("k{number}"), 1);
    }
    let mut rig = Rig::start(
        &store,
        |it| it,
        |_, _| {
            Box::pin(async {
                sleep(Duration::from_secs(1)).await;
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(3).await;
    object(&store, "new", 1);
    rig.ran(6).await;
    assert_eq!(rig.runs("new"), 1, "{:?}", rig.began());
}

#[tokio::test(start_paused = true)]
async fn a_resync_runs_every_key_once_in_its_time_and_never_all_at_once() {
    let store = Store::default();
    for number in 0..50 {
        object(&store, &format!("k{number}"), 1);
    }
    let settings = ControllerSettings { resync_ms: 256_000, ..Default::default() };
    let mut rig =
        Rig::start(&store, |it| it.settings(settings), |_, _| Box::pin(async { Ok(Action::Done) })).await;
    rig.ran(50).await;
    sleep(Duration::from_secs(256)).await;
    settle().await;
    assert_eq!(rig.began().len(), 100);
    let second: Vec<u64> = rig.began()[50..].iter().map(|began| began.at.as_secs()).collect();
    let most = second.iter().map(|at| second.iter().filter(|it| *it == at).count()).max();
    assert!(most < Some(8), "{second:?}");
    assert_eq!(rig.metric("setpoint_controller_resyncs_total{controller=\"rig\"}"), 50.0);
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_in_the_trace_of_the_change_that_woke_it() {
    let store = Store::default();
    object(&store, "a", 1);
    let mut rig = Rig::start(
        &store,
        |it| it,
        |run, seen| {
            Box::pin(async move {
                if seen.parts.len() < 2 {
                    create_part(run, &seen, &format!("a-{}", seen.parts.len())).await?;
                }
                assert!(run.cause().is_none_or(|wake| wake.object.kind == PART || wake.object.kind == KIND));
                Ok(Action::Done)
            })
        },
    )
    .await;
    rig.ran(3).await;
    settle().await;
    let asked = store.asked();
    let traces: Vec<_> = asked.iter().map(|asked| asked.trace.clone()).collect();
    assert_eq!(asked.len(), 2);
    // The first run began a trace; its write woke the second.
    assert!(traces[0].is_some() && traces[0] == traces[1], "{traces:?}");
    assert!(asked.iter().all(|asked| asked.manager == "rig"));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_waits_for_goes_before_all_else() {
    let store = Store::default();
    let is_vip = |delta: &Delta| delta.key.name() == "vip";
    let mut rig = Rig::start(
        &store,
        |it| it.urgent_if(is_vip),
        |_, _| {
            Box::pin(async {
                sleep(Duration::from_secs(1)).await;
                Ok(Action::Done)
            })
        },
    )
    .await;
    for number in 0..10 {
        object(&store, &format!("k{number}"), 1);
    }
    rig.ran(2).await;
    object(&store, "vip", 1);
    rig.ran(3).await;
    assert_eq!(rig.began()[2].name, "vip");
}

/// A controller that looks at its object and its parts together, and notes the revision of each look with what woke it.
async fn looking(store: &Store) -> (Rig, Arc<Mutex<Vec<(u64, u64)>>>) {
    let (joint, looks) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
    let (made, noted) = (joint.clone(), looks.clone());
    let build = move |informers: &Informers, controller: Controller| {
        let [objects, parts] =
            [KIND, PART].map(|kind| informers.dynamic(kind, true, Selection::everywhere()));
        made.set(informers.joint().with(&objects).with(&parts)).ok().expect("it is built once");
        controller
    };
    let rig = Rig::with(Setup::default(), store, build, move |run, _| {
        let (joint, noted) = (joint.clone(), noted.clone());
        Box::pin(async move {
            let snapshot = run.snapshot(joint.get().expect("it was built")).await?;
            noted.lock().push((run.not_before().get(), snapshot.revision().get()));
            Ok(Action::Done)
        })
    });
    (rig.await, looks)
}

#[tokio::test(start_paused = true)]
async fn a_joint_snapshot_of_a_run_is_not_before_what_woke_it() {
    let store = Store::default();
    object(&store, "a", 1);
    let (mut rig, looks) = looking(&store).await;
    rig.ran(1).await;
    settle().await;
    store.hold(PART, true);
    let changed = object(&store, "a", 2);
    rig.ran(2).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(looks.lock().len(), 1, "the parts are behind what woke it");
    store.hold(PART, false);
    sleep(Duration::from_secs(5)).await;
    let (not_before, seen) = looks.lock()[1];
    assert_eq!(not_before, changed);
    assert!(seen >= changed, "{seen} is before {changed}");
    assert_eq!(rig.runs("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn caches_that_stay_behind_fail_the_run_and_a_later_one_sees_what_woke_it() {
    let store = Store::default();
    object(&store, "a", 1);
    let (mut rig, looks) = looking(&store).await;
    rig.ran(1).await;
    settle().await;
    store.hold(PART, true);
    let changed = object(&store, "a", 2);
    rig.ran(3).await;
    assert_eq!((rig.began()[2].attempt, looks.lock().len()), (2, 1), "it waits for half a minute, and fails");
    store.hold(PART, false);
    sleep(Duration::from_secs(600)).await;
    let (_, seen) = looks.lock()[1];
    assert!(seen >= changed, "{seen} is before {changed}");
}
