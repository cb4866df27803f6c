//! Events and Decisions do not pile up: the collector keeps so many of each in a namespace, for so long, and those told of last.

use std::time::Duration;

use setpoint_client::{Client, Typed, WriteOptions};
use setpoint_controllers::assemble;
use setpoint_controllers::garbage_collector::{GarbageSettings, Retention};
use setpoint_controllers::settings::{Settings, choose};
use setpoint_runtime::WallClock;
use setpoint_testkit::{World, now};
use setpoint_types::kinds::{Decision, DecisionSpec, Event, EventSpec};
use setpoint_types::object::ObjectReference;

/// Six of these is how long records are kept.
const WHILE: Duration = Duration::from_secs(300);

fn about() -> ObjectReference {
    ObjectReference {
        kind: "Workload".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        ..ObjectReference::default()
    }
}

async fn tell(client: &Client, name: &str) {
    let event = EventSpec {
        object: about(),
        reason: "Scaled".to_owned(),
        component: "test".to_owned(),
        ..EventSpec::default()
    };
    let decision = DecisionSpec {
        object: about(),
        action: "Scale".to_owned(),
        component: "test".to_owned(),
        ..DecisionSpec::default()
    };
    let options = WriteOptions::default();
    client.api::<Event>().create(&Typed::new(name, event), &options).await.expect("an event");
    client.api::<Decision>().create(&Typed::new(name, decision), &options).await.expect("a decision");
}

/// The names of the records of both kinds.
fn kept(world: &World) -> [Vec<String>; 2] {
    let state = world.state();
    let events = state.all::<Event>().into_iter().filter(|it| it.spec.component == "test");
    let decisions = state.all::<Decision>().into_iter().filter(|it| it.spec.component == "test");
    [events.map(|it| it.metadata.name).collect(), decisions.map(|it| it.metadata.name).collect()]
}

#[tokio::test(start_paused = true)]
async fn records_go_when_they_are_too_many_or_too_old() {
    let world = World::new();
    let client = world.client();
    for number in 10..30 {
        tell(&client, &format!("r{number}")).await;
        world.pass(Duration::from_secs(1)).await;
    }
    let few = Retention { age_seconds: 6 * WHILE.as_secs(), count_max: 5 };
    let garbage_collector = GarbageSettings { interval_seconds: 60, events: few, decisions: few };
    let settings = Settings { garbage_collector, ..Settings::default() };
    let chosen = choose("garbage-collector").expect("it exists");
    let manager = assemble(world.client(), &chosen, &settings, None).expect("it fits together");
    let manager = manager.with_clock(WallClock::new(now));
    tokio::spawn(async move { manager.run(std::future::pending()).await });

    world.pass(WHILE).await;
    let last: Vec<String> = (25..30).map(|number| format!("r{number}")).collect();
    assert_eq!(kept(&world), [last.clone(), last], "the five told of last, of each");
    tell(&client, "r99").await;
    world.pass(WHILE).await;
    let one_more = || ["r26", "r27", "r28", "r29", "r99"].map(str::to_owned).to_vec();
    assert_eq!(kept(&world), [one_more(), one_more()]);
    // A clock that goes back makes nobody old, and one that is right again nobody older than it is.
    world.jump_back(3 * WHILE);
    world.pass(WHILE).await;
    assert_eq!(kept(&world), [one_more(), one_more()]);
    world.jump(3 * WHILE);
    world.pass(3 * WHILE + WHILE / 2).await;
    assert_eq!(kept(&world), [vec!["r99".to_owned()], vec!["r99".to_owned()]], "the others are too old");
    world.pass(2 * WHILE).await;
    assert_eq!(kept(&world), [Vec::<String>::new(), Vec::new()]);
}
