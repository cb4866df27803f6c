//! Objects that go.

use setpoint_client::{Patch, PatchOptions};
use setpoint_runtime::ensure::{Deletion, Gone, ensure_deleted};
use setpoint_testkit::World;
use setpoint_types::kinds::Quota;

use super::{created, quota, unreachable};
use crate::crash::after_every_write;

#[tokio::test(start_paused = true)]
async fn the_object_that_was_seen_goes_and_a_later_one_of_its_name_stays() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let seen = created(&api, quota("q", 1)).await;
    let gone = ensure_deleted(&api, &seen, Deletion::default()).await.expect("it is there");
    assert_eq!(gone, Gone::Now { revision: world.revision() });
    assert_eq!(ensure_deleted(&api, &seen, Deletion::default()).await.expect("it is gone"), Gone::Already);
    let later = created(&api, quota("q", 1)).await;
    assert_eq!(ensure_deleted(&api, &seen, Deletion::default()).await.expect("another"), Gone::Already);
    assert_eq!(api.get("q").await.expect("it stayed").metadata.uid, later.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_decision_about_its_content_holds_only_for_that_content() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let seen = created(&api, quota("q", 1)).await;
    let label = Patch::Merge(serde_json::json!({"metadata": {"labels": {"keep": "me"}}}));
    api.patch("q", &label, &PatchOptions::default()).await.expect("it is there");
    let unchanged = Deletion { unchanged: true, ..Deletion::default() };
    let error = ensure_deleted(&api, &seen, unchanged).await.expect_err("it changed");
    assert!(error.is_conflict() && !error.is_terminal(), "{error}");
    assert!(ensure_deleted(&api, &seen, Deletion::default()).await.expect("whatever it is").is_gone());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_is_not_asked_for_again() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let mut object = quota("q", 1);
    object.metadata.finalizers.push("example.com/f".into());
    let seen = created(&api, object).await;
    let Gone::Waiting { blockers, .. } =
        ensure_deleted(&api, &seen, Deletion::default()).await.expect("there")
    else {
        panic!("it has a finalizer")
    };
    assert_eq!(blockers[0].finalizer, "example.com/f");
    let going = api.get("q").await.expect("it waits");
    let again = ensure_deleted(&unreachable().api::<Quota>(), &going, Deletion::default()).await;
    assert!(!again.expect("what was seen suffices").is_gone());
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_deletion_deletes_nothing_else() {
    let names = ["a", "b", "c"];
    let writes = after_every_write(
        async |client| {
            for name in names {
                created(&client.api::<Quota>(), quota(name, 1)).await;
            }
            created(&client.api::<Quota>(), quota("keep", 1)).await;
        },
        |client| async move {
            let api = client.api::<Quota>();
            for name in names {
                if let Some(seen) = api.find(name).await.expect("it answers") {
                    ensure_deleted(&api, &seen, Deletion::default()).await.expect("it is there");
                }
            }
        },
        |world| async move { assert_eq!(world.state().all::<Quota>().len(), 1) },
    );
    assert_eq!(writes.await, 3);
}
