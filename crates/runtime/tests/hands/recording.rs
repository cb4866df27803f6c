//! Events and decisions as the server has them in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_client::Client;
use setpoint_runtime::recorder::{Grounds, Note, Recorder, RecorderMetrics, RecorderSettings};
use setpoint_testkit::{At, Fault, Faults, Plan, World};
use setpoint_types::kinds::{Decision, DetailLevel, Event, Outcome, PendingReason, Quota};
use setpoint_types::object::ObjectReference;
use setpoint_types::{Epoch, Generation, Revision, Timestamp};
use tokio_util::sync::CancellationToken;

use super::{created, quota, unreachable};

fn recorder(client: &Client, settings: RecorderSettings) -> Recorder {
    Recorder::new(client, "tester", settings, RecorderMetrics::default()).expect("good settings")
}

/// A recorder that runs, until it is stopped.
struct Running {
    recorder: Recorder,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(client: &Client) -> Self {
        let (recorder, stop) = (recorder(client, RecorderSettings::default()), CancellationToken::new());
        let (running, token) = (recorder.clone(), stop.clone());
        let task = tokio::spawn(async move { running.run(token).await });
        Self { recorder, stop, task }
    }

    async fn stop(self) -> Recorder {
        self.stop.cancel();
        self.task.await.expect("it ends");
        self.recorder
    }
}

fn object(name: &str) -> ObjectReference {
    ObjectReference {
        kind: "Quota".into(),
        namespace: "default".into(),
        name: name.into(),
        ..Default::default()
    }
}

fn failed(name: &str, times: u64) -> Note {
    Note::warning(object(name), "Failed")
        .message(format!("failed {times} times"))
        .about(Generation(2), Revision::new(times))
}

