//! A process that ends right after one of its writes, and is started again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use setpoint_client::Client;
use setpoint_testkit::World;

struct Crash;

/// Runs `act` in a new world with a crash after its first write, in another one after its second, and so on, until it has no more
/// writes; each time it is run again, to its end, and once more, which must not write anything. Says how many writes there were.
pub async fn after_every_write<A, F, C, G>(mut prepare: impl AsyncFnMut(&Client), act: A, check: C) -> usize
where
    A: Fn(Client) -> F,
    F: Future<Output = ()>,
    C: Fn(World) -> G,
    G: Future<Output = ()>,
{
    for crash_at in 1.. {
        let world = World::new();
        prepare(&world.client()).await;
        let client = world.client().with_manager("me");
        let left = Arc::new(AtomicUsize::new(crash_at));
        let dying = client.with_on_write(Arc::new(move |_, _| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                std::panic::resume_unwind(Box::new(Crash));
            }
        }));
        let crashed = match AssertUnwindSafe(act(dying)).catch_unwind().await {
            Ok(()) => false,
            Err(cause) if cause.is::<Crash>() => true,
            Err(cause) => std::panic::resume_unwind(cause),
        };
        act(client.clone()).await;
        check(world.clone()).await;
        let before = world.revision();
        act(client).await;
        assert_eq!(
            world.revision(),
            before,
            "the third time there is nothing to do (crash after write {crash_at})"
        );
        if !crashed {
            return crash_at - 1;
        }
    }
    unreachable!("it has writes without end")
}
