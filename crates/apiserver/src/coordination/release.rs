//! Giving a lease back before its time is up.

use setpoint_api::setpoint::v1 as pb;
use setpoint_store::commit::{Commit, Op};
use setpoint_types::LeaseId;

use super::acquire::raced;
use super::object;
use super::state::object_key;
use super::{Coordinator, holder_name, lease_name};
use crate::access::Caller;
use crate::lease::Observed;
use crate::objects::Refusal;
use crate::objects::write::convert;
use crate::objects::write::options::Options;

impl Coordinator {
    pub async fn release(
        &self,
        request: pb::ReleaseRequest,
        caller: &Caller,
    ) -> Result<pb::ReleaseResponse, Refusal> {
        let lease = lease_name(&request.namespace, &request.lease)?;
        let holder = holder_name(request.holder)?;
        let wire = pb::WriteOptions { manager: object::MANAGER.to_owned(), ..Default::default() };
        let options = Options::new(wire, caller, 0, Vec::new)?;
        let (mut current, mut observed) = (false, Observed::new());
        for _ in 0..self.limits.attempts {
            let moment = self.moment(&lease).await?;
            let held = |hold: &&setpoint_store::Hold| hold.holder == holder && hold.epoch.0 == request.epoch;
            let Some(hold) = moment.hold.as_ref().filter(held) else {
                if current {
                    let revision = self.writer.reader.store.revision().get();
                    return Ok(pb::ReleaseResponse { released: false, revision });
                }
                self.writer.reader.barrier.pass().await?;
                current = true;
                continue;
            };
            if observed.is_empty() {
                // As at the end of a hold whose time is up. That the leader cannot be asked is no reason to hold on.
                let times = self.keeper.times(vec![hold.id]).await.unwrap_or_default();
                observed = times.into_iter().next().map(|time| time.observed).unwrap_or_default();
            }
            let mut ops = vec![Op::Vacate { lease: lease.clone(), epoch: hold.epoch }];
            // An object that is damaged is no reason to hold on.
            if let Some(before) = moment.object() {
                let now = self.writer.clock.now();
                let status = object::ended(object::status(Some(before)), hold, observed.clone(), now);
                let value = convert::encoded(&mut object::with_status(before, &status, now)?);
                ops.push(Op::Put { key: object_key(&lease), value, lease: LeaseId::NONE });
            }
            let guards = moment.guards(&lease);
            let commit = Commit { operation: None, author: Some(options.author.clone()), guards, ops };
            // Without asking for room: it must be possible on a full disk.
            match self.writer.commits.commit(commit.into(), 0).await {
                Ok(done) => {
                    return Ok(pb::ReleaseResponse { released: true, revision: done.revision.get() });
                }
                Err(error) => raced(error, &options)?,
            }
        }
        Err(super::acquire::too_many_races())
    }
}
