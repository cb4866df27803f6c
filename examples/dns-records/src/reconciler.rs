//! Around the plan: what is read before it, and how it is carried out. Nothing is decided here.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_client::Typed;
use setpoint_runtime::cache::Cache;
use setpoint_runtime::ensure::ensure_status;
use setpoint_runtime::finalizer::{BadFinalizer, Finalizer};
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::Uid;

use crate::kind::DnsRecord;
use crate::plan::{Observed, Plan, Step, plan};
use crate::provider::{Entry, Provider, ProviderError, Token};
use crate::{BY_DNS_NAME, FINALIZER};

/// A name that somebody gives up is free within seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Keeps what is published as the records say.
pub struct Publisher<P> {
    records: Cache<DnsRecord>,
    provider: P,
    finalizer: Finalizer,
}

impl<P: Provider> Publisher<P> {
    /// `records` is indexed by DNS name.
    pub(crate) fn new(records: Cache<DnsRecord>, provider: P) -> Result<Self, BadFinalizer> {
        Ok(Self { records, provider, finalizer: Finalizer::new(FINALIZER)? })
    }

    /// Of the owners of what is published, those that are there.
    fn alive(&self, published: &[Entry]) -> Vec<Uid> {
        let owners: BTreeSet<&Uid> = published.iter().map(|entry| &entry.owner.uid).collect();
        let records = self.records.snapshot();
        let there: BTreeSet<Uid> = records.iter().map(|record| record.uid()).collect();
        owners.into_iter().filter(|uid| there.contains(uid)).cloned().collect()
    }
}

impl<P: Provider> Reconciler for Publisher<P> {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        let Some(record) = self.records.read(run.key())? else { return Ok(None) };
        let claims = self.records.find(BY_DNS_NAME, &record.spec.name);
        let others = claims.iter().filter(|claim| claim.key() != run.key());
        let rivals = others.map(|claim| claim.read()).collect::<Result<Vec<_>, _>>()?;
        let published =
            self.provider.look_up(Token::of(run), &record.spec.name, &record.metadata.uid).await?;
        Ok(Some(Observed {
            stage: self.finalizer.stage(&record.metadata),
            rivals,
            covered: self.provider.covers(&record.spec.name),
            alive: self.alive(&published),
            published,
            now: run.now(),
            record,
        }))
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let (Plan { step, status, look_again }, record) = (plan, &seen.record);
        let token = Token::of(run);
        let api = run.client().api::<DnsRecord>().namespace(&record.metadata.namespace);
        match step {
            Step::Nothing => {}
            Step::Publish { entry, instead_of } => self.provider.publish(token, entry, instead_of).await?,
            Step::Retract => self.provider.retract(token, &record.metadata.uid).await?,
            Step::Guard | Step::CleanUp => {
                let take_back = async {
                    self.provider.retract(token, &record.metadata.uid).await.map_err(ReconcileError::from)
                };
                self.finalizer.guard(&api, record, take_back).await?;
            }
        }
        if let Some(status) = status {
            let wanted = Typed { status: Some(status), ..record.clone() };
            ensure_status(&api, record, wanted).await?;
        }
        Ok(if look_again { Action::RequeueAfter(LOOK_AGAIN) } else { Action::Done })
    }
}

/// Whatever the outside says, it may be otherwise later.
impl From<ProviderError> for ReconcileError {
    fn from(error: ProviderError) -> Self {
        Self::retry(error)
    }
}