#[tokio::test(start_paused = true)]
async fn what_is_equal_is_one_event_with_a_count_over_restarts_and_replicas() {
    let world = World::new();
    let replicas = [Running::start(&world.client()), Running::start(&world.client())];
    for times in 1..=50 {
        for replica in &replicas {
            replica.recorder.event(failed("q", times), Timestamp(times)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    for replica in replicas {
        assert_eq!(replica.stop().await.lost(), 0);
    }
    let restarted = Running::start(&world.client());
    restarted.recorder.event(failed("q", 51), Timestamp(51)).await;
    restarted.stop().await;
    let events = world.state().all::<Event>();
    assert_eq!(events.len(), 1);
    let status = events[0].status.clone().expect("it was counted");
    assert_eq!((status.count, status.dropped), (101, 0));
    assert_eq!(
        (status.first, status.last, status.revision),
        (Timestamp(1), Timestamp(51), Revision::new(51))
    );
    assert_eq!((events[0].spec.reason.as_str(), events[0].spec.component.as_str()), ("Failed", "tester"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_what_is_left_and_counts_what_it_cannot() {
    let world = World::new();
    let running = Running::start(&world.client());
    for name in ["a", "b", "c"] {
        for times in 0..10 {
            running.recorder.event(failed(name, times), Timestamp(times)).await;
        }
    }
    let recorder = running.stop().await;
    let counts: Vec<u64> =
        world.state().all::<Event>().iter().map(|it| it.status.as_ref().map_or(0, |it| it.count)).collect();
    assert_eq!((counts, recorder.lost()), (vec![10, 10, 10], 0));
    recorder.event(failed("late", 1), Timestamp(1)).await;
    assert_eq!(recorder.lost(), 1, "nobody writes any more");

    let nobody = Running::start(&unreachable());
    for times in 0..10 {
        nobody.recorder.event(failed("q", times), Timestamp(times)).await;
    }
    assert_eq!(nobody.stop().await.lost(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_a_reason_waits_for_room_and_is_written() {
    let world = World::new();
    let settings = RecorderSettings { tallies_max: 2, reserved_percent: 0, ..RecorderSettings::default() };
    let recorder = recorder(&world.client(), settings);
    recorder.event(failed("a", 1), Timestamp(1)).await;
    recorder.event(failed("b", 1), Timestamp(1)).await;
    assert!(recorder.try_event(failed("c", 1), Timestamp(1)).is_err(), "nothing is written yet");
    assert!(recorder.try_event(failed("a", 2), Timestamp(2)).is_ok(), "what is known does not wait");
    let stop = CancellationToken::new();
    tokio::join!(
        async {
            for name in ["c", "d", "e", "f"] {
                recorder.event(failed(name, 1), Timestamp(1)).await;
            }
            stop.cancel();
        },
        recorder.run(stop.clone()),
    );
    let events = world.state().all::<Event>();
    let count: u64 = events.iter().map(|it| it.status.as_ref().map_or(0, |it| it.count)).sum();
    assert_eq!((events.len(), count, recorder.lost()), (6, 7, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_deleted_is_made_again() {
    let world = World::new();
    let running = Running::start(&world.client());
    running.recorder.event(failed("q", 1), Timestamp(1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let events = world.client().api::<Event>();
    let name = world.state().all::<Event>()[0].metadata.name.clone();
    events.delete(&name, &Default::default()).await.expect("it is there");
    running.recorder.event(failed("q", 2), Timestamp(2)).await;
    running.stop().await;
    let status = events.get(&name).await.expect("it is there again").status.expect("it was counted");
    assert_eq!((status.count, status.first), (1, Timestamp(2)));
}

fn grounds(client: &Client) -> Grounds {
    Grounds {
        object: object("q"),
        generation: Generation(2),
        cause: None,
        queue_wait: Duration::from_millis(30),
        attempt: 3,
        component: "tester".into(),
        epoch: client.fence().map_or(Epoch(0), |fence| fence.epoch),
        cache_revisions: BTreeMap::from([("Quota".to_owned(), Revision::new(4))]),
        policy_version: String::new(),
        trace: None,
        now: Timestamp(77),
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_decision_is_there_exactly_if_its_effect_is() {
    let world = World::new();
    let client = world.client().with_manager("me");
    let recorder = recorder(&client, RecorderSettings::default());
    let seen = created(&client.api::<Quota>(), quota("q", 1)).await;
    let decide = |guard: Revision| {
        let effect = client.transaction().if_at(&seen.key(), guard).create(&quota("effect", 1));
        grounds(&client).decide("Scale").into_transaction(effect, &client, recorder.detail())
    };
    let refused = decide(seen.metadata.revision.successor());
    assert!(refused.transaction.commit(&refused.options).await.is_err_and(|error| error.is_conflict()));
    assert_eq!(world.state().all::<Decision>().len(), 0);

    let accepted = decide(seen.metadata.revision);
    let done = accepted.transaction.commit(&accepted.options).await.expect("the guard holds");
    let decision = client.api::<Decision>().get(&accepted.name).await.expect("it came with its effect");
    let effect = client.api::<Quota>().get("effect").await.expect("it was done");
    assert_eq!((decision.metadata.revision, effect.metadata.revision), (done.revision, done.revision));
    assert_eq!((decision.spec.verdict.outcome, decision.spec.attempt), (Outcome::Accepted, 3));
    assert!(!decision.spec.operation.is_empty());
    assert_eq!(decision.status.expect("it was counted").count, 1);
}

#[tokio::test(start_paused = true)]
async fn equal_failures_are_one_decision_and_unchanged_is_only_sampled() {
    let world = World::new();
    let running = Running::start(&world.client());
    let decide = |revision: u64| {
        let mut grounds = grounds(&world.client());
        grounds.cache_revisions.insert("Quota".into(), Revision::new(revision));
        grounds.now = Timestamp(revision);
        grounds.decide("Place")
    };
    for revision in 1..=20 {
        let message = format!("needs 500m cpu, {revision}m is left");
        let draft = decide(revision).because(Outcome::Limited, PendingReason::Quota, message);
        running.recorder.decision(draft).await;
        let nothing = decide(revision)
            .verdict(setpoint_types::kinds::Verdict { outcome: Outcome::Unchanged, ..Default::default() });
        running.recorder.decision(nothing).await;
    }
    assert_eq!(running.stop().await.lost(), 0);
    let decisions = world.state().all::<Decision>();
    assert_eq!(decisions.len(), 1);
    let (spec, status) = (&decisions[0].spec, decisions[0].status.clone().expect("it was counted"));
    assert_eq!((status.count, status.last, spec.detail), (20, Timestamp(20), DetailLevel::Full));
    assert_eq!(status.cache_revisions.get("Quota"), Some(&Revision::new(20)));
    assert_eq!((spec.queue_wait_ms, spec.verdict.reason), (30, Some(PendingReason::Quota)));
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_for_good_is_given_up_and_counted() {
    let world = World::new();
    let running = Running::start(&world.client());
    running.recorder.event(Note::normal(object("q"), "not one word"), Timestamp(1)).await;
    running.recorder.event(failed("q", 1), Timestamp(1)).await;
    assert_eq!(running.stop().await.lost(), 1);
    assert_eq!(world.state().all::<Event>().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn counts_are_exact_whatever_happens_to_one_write() {
    let faults = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Duplicate(Duration::from_secs(5)),
        Fault::Late(Duration::from_secs(30)),
        Fault::Gone(Duration::from_secs(180)),
        Fault::Refuse(Duration::from_secs(10)),
    ];
    for (fault, write) in faults.into_iter().flat_map(|fault| (1..=3).map(move |write| (fault, write))) {
        let world = World::new();
        let process = Faults::new(&world, &Plan::one(fault, At::Write(write))).process("tester");
        let running = Running::start(&process.client());
        for times in 1..=30 {
            running.recorder.event(failed("q", times), Timestamp(times)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // Longer than any of them lasts.
        tokio::time::sleep(Duration::from_secs(400)).await;
        let lost = running.stop().await.lost();
        let counts: Vec<u64> = world
            .state()
            .all::<Event>()
            .iter()
            .map(|it| it.status.as_ref().map_or(0, |it| it.count))
            .collect();
        assert_eq!((counts, lost), (vec![30], 0), "{fault} at write {write}");
    }
}
