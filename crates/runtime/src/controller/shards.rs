//! What happens when a shard is gained: its caches catch up with its holder before, then all its keys are added.
//!
//! A standby has synced caches, but they may be behind what the holder before has written. Its writes were refused from the
//! moment the lease was another's; so whatever it did is not later than a revision read after that.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::feed::Feed;
use super::keeper::Keeper;
use crate::cache::Ended;
use crate::informer::Informers;

/// Opens shards as they are gained, and closes them as they are lost, until it is told to stop.
pub(super) async fn follow(
    feed: Arc<Feed>,
    keeper: Arc<Keeper>,
    informers: Informers,
    stop: CancellationToken,
) -> Result<(), Ended> {
    let mut changes = feed.ownership.changes();
    loop {
        changes.mark_unchanged();
        let held = feed.ownership.held();
        let gained = feed.gate.compare(&held);
        feed.counters.shards.set(i64::try_from(held.len()).unwrap_or(i64::MAX));
        if !gained.is_empty() {
            // Without a fence there was nobody before, and the first state of the caches is later than the start.
            let fenced = gained.values().any(Option::is_some);
            let caught_up = async {
                if fenced {
                    informers.at_least(keeper.present().wait().await).await?;
                }
                Ok(())
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                // What is held may be something else by now.
                Ok(()) = changes.changed() => continue,
                caught_up = caught_up => caught_up?,
            }
            let shards: Vec<_> = gained.keys().copied().collect();
            tracing::info!(?shards, kind = &*feed.primary.kind, "work begins");
            feed.gate.open(gained);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = feed.replay(|shard| shards.contains(&shard)) => {}
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = changes.changed() => if changed.is_err() {
                // Nobody can change it any more.
                stop.cancelled().await;
                return Ok(());
            },
        }
    }
}
