//! What was made for an object goes with it, also if it went while nobody looked.

use setpoint_client::{Client, DeleteOptions, ListOptions, WatchEvent, WatchOptions};
use setpoint_testkit::Scenario;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{self, Part, Pool, check_only_by_fault};
use crate::weak::{create, every_few_seconds, missing, tell, trim};

/// Cleans up when it is told that a pool went.
async fn weak(client: Client, stop: CancellationToken) {
    let making = every_few_seconds(client.clone(), stop.clone(), |client, pool, parts| async move {
        for slot in missing(&pool, &parts) {
            create(&client, &pool, slot).await?;
        }
        trim(&client, &pool, &parts).await?;
        tell(&client, pool).await
    });
    let cleaning = async {
        loop {
            let Ok(mut watch) = client.api::<Pool>().watch(&WatchOptions::default()).await else { continue };
            while let Ok(Some(events)) = watch.next().await {
                for event in events {
                    if let WatchEvent::Deleted { object, .. } = event {
                        clean_up(&client, &object.metadata.name).await;
                    }
                }
            }
        }
    };
    tokio::join!(making, stop.run_until_cancelled(cleaning));
}

async fn clean_up(client: &Client, pool: &str) {
    let parts = client.api::<Part>();
    let Ok((all, _)) = parts.list_all(&ListOptions::default()).await else { return };
    for part in all.iter().filter(|part| part.spec.pool == pool) {
        parts.delete(&part.metadata.name, &DeleteOptions::default()).await.ok();
    }
}

fn scenario<F, Run>(program: F) -> Scenario
where
    F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    Scenario::new(program)
        .setup(stage::define)
        .setup(|client| async move { stage::make(client, "web", 2).await })
        .step("delete", |client| async move { stage::delete(client, "web").await })
        .converged(stage::as_wanted)
}

#[test]
fn what_went_unseen_is_cleaned_up_after() {
    check_only_by_fault("miss(30s)@step:1", &scenario(weak), &scenario(ours));
}
