//! Whoever waits for an object can read in it how far it is, and what it waits for.

use setpoint_client::Client;
use setpoint_testkit::{Scenario, State};
use setpoint_types::object::ConditionStatus;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Pool, SLOT_MAX, check, define, make};
use crate::weak::{create, every_few_seconds, missing, tell};

/// Writes into a log what it cannot do.
async fn weak(client: Client, stop: CancellationToken) {
    every_few_seconds(client, stop, |client, pool, parts| async move {
        for slot in missing(&pool, &parts) {
            if let Err(error) = create(&client, &pool, slot).await {
                tracing::warn!(%error, "a part could not be made");
                return Err(error);
            }
        }
        tell(&client, pool).await
    })
    .await;
}

/// More than there are slots.
fn scenario<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    Scenario::new(program)
        .setup(define)
        .setup(|client| async move { make(client, "web", SLOT_MAX + 3).await })
        .converged(|state: &State| {
            let pool = state.one::<Pool>("default", "web").ok_or("there is no pool")?;
            let conditions = pool.status.map(|status| status.conditions).unwrap_or_default();
            let stalled = conditions
                .iter()
                .find(|it| it.kind == "Stalled")
                .ok_or("it does not say that it is stalled")?;
            let is_current = stalled.observed_generation == pool.metadata.generation;
            match stalled.status == ConditionStatus::True && !stalled.reason.is_empty() && is_current {
                true => Ok(()),
                false => Err(format!("it says something else: {stalled:?}")),
            }
        })
}

#[test]
fn the_object_says_what_it_waits_for() {
    check("no faults", &scenario(weak), &scenario(ours));
}
