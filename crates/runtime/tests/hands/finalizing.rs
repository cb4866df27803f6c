//! What was done outside is undone before the object goes.

use std::sync::atomic::{AtomicUsize, Ordering};

use setpoint_client::{Api, Patch, PatchOptions};
use setpoint_runtime::finalizer::{Finalizer, FinalizerError, Guarded};
use setpoint_testkit::World;
use setpoint_types::kinds::Quota;

use super::{created, quota, unreachable};

type Outside = std::io::Error;

fn finalizer() -> Finalizer {
    Finalizer::new("example.com/ours").expect("a good name")
}

async fn set(api: &Api<Quota>, patch: serde_json::Value) {
    api.patch("q", &Patch::Merge(patch), &PatchOptions::default()).await.expect("it is there");
}

async fn never() -> Result<(), Outside> {
    panic!("there is nothing to clean up")
}

#[tokio::test(start_paused = true)]
async fn it_is_added_first_and_found_ever_after() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let mut object = quota("q", 1);
    object.metadata.finalizers.push("example.com/theirs".into());
    let seen = created(&api, object).await;
    let Ok(Guarded::Held { added }) = finalizer().guard(&api, &seen, never()).await else {
        panic!("nothing is in the way")
    };
    assert!(added.wrote());
    let held = added.object.expect("it was answered");
    assert_eq!(held.metadata.finalizers, ["example.com/theirs", "example.com/ours"]);
    let again = finalizer().guard(&unreachable().api::<Quota>(), &held, never()).await;
    assert!(matches!(again, Ok(Guarded::Held { added }) if !added.wrote()));
    // What was seen is no longer so: nobody's finalizer is lost, and nothing may be made outside yet.
    let stale = finalizer().guard(&api, &seen, never()).await;
    let Err(FinalizerError::Add { source, .. }) = stale else { panic!("it was stale") };
    assert!(source.is_conflict());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_going_gets_none() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let mut object = quota("q", 1);
    object.metadata.finalizers.push("example.com/theirs".into());
    let seen = created(&api, object).await;
    api.delete("q", &Default::default()).await.expect("it is there");
    let late = finalizer().guard(&api, &seen, never()).await;
    assert!(matches!(late, Err(FinalizerError::Add { .. })), "its deletion was not seen yet");
    let going = api.get("q").await.expect("it waits");
    assert_eq!(
        finalizer().guard(&unreachable().api::<Quota>(), &going, never()).await.expect("nothing to do"),
        Guarded::Going
    );
}

#[tokio::test(start_paused = true)]
async fn it_stays_until_a_cleanup_ended_well() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let mut object = quota("q", 1);
    object.metadata.finalizers.push("example.com/ours".into());
    created(&api, object).await;
    api.delete("q", &Default::default()).await.expect("it is there");
    let going = api.get("q").await.expect("it waits");
    let failed = finalizer().guard(&api, &going, async { Err(Outside::other("out of order")) }).await;
    assert!(matches!(failed, Err(FinalizerError::CleanUp { .. })));
    assert!(api.get("q").await.is_ok());
    let cleaned = finalizer().guard(&api, &going, async { Ok::<_, Outside>(()) }).await;
    assert!(matches!(cleaned, Ok(Guarded::Cleaned { .. })));
    assert!(api.get("q").await.is_err_and(|error| error.is_not_found()));
    // A run that has not seen that: the cleanup is run again, and that is all.
    let again = finalizer().guard(&api, &going, async { Ok::<_, Outside>(()) }).await;
    assert!(matches!(again, Ok(Guarded::Cleaned { .. })));
}

#[tokio::test(start_paused = true)]
async fn others_may_write_meanwhile_unless_the_spec_changes() {
    let world = World::new();
    let api = world.client().api::<Quota>();
    let mut object = quota("q", 1);
    let names = ["example.com/ours", "example.com/theirs", "example.com/slow"];
    object.metadata.finalizers = names.map(str::to_owned).to_vec();
    created(&api, object).await;
    api.delete("q", &Default::default()).await.expect("it is there");
    let going = api.get("q").await.expect("it waits");
    let ours = finalizer();
    let changed = ours.guard(&api, &going, async {
        set(&api, serde_json::json!({"spec": {"limits": {"cpu": "9"}}})).await;
        Ok::<_, Outside>(())
    });
    let Err(FinalizerError::Remove { source, .. }) = changed.await else {
        panic!("the cleanup is out of date")
    };
    assert!(source.is_conflict());
    let going = api.get("q").await.expect("it waits");
    assert_eq!(going.metadata.finalizers.len(), 3);
    let others = ours.guard(&api, &going, async {
        set(&api, serde_json::json!({"metadata": {"finalizers": [names[0], names[2]]}})).await;
        Ok::<_, Outside>(())
    });
    assert!(matches!(others.await, Ok(Guarded::Cleaned { .. })));
    assert_eq!(api.get("q").await.expect("one is left").metadata.finalizers, [names[2]]);
}

#[tokio::test(start_paused = true)]
async fn what_was_made_outside_is_cleaned_up_wherever_the_controller_ends() {
    // A controller that ends after its k-th step, of each life, and is started again.
    for lives in [vec![1], vec![2], vec![3], vec![1, 1, 1], vec![2, 1], vec![3, 2, 1]] {
        let world = World::new();
        let api = world.client().api::<Quota>();
        created(&api, quota("q", 1)).await;
        let (outside, ours) = (AtomicUsize::new(0), finalizer());
        for steps in lives.iter().copied().chain([9]) {
            let left = AtomicUsize::new(steps);
            let step =
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok();
            loop {
                let Some(seen) = api.find("q").await.expect("it answers") else { break };
                if !step() {
                    break;
                }
                let guarded = ours.guard(&api, &seen, async {
                    outside.store(0, Ordering::Relaxed);
                    // It ends before it can say so.
                    if step() { Ok(()) } else { Err(Outside::other("ended")) }
                });
                match guarded.await {
                    Ok(Guarded::Held { .. }) if step() => {
                        outside.store(1, Ordering::Relaxed);
                        api.delete("q", &Default::default()).await.expect("it is there");
                    }
                    Ok(Guarded::Held { .. }) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
        assert!(api.find("q").await.expect("it answers").is_none(), "{lives:?}");
        assert_eq!(outside.load(Ordering::Relaxed), 0, "{lives:?}");
    }
}
