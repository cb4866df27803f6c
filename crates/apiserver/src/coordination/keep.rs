//! Keep-alives: no log entry, no barrier unless the local copy does not know the hold.

use std::collections::BTreeMap;

use setpoint_api::setpoint::v1 as pb;
use setpoint_store::command::Range;
use setpoint_store::{Hold, LeaseName};
use setpoint_types::KeyRange;

use super::{Coordinator, lease_name};
use crate::lease::Observed;
use crate::objects::Refusal;
use crate::objects::reader::blocking;

/// Of the name of a kind.
const KIND_BYTES_MAX: usize = 128;

impl Coordinator {
    pub async fn keep_alive(&self, request: pb::KeepAliveRequest) -> Result<pb::KeepAliveResponse, Refusal> {
        let lease = lease_name(&request.namespace, &request.lease)?;
        let observed = self.observed(request.observed)?;
        let mut current = false;
        loop {
            let hold = self.hold(&lease).await?;
            let own = hold.filter(|hold| hold.holder == request.holder && hold.epoch.0 == request.epoch);
            if let Some(hold) = own {
                // The id is of this hold and no other, so that the leader cannot renew another one by mistake.
                let ttl = self.keeper.renew(hold.id, observed.clone()).await?;
                if ttl > 0 {
                    let ttl_seconds = u32::try_from(ttl).unwrap_or(u32::MAX);
                    let pb::KeepAliveRequest { namespace, lease, epoch, .. } = request;
                    return Ok(pb::KeepAliveResponse {
                        namespace,
                        lease,
                        held: true,
                        epoch,
                        ttl_seconds,
                        error: None,
                    });
                }
            }
            if current {
                return self.lost(request.namespace, request.lease, &lease).await;
            }
            self.writer.reader.barrier.pass().await?;
            current = true;
        }
    }

    async fn lost(
        &self,
        namespace: String,
        name: String,
        lease: &LeaseName,
    ) -> Result<pb::KeepAliveResponse, Refusal> {
        let moment = self.moment(lease).await?;
        let epoch = moment.hold.map_or(moment.epoch, |hold| hold.epoch).0;
        Ok(pb::KeepAliveResponse { namespace, lease: name, held: false, epoch, ttl_seconds: 0, error: None })
    }

    async fn hold(&self, lease: &LeaseName) -> Result<Option<Hold>, Refusal> {
        let reader = &self.writer.reader;
        let read = Range::latest(KeyRange::Single(lease.hold_key()));
        let result = match reader.store.range_soon(&read) {
            Some(result) => result,
            None => {
                let store = reader.store.clone();
                blocking(move || store.range(&read)).await?
            }
        };
        let found = result.map_err(|failure| reader.read_failure(failure))?.kvs.pop();
        let hold = found.map(|kv| Hold::decode(kv.value)).transpose();
        hold.map_err(|damaged| reader.storage_failure(&damaged.into()))
    }

    fn observed(&self, observed: BTreeMap<String, u64>) -> Result<Observed, Refusal> {
        let most = self.limits.observed;
        if observed.len() > most || observed.keys().any(|kind| kind.len() > KIND_BYTES_MAX) {
            let text =
                format!("must have at most {most} kinds, with names of at most {KIND_BYTES_MAX} bytes");
            return Err(Refusal::invalid("observed", text));
        }
        Ok(observed.into_iter().collect())
    }
}
