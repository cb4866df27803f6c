//! An object that cannot be helped does not keep the others waiting, nor the server busy.

use std::time::Duration;

use setpoint_client::Client;
use setpoint_testkit::{Scenario, State};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Part, SLOT_MAX, check, define, make};
use crate::weak::{create, every_few_seconds, missing};

/// Does not let go of an object before it is done.
async fn weak(client: Client, stop: CancellationToken) {
    every_few_seconds(client, stop, |client, pool, parts| async move {
        for slot in missing(&pool, &parts) {
            while create(&client, &pool, slot).await.is_err() {
                sleep(Duration::from_secs(1)).await;
            }
        }
        Ok(())
    })
    .await;
}

/// More than there are slots, and before the others in every order.
fn scenario<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    Scenario::new(program)
        .setup(define)
        .setup(|client| async move { make(client, "a-hopeless", SLOT_MAX + 3).await })
        .setup(|client| async move { make(client, "b-good", 2).await })
        .step("another", |client| async move { make(client, "c-good", 3).await })
        .converged(|state: &State| {
            let count = |pool| state.all::<Part>().iter().filter(|part| part.spec.pool == pool).count();
            let wanted = [("b-good", 2), ("c-good", 3)].into_iter().filter(|(pool, _)| {
                state.get(&setpoint_types::ObjectKey::new("Pool", "default", *pool)).is_some()
            });
            match wanted.into_iter().find(|(pool, size)| count(*pool) != *size) {
                Some((pool, size)) => Err(format!("{pool} has {} parts, and wants {size}", count(pool))),
                None => Ok(()),
            }
        })
}

#[test]
fn the_others_are_served() {
    check("no faults", &scenario(weak), &scenario(ours));
}
