//! Only keys of shards that are held, only under their fence, and only with caches that have seen the holder before.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;
use setpoint_runtime::{Action, ManagerSettings, Run};
use tokio::time::sleep;

use crate::rig::{PART, Result, Rig, Seen, Setup, create_part, object, settle};
use crate::server::Store;

const LEASE: &str = "rig.shard-0-of-1";

async fn replica<A>(store: &Store, seed: u64, shards: u32, act: A) -> Rig
where
    A: for<'a> Fn(&'a Run, Seen) -> BoxFuture<'a, Result> + Send + Sync + 'static,
{
    let setup = Setup { seed, settings: ManagerSettings::named("rig"), ..Setup::default() };
    Rig::with(setup, store, |_, it| it.shards(shards), act).await
}

async fn want_a_part_of_its_size(run: &Run, seen: Seen) -> Result {
    let name = format!("{}-{}", seen.object.metadata.name, seen.object.spec["size"]);
    if !seen.parts.contains(&name) {
        create_part(run, &seen, &name).await?;
    }
    Ok(Action::Done)
}

fn sized(run: &Run, seen: Seen) -> BoxFuture<'_, Result> {
    Box::pin(want_a_part_of_its_size(run, seen))
}

/// Decides, sleeps through the end of its lease, and then writes.
fn slow(run: &Run, seen: Seen) -> BoxFuture<'_, Result> {
    Box::pin(async move {
        sleep(Duration::from_secs(2)).await;
        want_a_part_of_its_size(run, seen).await
    })
}

/// Wants one part, and names it anew each time: whoever does not see the first makes a second.
fn any_part(run: &Run, seen: Seen) -> BoxFuture<'_, Result> {
    Box::pin(async move {
        if seen.parts.is_empty() {
            let name = format!("part-{}", run.id());
            create_part(run, &seen, &name).await?;
        }
        Ok(Action::Done)
    })
}

fn nothing(_: &Run, _: Seen) -> BoxFuture<'_, Result> {
    Box::pin(async { Ok(Action::Done) })
}

#[tokio::test(start_paused = true)]
async fn one_works_the_other_is_warm_and_takes_over_with_all_keys() {
    let store = Store::with_leases();
    object(&store, "a", 1);
    object(&store, "b", 1);
    let mut first = replica(&store, 1, 1, sized).await;
    first.ran(2).await;
    let mut second = replica(&store, 2, 1, sized).await;
    sleep(Duration::from_secs(60)).await;
    assert!(second.began().is_empty() && *second.manager.ready().borrow(), "a standby is ready and idle");
    object(&store, "a", 2);
    settle().await;
    assert!(store.asked().iter().all(|asked| asked.epoch == Some(1)), "L4: {:?}", store.asked());
    first.stop().await.expect("in order");
    second.ran(2).await;
    object(&store, "b", 2);
    sleep(Duration::from_secs(5)).await;
    let epochs: Vec<_> = store.asked().iter().map(|asked| asked.epoch).collect();
    assert_eq!(epochs, [Some(1), Some(1), Some(1), Some(2)], "nothing was done twice");
    second.stop().await.expect("in order");
    assert!(store.held_shards().is_empty(), "the leases were given back");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_paused_writes_nothing_after_another_took_over() {
    let store = Store::with_leases();
    object(&store, "a", 1);
    let mut first = replica(&store, 1, 1, slow).await;
    first.ran(1).await;
    // Somebody else has it, as the server sees it; nothing tells the first one, and by its own clock it has time left.
    store.usurp(LEASE);
    sleep(Duration::from_secs(120)).await;
    let asked: Vec<_> = store.asked().iter().map(|asked| (asked.epoch, asked.done)).collect();
    assert_eq!(asked.first(), Some(&(Some(1), false)), "L4: it tried, and was refused: {asked:?}");
    let done: Vec<_> = asked.iter().filter(|(_, done)| *done).map(|(epoch, _)| *epoch).collect();
    assert_eq!(done, [Some(3)], "L4: done when it had the lease again, and once: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_lost_shard_are_dropped_at_once_and_come_again_when_it_is_regained() {
    let store = Store::with_leases();
    object(&store, "a", 1);
    let mut rig = replica(&store, 1, 1, |_, seen| {
        Box::pin(async move {
            if seen.run == 1 {
                std::future::pending::<()>().await;
            }
            Ok(Action::Done)
        })
    })
    .await;
    rig.ran(1).await;
    store.evict(LEASE);
    rig.ran(2).await;
    assert!(rig.began()[1].at < Duration::from_secs(30), "long before its timeout: {:?}", rig.began());
    settle().await;
    assert_eq!(rig.metric("setpoint_controller_active_workers{controller=\"rig\"}"), 0.0);
    let lost = "setpoint_controller_reconciles_total{controller=\"rig\",result=\"not_holder\"}";
    assert_eq!(rig.metric(lost), 1.0);
}

#[tokio::test(start_paused = true)]
async fn whoever_gains_a_shard_waits_until_its_caches_have_what_the_holder_before_wrote() {
    let store = Store::with_leases();
    let mut first = replica(&store, 1, 1, any_part).await;
    sleep(Duration::from_secs(5)).await;
    let second = replica(&store, 2, 1, any_part).await;
    sleep(Duration::from_secs(5)).await;
    // From here on nobody's cache sees parts.
    store.hold(PART, true);
    object(&store, "a", 1);
    first.ran(1).await;
    let stopped = tokio::spawn(first.stop());
    sleep(Duration::from_secs(5)).await;
    assert!(!store.held_shards().is_empty(), "the second has the lease");
    assert!(second.began().is_empty(), "L3: its cache is behind: {:?}", second.began());
    store.hold(PART, false);
    sleep(Duration::from_secs(30)).await;
    assert_eq!((second.began().len(), second.began()[0].parts), (1, 1));
    assert_eq!(store.names(PART).len(), 1);
    stopped.await.expect("no panic").expect("in order");
}

#[tokio::test(start_paused = true)]
async fn several_processes_share_the_shards_and_each_key_is_run_by_one() {
    let store = Store::with_leases();
    for number in 0..40 {
        object(&store, &format!("k{number}"), 1);
    }
    let (first, second) = (replica(&store, 1, 6, nothing).await, replica(&store, 2, 6, nothing).await);
    sleep(Duration::from_secs(120)).await;
    let before = (first.began().len(), second.began().len());
    for number in 0..40 {
        object(&store, &format!("k{number}"), 2);
    }
    sleep(Duration::from_secs(5)).await;
    let names = |rig: &Rig, from: usize| -> BTreeSet<String> {
        rig.began()[from..].iter().map(|began| began.name.clone()).collect()
    };
    let (of_first, of_second) = (names(&first, before.0), names(&second, before.1));
    assert!(of_first.len() > 5 && of_second.len() > 5, "{} {}", of_first.len(), of_second.len());
    assert!(of_first.is_disjoint(&of_second), "L5: one key was run by two");
    assert_eq!(of_first.len() + of_second.len(), 40, "L1: a key was run by nobody");
}
