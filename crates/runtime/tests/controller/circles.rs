//! What goes in circles is noticed: the same again and again, and two who undo each other's work.

use std::time::Duration;

use serde_json::json;
use setpoint_runtime::{Action, ControllerSettings};
use tokio::time::sleep;

use crate::rig::{KIND, NAMESPACE, PART, Rig, create_part, object};
use crate::server::Store;

fn conditions(store: &Store) -> Vec<(String, String)> {
    let status = store.status(KIND, NAMESPACE, "a");
    let list = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |it: &serde_json::Value| it.as_str().unwrap_or_default().to_owned();
    list.iter().map(|it| (text(&it["type"]), text(&it["reason"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn whoever_writes_the_same_again_and_again_is_stalled() {
    let store = Store::default();
    object(&store, "a", 1);
    let undoing = store.clone();
    let settings = ControllerSettings { stalled_after: 3, ..Default::default() };
    let rig = Rig::start(
        &store,
        |it| it.settings(settings),
        move |run, seen| {
            let undoing = undoing.clone();
            Box::pin(async move {
                create_part(run, &seen, "part").await?;
                // Somebody who does not want it.
                undoing.remove(PART, NAMESPACE, "part");
                Ok(Action::RequeueAfter(Duration::from_secs(1)))
            })
        },
    )
    .await;
    sleep(Duration::from_secs(120)).await;
    // Its own writes bring it forward, but only within a wait that grows.
    let late = rig.began().iter().filter(|began| began.at > Duration::from_secs(60)).count();
    assert!(rig.runs("a") < 150 && late < 20, "L2: no hot loop: {}, {late}", rig.runs("a"));
    assert!(rig.metric("setpoint_controller_repeats_total{controller=\"rig\"}") >= 3.0);
    assert_eq!(conditions(&store), [("Stalled".to_owned(), "RepeatedDecision".to_owned())]);
    let notices = store.asked().iter().filter(|asked| asked.manager == "rig/runtime").count();
    assert_eq!(notices, 1);
}

#[tokio::test(start_paused = true)]
async fn two_managers_who_undo_each_other_are_shown_until_they_stop() {
    let store = Store::default();
    object(&store, "a", 1);
    let rig = Rig::start(&store, |it| it, |_, _| Box::pin(async { Ok(Action::Done) })).await;
    for turn in 0..12 {
        let (manager, size) = if turn % 2 == 0 { ("one", 2) } else { ("other", 3) };
        store.put(KIND, NAMESPACE, "a", manager, json!({"size": size}));
        sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(rig.metric("setpoint_controller_oscillations_total{controller=\"rig\"}"), 1.0);
    assert_eq!(conditions(&store), [("Oscillating".to_owned(), "ManagersDisagree".to_owned())]);
    sleep(Duration::from_secs(300)).await;
    assert!(conditions(&store).is_empty(), "it is over: {:?}", conditions(&store));
    let notices = store.asked();
    assert_eq!(notices.len(), 2, "set once, taken back once: {notices:?}");
}
