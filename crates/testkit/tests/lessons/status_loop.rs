//! A status is written when what it says has changed, and not to say the same again.

use setpoint_client::{Client, WriteOptions};
use setpoint_testkit::Problem;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Pool, PoolStatus, scenario, wrong};
use crate::weak::{create, every_few_seconds, missing, trim};

/// Says each time when it looked.
async fn weak(client: Client, stop: CancellationToken) {
    every_few_seconds(client, stop, |client, mut pool, parts| async move {
        for slot in missing(&pool, &parts) {
            create(&client, &pool, slot).await?;
        }
        trim(&client, &pool, &parts).await?;
        let seen_ms = Some(setpoint_testkit::now().0);
        pool.status = Some(PoolStatus { ready: pool.spec.size, seen_ms, ..PoolStatus::default() });
        client.api::<Pool>().update_status(&pool, &WriteOptions::default()).await.map(drop)
    })
    .await;
}

#[test]
fn nothing_is_written_once_everything_is_said() {
    let caught = wrong(&scenario(weak), "no faults");
    assert!(matches!(caught, Some(Problem::NotQuiet { writes, .. }) if writes >= 20), "{caught:?}");
    assert_eq!(wrong(&scenario(ours), "no faults"), None);
}
