//! Each fault does what its name says, to one process and nobody else.

use std::time::Duration;

use setpoint_client::{Client, Error, OperationId, ReadAt, Typed, WatchEvent, WatchOptions, WriteOptions};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_testkit::{Fault, Faults, Plan, World};
use setpoint_types::kinds::{Namespace, NamespaceSpec};
use tokio::time::{Instant, timeout};

fn faulty(plan: &str) -> (World, Faults, Client) {
    let world = World::new();
    let faults = Faults::new(&world, &plan.parse::<Plan>().expect("a plan"));
    let client = faults.process("controller").client();
    (world, faults, client)
}

async fn create(client: &Client, name: &str) -> Result<(), Error> {
    let wanted = Typed::<Namespace>::new(name, NamespaceSpec::default());
    client.api::<Namespace>().create(&wanted, &WriteOptions::default()).await.map(drop)
}

/// One that cannot be recognised when it comes again.
async fn create_some(client: &Client) -> Result<(), Error> {
    let mut wanted = Typed::<Namespace>::new("", NamespaceSpec::default());
    wanted.metadata.generate_name = "some-".into();
    let options = WriteOptions { operation: OperationId::None, ..WriteOptions::default() };
    client.api::<Namespace>().create(&wanted, &options).await.map(drop)
}

