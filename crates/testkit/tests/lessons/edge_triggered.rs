//! What a controller does follows from the state there is, and not from the events that told of it.

use std::collections::BTreeMap;

use setpoint_client::{Client, WatchEvent, WatchOptions};
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Pool, check_only_by_fault, scenario};
use crate::weak::{create, create_some, tell, trim};

/// Takes each event for an order: so many more than last time.
async fn weak(client: Client, stop: CancellationToken) {
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    let forever = async {
        loop {
            let Ok(mut watch) = client.api::<Pool>().watch(&WatchOptions::default()).await else { continue };
            while let Ok(Some(events)) = watch.next().await {
                for event in events {
                    let (WatchEvent::Added { object: pool, .. } | WatchEvent::Modified { object: pool, .. }) =
                        event
                    else {
                        continue;
                    };
                    let before = last.insert(pool.metadata.name.clone(), pool.spec.size).unwrap_or(0);
                    for slot in before..pool.spec.size {
                        create_some(&client, &pool, slot).await.ok();
                    }
                    for (pool, parts) in crate::stage::look(&client).await.unwrap_or_default() {
                        trim(&client, &pool, &parts).await.ok();
                    }
                    tell(&client, pool).await.ok();
                }
            }
        }
    };
    stop.run_until_cancelled(forever).await;
}

#[test]
fn a_crash_makes_the_first_event_come_again() {
    check_only_by_fault("crash@write:2", &scenario(weak), &scenario(ours));
}

/// The same with names that follow from the slot: then what is missed is lost instead of done twice.
async fn weak_but_named(client: Client, stop: CancellationToken) {
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    let forever = async {
        loop {
            let Ok(mut watch) = client.api::<Pool>().watch(&WatchOptions::default()).await else { continue };
            while let Ok(Some(events)) = watch.next().await {
                for event in events {
                    let (WatchEvent::Added { object: pool, .. } | WatchEvent::Modified { object: pool, .. }) =
                        event
                    else {
                        continue;
                    };
                    let before = last.insert(pool.metadata.name.clone(), pool.spec.size).unwrap_or(0);
                    for slot in before..pool.spec.size {
                        create(&client, &pool, slot).await.ok();
                    }
                    for (pool, parts) in crate::stage::look(&client).await.unwrap_or_default() {
                        trim(&client, &pool, &parts).await.ok();
                    }
                    tell(&client, pool).await.ok();
                }
            }
        }
    };
    stop.run_until_cancelled(forever).await;
}

#[test]
fn an_order_that_failed_is_never_given_again() {
    check_only_by_fault("gone(180s)@write:1", &scenario(weak_but_named), &scenario(ours));
}
