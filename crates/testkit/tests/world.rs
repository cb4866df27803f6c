//! The world in a test's process is a server: what is written is decided, remembered, watched and fenced as there.

use std::time::Duration;

use setpoint_client::{
    AcquireOptions, Client, Error, ListOptions, Patch, Reason, Typed, WatchEvent, WatchOptions, WriteOptions,
};
use setpoint_testkit::World;
use setpoint_types::kinds::{Namespace, NamespaceSpec};

async fn create(client: &Client, name: &str) -> Result<Typed<Namespace>, Error> {
    let wanted = Typed::new(name, NamespaceSpec::default());
    Ok(client.api::<Namespace>().create(&wanted, &WriteOptions::default()).await?.object)
}

async fn label(client: &Client, name: &str, value: &str) -> Result<(), Error> {
    let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {"tier": value}}}));
    client.api::<Namespace>().patch(name, &patch, &Default::default()).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_remembered_with_its_author() -> Result<(), Error> {
    let world = World::new();
    let jane = world.client_as("jane").with_manager("by-hand");
    create(&jane, "a").await?;
    assert!(create(&jane, "a").await.is_err_and(|error| error.is_already_exists()));
    world.pass(Duration::from_secs(5)).await;
    label(&jane, "a", "gold").await?;
    let history = world.history();
    let changes: Vec<_> = history.changes().filter(|(_, change)| change.key.name == "a").collect();
    assert_eq!(changes.len(), 2);
    let (_, last) = changes[1];
    assert_eq!((last.author.principal.as_str(), last.author.manager.as_str()), ("user:jane", "by-hand"));
    assert_eq!(last.author.time, world.now());
    assert!(last.before.as_ref().is_some_and(|before| before.metadata.labels.is_empty()));
    let state = world.state();
    assert_eq!(
        state.one::<Namespace>("", "a").map(|it| it.metadata.labels["tier"].clone()),
        Some("gold".into())
    );
    assert_eq!(history.moments().last().map(|moment| moment.state.revision), Some(world.revision()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_follows_and_must_begin_anew_after_a_compaction() -> Result<(), Error> {
    let world = World::new();
    let client = world.client();
    let namespaces = client.api::<Namespace>();
    let (_, from) = namespaces.list_all(&ListOptions::default()).await?;
    create(&client, "a").await?;
    let options = WatchOptions { after: Some(from), ..WatchOptions::default() };
    let mut watch = namespaces.watch(&options).await?;
    let events = watch.next().await?.unwrap_or_default();
    assert!(
        matches!(&events[..], [WatchEvent::Added { object, .. }] if object.metadata.name == "a"),
        "{events:?}"
    );
    label(&client, "a", "gold").await?;
    let events = watch.next().await?.unwrap_or_default();
    assert!(matches!(&events[..], [WatchEvent::Modified { .. }]), "{events:?}");
    world.compact();
    let refused = namespaces.watch(&options).await?.next().await.expect_err("its past is forgotten");
    assert!(refused.is_expired(), "{refused}");
    assert_eq!(
        world.history().changes().filter(|(_, it)| it.key.name == "a").count(),
        2,
        "the journal is not"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_when_its_time_is_up_and_its_fence_with_it() -> Result<(), Error> {
    let world = World::new();
    let ask = |holder: &str| AcquireOptions {
        lease: "leader".into(),
        holder: holder.into(),
        ttl: Some(Duration::from_secs(10)),
        ..AcquireOptions::default()
    };
    let (one, other) = (world.client_as("one"), world.client_as("other"));
    let first = one.leases().acquire(&ask("one")).await?;
    assert!(first.acquired);
    let fenced = one.with_fence(first.fence.clone());
    create(&fenced, "a").await?;
    let mut alive = one.leases().keep_alive().await?;
    for _ in 0..5 {
        world.pass(Duration::from_secs(6)).await;
        assert!(alive.keep(&first.fence, "one", &Default::default()).await?.held);
    }
    assert!(!other.leases().acquire(&ask("other")).await?.acquired);
    world.pass(Duration::from_secs(11)).await;
    let second = other.leases().acquire(&ask("other")).await?;
    assert!(second.acquired && second.fence.epoch > first.fence.epoch);
    let refused = create(&fenced, "b").await.expect_err("another one holds it");
    assert_eq!(refused.reason(), Some(Reason::Fenced));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_ids() -> Result<(), Error> {
    let mut seen = Vec::new();
    for seed in [7, 7, 8] {
        let world = World::seeded(seed);
        let mut object = Typed::<Namespace>::new("", NamespaceSpec::default());
        object.metadata.generate_name = "team-".into();
        let made = world.client().api::<Namespace>().create(&object, &WriteOptions::default()).await?.object;
        seen.push((made.metadata.name, made.metadata.uid, made.metadata.created));
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!((&seen[0].0, &seen[0].1), (&seen[2].0, &seen[2].1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_date_follows_the_clock_and_jumps() -> Result<(), Error> {
    let world = World::new();
    let begin = world.now();
    world.pass(Duration::from_secs(90)).await;
    world.jump(Duration::from_secs(3_600));
    assert_eq!(world.now().0 - begin.0, 3_690_000);
    assert_eq!(setpoint_testkit::now(), world.now());
    assert_eq!(create(&world.client(), "a").await?.metadata.created, world.now());
    world.jump_back(Duration::from_secs(7_200));
    assert_eq!(begin.0 - world.now().0, 3_510_000);
    Ok(())
}
