//! A write that was not answered may have been done: whoever repeats it repeats the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use setpoint_client::{Client, WriteOptions};
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Part, check_only_by_fault, part, scenario};
use crate::weak::{every_few_seconds, missing, tell, trim};

/// After a timeout it begins anew, with a new name.
async fn weak(client: Client, stop: CancellationToken) {
    let attempt = AtomicU64::new(0);
    let hasty = client.with_timeout(Duration::from_secs(2));
    every_few_seconds(client, stop, |client, pool, parts| {
        let (attempt, hasty) = (&attempt, hasty.clone());
        async move {
            for slot in missing(&pool, &parts) {
                loop {
                    let name =
                        format!("{}-{slot}-{}", pool.metadata.uid, attempt.fetch_add(1, Ordering::Relaxed));
                    let part = part(name.to_lowercase(), &pool, slot);
                    if hasty.api::<Part>().create(&part, &WriteOptions::default()).await.is_ok() {
                        break;
                    }
                }
            }
            trim(&client, &pool, &parts).await?;
            tell(&client, pool).await
        }
    })
    .await;
}

#[test]
fn a_write_that_comes_late_is_no_second_one() {
    check_only_by_fault("late(30s)@write:1", &scenario(weak), &scenario(ours));
}