fn names(world: &World) -> Vec<String> {
    world
        .state()
        .all::<Namespace>()
        .into_iter()
        .map(|it| it.metadata.name)
        .filter(|it| it != "default")
        .collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_not_done_and_a_lost_answer_is() {
    let (world, faults, client) = faulty("lose-request@write:1 + lose-answer@write:2");
    assert!(create_some(&client).await.is_err_and(|error| error.is_ambiguous()));
    assert!(names(&world).is_empty());
    assert!(create_some(&client).await.is_err_and(|error| error.is_ambiguous()));
    assert_eq!(names(&world).len(), 1);
    create(&client, "a").await.expect("nothing is wrong any more");
    assert_eq!(faults.counts().writes, 3);
}

#[tokio::test(start_paused = true)]
async fn with_an_operation_id_a_lost_answer_is_asked_for_again() {
    let (world, faults, client) = faulty("lose-answer@write:1");
    create(&client, "a").await.expect("it was done, and is told so");
    assert_eq!((names(&world), faults.counts().writes), (vec!["a".to_owned()], 2));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_done_twice_unless_it_is_recognised() {
    let (world, _, client) = faulty("duplicate(5s)@write:1 + duplicate(5s)@write:2");
    create_some(&client).await.expect("answered");
    create(&client, "a").await.expect("answered");
    assert_eq!(names(&world).len(), 2);
    world.pass(6 * SECOND).await;
    assert_eq!(names(&world).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_late_write_comes_after_its_sender_gave_up() {
    let (world, _, client) = faulty("late(30s)@write:1");
    let hasty = client.with_timeout(5 * SECOND);
    assert!(create_some(&hasty).await.is_err_and(|error| error.is_ambiguous()));
    assert!(names(&world).is_empty());
    world.pass(30 * SECOND).await;
    assert_eq!(names(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ended_is_not_heard_of_again() {
    for (plan, answered) in [("crash-before-answer@write:1", false), ("crash@write:1", true)] {
        let world = World::new();
        let faults = Faults::new(&world, &plan.parse().expect("a plan"));
        let process = faults.process("controller");
        let client = process.client();
        assert_eq!(timeout(5 * SECOND, create(&client, "a")).await.is_ok(), answered, "{plan}");
        timeout(SECOND, process.ended()).await.expect("it has ended");
        assert!(timeout(60 * SECOND, create(&client, "b")).await.is_err() || names(&world) == ["a"]);
        assert_eq!(names(&world), ["a"], "{plan}");
        create(&faults.process("controller").client(), "c").await.expect("its next life");
        create(&world.client(), "d").await.expect("others");
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_process_does_everything_later() {
    let (world, faults, client) = faulty("");
    faults.inject(Fault::Freeze(60 * SECOND));
    let hasty = client.with_timeout(5 * SECOND);
    assert!(create_some(&hasty).await.is_err());
    assert!(names(&world).is_empty());
    world.pass(60 * SECOND).await;
    assert_eq!(names(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_held_watch_is_silent_and_then_complete() {
    let (world, faults, client) = faulty("hold(30s)@event:1");
    let mut watch = client.api::<Namespace>().watch(&WatchOptions::default()).await.expect("opened");
    for name in ["a", "b"] {
        create(&world.client(), name).await.expect("others");
    }
    let begin = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        for event in watch.next().await.expect("not broken").expect("not ended") {
            if let WatchEvent::Added { object, .. } = event {
                seen.push(object.metadata.name);
            }
        }
    }
    assert_eq!(seen, ["default", "a", "b"]);
    assert!(begin.elapsed() >= 29 * SECOND, "{:?}", begin.elapsed());
    assert!(faults.counts().events >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_is_resumed_and_a_missed_one_begins_anew() {
    for (fault, relists) in [(Fault::Cut, 0), (Fault::Miss(30 * SECOND), 1)] {
        let (world, faults, client) = faulty("");
        let informers = Informers::new(client, InformerSettings::default());
        let cache = informers.cache::<Namespace>(Selection::everywhere());
        cache.synced().await.expect("it is fed");
        create(&world.client(), "a").await.expect("others");
        world.pass(SECOND).await;
        faults.inject(fault);
        for name in ["b", "c"] {
            create(&world.client(), name).await.expect("others");
        }
        world.pass(60 * SECOND).await;
        assert_eq!(cache.stats().relists_expired, relists, "{fault}");
        assert!(cache.stats().streams >= 2, "{fault}");
        assert_eq!(cache.revision(), Some(world.revision()), "{fault}");
        // Beside the default one.
        assert_eq!(cache.len(), names(&world).len() + 1, "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lagging_view_is_behind_and_a_fresh_read_is_not() {
    let (world, faults, client) = faulty("");
    let others = world.client();
    create(&others, "a").await.expect("others");
    faults.inject(Fault::Lag(20 * SECOND));
    world.pass(60 * SECOND).await;
    let mut watch = client.api::<Namespace>().watch(&WatchOptions::default()).await.expect("opened");
    create(&others, "b").await.expect("others");
    let api = client.api::<Namespace>();
    assert!(api.get_at("b", ReadAt::Cached).await.is_err_and(|error| error.is_not_found()));
    assert!(api.get("b").await.is_ok());
    let begin = Instant::now();
    let told_of = |events: Vec<WatchEvent<Typed<Namespace>>>| {
        events
            .into_iter()
            .any(|it| matches!(it, WatchEvent::Added { object, .. } if object.metadata.name == "b"))
    };
    while !told_of(watch.next().await.expect("not broken").expect("not ended")) {}
    assert!(begin.elapsed() >= 19 * SECOND, "{:?}", begin.elapsed());
    assert!(api.get_at("b", ReadAt::Cached).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_has_only_a_lagging_view_is_fed_in_the_end() {
    let (world, faults, client) = faulty("");
    create(&world.client(), "a").await.expect("others");
    // Longer than a silent stream is waited for at first.
    faults.inject(Fault::Lag(60 * SECOND));
    let informers = Informers::new(client, InformerSettings::default());
    let cache = informers.cache::<Namespace>(Selection::everywhere());
    let synced = timeout(600 * SECOND, cache.synced()).await;
    synced.expect("in time").expect("it is fed");
    assert!(cache.stats().stalls >= 1, "it was given up once at least");
    create(&world.client(), "b").await.expect("others");
    world.pass(70 * SECOND).await;
    assert_eq!(cache.len(), 3, "it follows, behind by a minute");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_or_refuses_is_waited_for() {
    for fault in [Fault::Gone(12 * SECOND), Fault::Refuse(12 * SECOND)] {
        let (world, faults, client) = faulty("");
        faults.inject(fault);
        let begin = Instant::now();
        create(&client.with_timeout(90 * SECOND), "a").await.expect("patience helps");
        assert!(begin.elapsed() >= 12 * SECOND, "{fault}: {:?}", begin.elapsed());
        assert!(faults.counts().requests < 15, "{fault}: {} requests", faults.counts().requests);
        assert_eq!(names(&world), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_answers_take_their_time_and_the_date_jumps() {
    let (world, faults, client) = faulty("slow(3s)@write:1 + jump(3600s)@write:1");
    let (begin, date) = (Instant::now(), world.now());
    create(&client, "a").await.expect("slow is not never");
    assert!(begin.elapsed() >= 3 * SECOND);
    assert!(world.now().0 - date.0 >= 3_603_000);
    assert_eq!(faults.counts().requests, 1);
}
