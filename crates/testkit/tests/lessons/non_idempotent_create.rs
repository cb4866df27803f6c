//! A create that is tried again after a lost answer makes no second object.

use std::time::Duration;

use setpoint_client::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{check_only_by_fault, scenario};
use crate::weak::{create_some, every_few_seconds, missing, tell, trim};

/// Tries until it is told that it worked.
async fn weak(client: Client, stop: CancellationToken) {
    every_few_seconds(client, stop, |client, pool, parts| async move {
        for slot in missing(&pool, &parts) {
            while create_some(&client, &pool, slot).await.is_err() {
                sleep(Duration::from_secs(1)).await;
            }
        }
        trim(&client, &pool, &parts).await?;
        tell(&client, pool).await
    })
    .await;
}

#[test]
fn a_lost_answer_does_not_multiply() {
    check_only_by_fault("lose-answer@write:1", &scenario(weak), &scenario(ours));
}

#[test]
fn a_request_that_is_delivered_twice_does_not_either() {
    check_only_by_fault("duplicate(5s)@write:1", &scenario(weak), &scenario(ours));
}
