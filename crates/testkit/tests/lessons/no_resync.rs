//! A change that no event told of is found all the same.

use setpoint_client::{Client, ListOptions, Typed, WatchEvent, WatchOptions};
use tokio_util::sync::CancellationToken;

use crate::ours::ours;
use crate::stage::{Pool, check_only_by_fault, look, scenario};
use crate::weak::{create, missing, tell, trim};

async fn reconcile(client: &Client, pool: &Typed<Pool>) {
    for (now, parts) in look(client).await.unwrap_or_default() {
        if now.metadata.name == pool.metadata.name {
            for slot in missing(&now, &parts) {
                create(client, &now, slot).await.ok();
            }
            trim(client, &now, &parts).await.ok();
            tell(client, now).await.ok();
        }
    }
}

/// Looks at everything once, then follows a watch; one that breaks is opened again, from then on.
async fn weak(client: Client, stop: CancellationToken) {
    let api = client.api::<Pool>();
    let forever = async {
        let (pools, mut after) = loop {
            if let Ok(all) = api.list_all(&ListOptions::default()).await {
                break all;
            }
        };
        for pool in &pools {
            reconcile(&client, pool).await;
        }
        loop {
            let options = WatchOptions { after: Some(after), ..WatchOptions::default() };
            if let Ok(mut watch) = api.watch(&options).await {
                while let Ok(Some(events)) = watch.next().await {
                    for event in events {
                        if let WatchEvent::Added { object, .. } | WatchEvent::Modified { object, .. } = event
                        {
                            reconcile(&client, &object).await;
                        }
                    }
                }
            }
            if let Ok(now) = api.list(&ListOptions { page: 1, ..ListOptions::default() }).await {
                after = now.revision;
            }
        }
    };
    stop.run_until_cancelled(forever).await;
}

#[test]
fn what_happened_while_nobody_looked_is_seen() {
    check_only_by_fault("miss(30s)@step:2", &scenario(weak), &scenario(ours));
}
