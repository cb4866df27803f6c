//! How the leader is asked about time. A seam, so that tests need no cluster.

use std::sync::Arc;

use futures::future::BoxFuture;
use setpoint_api::setpoint::peer::v1::{self as wire, leader_reply, leader_request};
use setpoint_api::setpoint::v1::Reason;
use setpoint_types::LeaseId;

use crate::leader::ask;
use crate::lease::{LeaseTime, Lessor, Observed, RenewError, Renewals};
use crate::objects::Refusal;
use crate::replica::Replica;

/// Who counts the time of holds.
pub trait Keeper: Send + Sync + 'static {
    /// The time a hold gets if it asks for so many seconds.
    fn granted(&self, ttl: i64) -> i64;
    /// The seconds a hold got anew, or 0 if its time is up.
    fn renew(&self, id: LeaseId, observed: Observed) -> BoxFuture<'_, Result<i64, Refusal>>;
    /// What the leader remembers of leases, in the order asked.
    fn times(&self, ids: Vec<LeaseId>) -> BoxFuture<'_, Result<Vec<LeaseTime>, Refusal>>;
}

/// The leader of a cluster, wherever it is.
pub struct ClusterKeeper {
    pub replica: Replica,
    pub lessor: Arc<Lessor>,
    pub renewals: Renewals,
}

impl Keeper for ClusterKeeper {
    fn granted(&self, ttl: i64) -> i64 {
        self.lessor.granted(ttl)
    }

    fn renew(&self, id: LeaseId, observed: Observed) -> BoxFuture<'_, Result<i64, Refusal>> {
        Box::pin(async move {
            self.renewals.renew_observing(id, observed).await.map_err(|error| match error {
                RenewError::NoLeader => no_leader(),
                RenewError::Stopped => super::stopping(),
            })
        })
    }

    fn times(&self, ids: Vec<LeaseId>) -> BoxFuture<'_, Result<Vec<LeaseTime>, Refusal>> {
        Box::pin(async move {
            let ids = ids.into_iter().map(|id| id.0).collect();
            let request = leader_request::Request::LeaseTimes(wire::LeaseTimes { ids });
            match ask(&self.replica.node, request).await {
                Ok(leader_reply::Reply::LeaseTimesAre(times)) => {
                    Ok(times.times.into_iter().map(time).collect())
                }
                _ => Err(no_leader()),
            }
        })
    }
}

fn time(time: wire::LeaseTime) -> LeaseTime {
    let remaining = u64::try_from(time.remaining_ms).ok().map(std::time::Duration::from_millis);
    LeaseTime { remaining, observed: time.observed.into_iter().collect() }
}

fn no_leader() -> Refusal {
    Refusal::new(Reason::Unavailable, "the cluster has no leader at the moment; try again")
}
