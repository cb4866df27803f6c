//! Parts that are there, fields that are applied, a status that is said.

use setpoint_client::{Dynamic, Patch, PatchOptions, Scope, Typed, WriteOptions};
use setpoint_runtime::ensure::{
    Adopt, Done, EnsureError, Ignored, Owner, ensure_applied, ensure_child, ensure_status,
    ensure_status_ignoring, name_for,
};
use setpoint_testkit::World;
use setpoint_types::kinds::{Quota, QuotaStatus};
use setpoint_types::object::Object;
use setpoint_types::selector::LabelSelector;
use setpoint_types::{Generation, Revision};

use super::{counted, created, quota, unreachable};
use crate::crash::after_every_write;

#[tokio::test(start_paused = true)]
async fn a_part_is_made_once_and_found_ever_after() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let owner = Owner::of(&created(&api, quota("web", 1)).await);
    let name = name_for(&owner, &["a"]);
    let wanted = || quota(&name, 2);
    let first =
        ensure_child(&api, &owner, None, wanted(), &Adopt::Never).await.expect("nothing is in the way");
    assert_eq!(first.done, Done::Created);
    let part = first.object.expect("it was answered");
    assert_eq!(part.metadata.controller(), Some(&owner.as_controller()));
    let second = ensure_child(&api, &owner, None, wanted(), &Adopt::Never).await.expect("it is ours");
    assert_eq!((second.done, second.revision), (Done::Unchanged, first.revision));
    let nobody = unreachable().api::<Quota>();
    let third = ensure_child(&nobody, &owner, Some(&part), wanted(), &Adopt::Never).await;
    assert_eq!(third.expect("what was seen suffices").done, Done::Unchanged);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_controls_is_adopted_as_allowed_and_keeps_its_other_owners() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let owner = Owner::of(&created(&api, quota("web", 1)).await);
    let mut orphan = quota("part", 7);
    orphan.metadata.labels.insert("app".into(), "web".into());
    let mut other = created(&api, quota("other", 1)).await.as_controller();
    other.controller = false;
    orphan.metadata.owners.push(other.clone());
    created(&api, orphan).await;
    let ensure = |adopt: Adopt| {
        let (api, owner) = (api.clone(), owner.clone());
        async move { ensure_child(&api, &owner, None, quota("part", 2), &adopt).await }
    };
    let matching = |text: &str| Adopt::Matching(LabelSelector::parse(text).expect("a selector"));
    for refused in [Adopt::Never, matching("app=api")] {
        let error = ensure(refused).await.expect_err("not to be adopted");
        assert!(matches!(error, EnsureError::NotAdoptable { .. }) && error.is_terminal(), "{error}");
    }
    let adopted = ensure(matching("app=web")).await.expect("it matches");
    let part = adopted.object.expect("it was answered");
    assert_eq!((adopted.done, &part.metadata.owners), (Done::Adopted, &vec![other, owner.as_controller()]));
    assert_eq!(part.spec, quota("part", 7).spec, "what it contains is left alone");
    assert_eq!(ensure(Adopt::Never).await.expect("it is ours now").done, Done::Unchanged);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_controls_is_left_alone_and_named() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let owner = Owner::of(&created(&api, quota("web", 1)).await);
    let other = Owner::of(&created(&api, quota("api", 1)).await);
    ensure_child(&api, &other, None, quota("part", 2), &Adopt::Never).await.expect("nothing is in the way");
    let before = world.revision();
    let error = ensure_child(&api, &owner, None, quota("part", 2), &Adopt::Always).await;
    let error = error.expect_err("it is another's");
    assert!(error.is_terminal());
    let text = "Quota default/part is controlled by Quota api: give it up there, or choose another name";
    assert_eq!(error.to_string(), text);
    assert_eq!(world.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_an_earlier_owner_makes_way_but_never_one_of_a_later_owner() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let earlier = Owner::of(&created(&api, quota("web", 1)).await);
    let left = ensure_child(&api, &earlier, None, quota("part", 2), &Adopt::Never).await.expect("made");
    api.delete("web", &Default::default()).await.expect("it is there");
    let later = Owner::of(&created(&api, quota("web", 1)).await);
    let made = ensure_child(&api, &later, None, quota("part", 2), &Adopt::Never).await.expect("it made way");
    let part = made.object.expect("it was answered");
    assert_eq!((made.done, part.metadata.controller()), (Done::Created, Some(&later.as_controller())));
    assert_ne!(left.object.expect("it was answered").metadata.uid, part.metadata.uid);
    // A run that still believes in the earlier owner.
    let error = ensure_child(&api, &earlier, None, quota("part", 2), &Adopt::Always).await;
    assert!(error.expect_err("its owner is gone").is_conflict());
    assert_eq!(api.get("part").await.expect("it is there").metadata.uid, part.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_going_is_waited_for() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let owner = Owner::of(&created(&api, quota("web", 1)).await);
    let mut part = quota("part", 2);
    part.metadata.finalizers.push("example.com/f".into());
    ensure_child(&api, &owner, None, part, &Adopt::Never).await.expect("nothing is in the way");
    api.delete("part", &Default::default()).await.expect("it is there");
    let going = api.get("part").await.expect("it has a finalizer");
    let error = ensure_child(&api, &owner, Some(&going), quota("part", 2), &Adopt::Never).await;
    let error = error.expect_err("it is going");
    assert!(matches!(error, EnsureError::Terminating { .. }) && !error.is_terminal());
    let none = Patch::Merge(serde_json::json!({"metadata": {"finalizers": []}}));
    api.patch("part", &none, &PatchOptions::default()).await.expect("it is there");
    let made = ensure_child(&api, &owner, Some(&going), quota("part", 2), &Adopt::Never).await;
    assert_eq!(made.expect("it is gone").done, Done::Created);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_not_sent() {
    let api = unreachable().api::<Quota>();
    let owner =
        Owner { key: quota("web", 1).key(), uid: setpoint_types::Uid::new("u"), revision: Revision::new(1) };
    let unread = Owner { uid: Default::default(), ..owner.clone() };
    for (owner, part) in [(&owner, quota("", 1)), (&unread, quota("part", 1))] {
        let error = ensure_child(&api, owner, None, part, &Adopt::Never).await.expect_err("nonsense");
        assert!(matches!(error, EnsureError::Senseless { .. }) && error.is_terminal(), "{error}");
    }
    let status = ensure_status(&api, &quota("a", 1), quota("a", 1)).await.expect_err("never read");
    assert!(matches!(status, EnsureError::Senseless { .. }), "{status}");
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_not_asked_for_again_and_the_server_agrees() {
    let world = World::new();
    let client = world.client().with_manager("me");
    let api = client.dynamic("Quota", Scope::namespace("default"));
    let nobody = unreachable().dynamic("Quota", Scope::namespace("default"));
    let specs = [
        serde_json::json!({"limits": {"cpu": "5"}}),
        serde_json::json!({"limits": {"cpu": "5", "memory": "7Mi"}}),
        serde_json::json!({"limits": {"memory": "7Mi"}}),
    ];
    for spec in specs {
        let mut wanted = Object::new("Quota", "default", "q").with_spec(&spec);
        wanted.metadata.labels.insert("example.com/tier".into(), "gold".into());
        let applied = ensure_applied::<Dynamic>(&api, None, &wanted, false).await.expect("nobody disagrees");
        assert_eq!(applied.done, Done::Changed, "{spec}");
        let seen = api.get("q").await.expect("it was applied");
        let again = ensure_applied::<Dynamic>(&nobody, Some(&seen), &wanted, false).await;
        assert_eq!(again.unwrap_or_else(|error| panic!("{spec}: {error}")).done, Done::Unchanged);
        let asked = ensure_applied::<Dynamic>(&api, None, &wanted, false).await.expect("nobody disagrees");
        assert_eq!((asked.done, asked.revision), (Done::Unchanged, seen.metadata.revision));
    }
    let typed = client.api::<Quota>();
    let wanted = quota("typed", 5);
    ensure_applied(&typed, None, &wanted, false).await.expect("nobody disagrees");
    let seen = typed.get("typed").await.expect("it was applied");
    let again = ensure_applied(&unreachable().api::<Quota>(), Some(&seen), &wanted, false).await;
    assert_eq!(again.expect("what was seen suffices").done, Done::Unchanged);
    let more = ensure_applied(&typed, Some(&seen), &quota("typed", 6), false).await.expect("it is ours");
    assert_eq!(more.done, Done::Changed);
}

#[tokio::test(start_paused = true)]
async fn fields_of_others_are_taken_by_force_only() {
    let world = World::new();
    let theirs = world.client().with_manager("them").api::<Quota>();
    ensure_applied(&theirs, None, &quota("q", 5), false).await.expect("nobody else is there");
    let ours = world.client().with_manager("us").api::<Quota>();
    let error = ensure_applied(&ours, None, &quota("q", 6), false).await.expect_err("it is theirs");
    assert!(error.is_terminal() && error.to_string().contains("\"them\""), "{error}");
    let taken = ensure_applied(&ours, None, &quota("q", 6), true).await.expect("by force");
    assert_eq!(taken.done, Done::Changed);
    let nameless = world.client().api::<Quota>();
    let error = ensure_applied(&nameless, None, &quota("q", 6), true).await.expect_err("nobody's decision");
    assert!(matches!(error, EnsureError::Senseless { .. }), "{error}");
}

fn with_status(seen: &Typed<Quota>, generation: u64, revision: u64) -> Typed<Quota> {
    let status = QuotaStatus {
        observed_generation: Generation(generation),
        observed_revision: Revision::new(revision),
        ..QuotaStatus::default()
    };
    Typed { status: Some(status), ..seen.clone() }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_only_if_it_says_something_else() {
    let world = World::new();
    let (client, writes) = counted(&world.client());
    let api = client.api::<Quota>();
    let seen = created(&world.client().api::<Quota>(), quota("q", 5)).await;
    let said = ensure_status(&api, &seen, with_status(&seen, 1, 3)).await.expect("it is there");
    let told = said.object.expect("it was answered");
    assert_eq!(said.done, Done::Changed);
    let nobody = unreachable().api::<Quota>();
    let again = ensure_status(&nobody, &told, with_status(&told, 1, 3)).await.expect("nothing is asked");
    assert_eq!((again.done, again.revision), (Done::Unchanged, told.metadata.revision));
    let moved =
        ensure_status_ignoring(&nobody, &told, with_status(&told, 1, 9), &[Ignored("observedRevision")]);
    assert_eq!(moved.await.expect("nothing is asked").done, Done::Unchanged);
    let other =
        ensure_status_ignoring(&api, &told, with_status(&told, 2, 9), &[Ignored("observedRevision")]).await;
    let written = other.expect("it is there").object.expect("it was answered");
    assert_eq!(written.status.expect("just said").observed_revision, Revision::new(9), "then all of it");
    let stale = ensure_status(&api, &told, with_status(&told, 3, 9)).await.expect_err("somebody was faster");
    assert!(stale.is_conflict() && !stale.is_terminal());
    assert_eq!(writes.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_changes_nothing_in_the_end() {
    let writes = after_every_write(
        async |client| {
            created(&client.api::<Quota>(), quota("web", 1)).await;
            // Somebody made one of the parts by hand.
            created(&client.api::<Quota>(), quota("part-2", 9)).await;
        },
        |client| async move {
            let api = client.api::<Quota>();
            let seen = api.get("web").await.expect("it is there");
            let owner = Owner::of(&seen);
            for name in ["part-1", "part-2", "part-3"] {
                let child = ensure_child(&api, &owner, None, quota(name, 2), &Adopt::Always).await;
                child.expect("nothing is in the way");
                let mut wanted = quota(name, 2);
                wanted.metadata.owners.push(owner.as_controller());
                ensure_applied(&api, None, &wanted, true).await.expect("by force");
            }
            ensure_status(&api, &seen, with_status(&seen, 1, 3)).await.expect("nobody is faster");
        },
        |world| async move {
            let all = world.state().all::<Quota>();
            let parts: Vec<_> = all.iter().filter(|it| it.metadata.controller().is_some()).collect();
            assert_eq!((all.len(), parts.len()), (4, 3));
            assert!(parts.iter().all(|it| it.spec == quota("", 2).spec));
        },
    );
    assert_eq!(writes.await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_ensures_nothing() {
    let world = World::new();
    let fence = setpoint_types::object::Fence {
        namespace: "default".into(),
        lease: "l".into(),
        epoch: setpoint_types::Epoch(3),
    };
    let api = world.client().api::<Quota>();
    let seen = created(&api, quota("web", 1)).await;
    let fenced = world.client().with_manager("me").with_fence(fence).api::<Quota>();
    let owner = Owner::of(&seen);
    let child = ensure_child(&fenced, &owner, None, quota("part", 1), &Adopt::Never).await;
    let applied = ensure_applied(&fenced, None, &quota("part", 1), true).await;
    let status = ensure_status(&fenced, &seen, with_status(&seen, 1, 1)).await;
    for error in [child.map(drop), applied.map(drop), status.map(drop)] {
        let error = error.expect_err("the lease is not held");
        assert!(error.is_fenced() && !error.is_terminal(), "{error}");
    }
    api.update(&seen, &WriteOptions::default()).await.expect("nothing was changed");
}
