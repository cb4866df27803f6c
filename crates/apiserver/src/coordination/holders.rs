//! Who holds what: holds from the local copy, brought up to date; times and what holders have seen from the leader.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_store::command::Range;
use setpoint_store::{Hold, LeaseName};
use setpoint_types::LeaseId;

use super::{Coordinator, lease_name};
use crate::objects::Refusal;
use crate::objects::reader::blocking;

/// Leases that one question to the leader is about.
const ASKED_AT_ONCE: usize = 1024;

impl Coordinator {
    pub async fn holders(&self, request: pb::HoldersRequest) -> Result<pb::HoldersResponse, Refusal> {
        let namespace = (!request.namespace.is_empty()).then_some(request.namespace);
        if let Some(namespace) = &namespace {
            lease_name(namespace, "any")?;
        }
        self.writer.reader.barrier.pass().await?;
        let holds = self.holds(namespace.as_deref()).await?;
        let mut holders = Vec::with_capacity(holds.len());
        for some in holds.chunks(ASKED_AT_ONCE) {
            let ids: Vec<LeaseId> = some.iter().map(|(_, hold)| hold.id).collect();
            let times = self.keeper.times(ids).await?;
            for ((lease, hold), time) in some.iter().zip(times) {
                // One that ended since the holds were read is left out.
                let Some(remaining) = time.remaining else { continue };
                holders.push(pb::Holder {
                    namespace: lease.namespace.clone(),
                    lease: lease.name.clone(),
                    holder: hold.holder.clone(),
                    epoch: hold.epoch.0,
                    remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
                    observed: time.observed.into_iter().collect(),
                });
            }
        }
        Ok(pb::HoldersResponse { holders })
    }

    /// In the order of their names.
    async fn holds(&self, namespace: Option<&str>) -> Result<Vec<(LeaseName, Hold)>, Refusal> {
        let reader = &self.writer.reader;
        let most = self.limits.holders;
        let read = Range { limit: most as i64 + 1, ..Range::latest(LeaseName::holds(namespace)) };
        let store = reader.store.clone();
        let found = blocking(move || store.range(&read)).await?;
        let found = found.map_err(|failure| reader.read_failure(failure))?.kvs;
        if found.len() > most {
            let text = format!("more than {most} leases are held; ask for one namespace");
            return Err(Refusal::new(Reason::TooLarge, text));
        }
        let mut holds = Vec::with_capacity(found.len());
        for kv in found {
            let Some(lease) = LeaseName::of_hold_key(&kv.key) else { continue };
            let hold = Hold::decode(kv.value);
            holds.push((lease, hold.map_err(|damaged| reader.storage_failure(&damaged.into()))?));
        }
        Ok(holds)
    }
}
