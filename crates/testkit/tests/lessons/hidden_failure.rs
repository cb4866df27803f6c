//! A reconcile that failed is tried again, by whatever it failed.

use setpoint_client::Client;
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Pool, check_only_by_fault, look, scenario};
use crate::weak::{create, missing, tell, trim};

/// Sees every change, by a good cache, and writes failures into a log that nobody reads.
async fn weak(client: Client, stop: CancellationToken) {
    let informers = Informers::new(client.clone(), InformerSettings::default());
    let pools = informers.cache::<Pool>(Selection::everywhere());
    let (changes, mut changed) = mpsc::channel(64);
    pools.observe(Box::new(move |delta| drop(changes.try_send(delta.key.clone()))));
    let forever = async {
        while changed.recv().await.is_some() {
            let reconciled = async {
                for (pool, parts) in look(&client).await? {
                    for slot in missing(&pool, &parts) {
                        create(&client, &pool, slot).await?;
                    }
                    trim(&client, &pool, &parts).await?;
                    tell(&client, pool).await?;
                }
                Ok::<(), setpoint_client::Error>(())
            };
            if let Err(error) = reconciled.await {
                tracing::warn!(%error, "reconcile failed");
            }
        }
    };
    stop.run_until_cancelled(forever).await;
}

#[test]
fn an_outage_is_not_the_end() {
    check_only_by_fault("gone(180s)@write:1", &scenario(weak), &scenario(ours));
}
