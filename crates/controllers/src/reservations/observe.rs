//! What is read: all bindings from the cache, the ledgers at exactly its revision, and of those that say something else, who has reserved
//! what there. A bind that is under way is thus no difference.

use setpoint_client::{Client, ReadAt};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::Cache;
use setpoint_types::kinds::{Binding, BindingState};

use super::plan::{Observed, Owner};
use crate::quota::audit::Sums;

/// Ledgers that are looked into at a time. The rest is found by the next look.
const LEDGERS_MAX: usize = 256;
/// Of the ledgers that bindings reserve in.
const OURS: [&str; 4] = ["node/", "ports/", "quota/", "spread/"];

pub(super) struct Views {
    pub bindings: Cache<Binding>,
}

impl Views {
    pub async fn observe(&self, client: &Client) -> Result<Observed, ReconcileError> {
        let mut observed = Observed::default();
        let mut sums = Sums::default();
        let bindings = self.bindings.snapshot();
        for binding in bindings.iter() {
            let binding = binding.read()?;
            sums.add(binding.status.as_ref(), &binding.spec.reservations);
            let is_released = binding.status.as_ref().is_some_and(|it| it.state == BindingState::Released);
            if !is_released {
                let metadata = &binding.metadata;
                observed.holders.insert(Owner::of(&metadata.namespace, &metadata.name, &metadata.uid));
            }
        }
        let at = ReadAt::Exact(bindings.revision());
        for prefix in OURS {
            let (ledgers, _) = client.ledgers().list(prefix, at).await?;
            let differ = ledgers.iter().filter(|it| !sums.compare(&it.name, &it.used).is_empty());
            let room = LEDGERS_MAX.saturating_sub(observed.reserved.len());
            for ledger in differ.take(room).map(|it| it.name.clone()) {
                let (reserved, _) = client.ledgers().reservations(&ledger, at).await?;
                let owners = reserved.into_iter().map(|it| it.owner).collect();
                observed.reserved.insert(ledger, owners);
            }
        }
        Ok(observed)
    }
}
