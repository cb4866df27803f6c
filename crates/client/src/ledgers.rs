//! Ledgers: how much there is of something, and how much of it is taken. Read here; written by transactions.

use std::collections::BTreeMap;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::ledgers_client::LedgersClient;
use setpoint_types::Revision;
use setpoint_types::quantity::Amounts;

use crate::call::Call;
use crate::client::Client;
use crate::convert;
use crate::error::Error;
use crate::options::ReadAt;

/// The ledgers of a cluster: what is promised to whom, of nodes and of quotas. **Guarantees**: a list is of one revision. **Does not promise**
/// that there is still room when something is reserved: that is decided in the transaction which reserves it.
#[derive(Clone)]
pub struct Ledgers {
    client: Client,
}

/// One ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub name: String,
    /// Of a dimension that is not named there is nothing, or as much as `*` says.
    pub limits: Amounts,
    /// The sum of all reservations.
    pub used: Amounts,
    /// When limits or use last changed.
    pub modified: Revision,
}

/// What somebody has reserved in a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    pub owner: String,
    pub amounts: Amounts,
}

impl Ledgers {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Every ledger whose name begins so, at one revision, and that revision.
    pub async fn list(&self, prefix: &str, at: ReadAt) -> Result<(Vec<Ledger>, Revision), Error> {
        let (mut found, mut at, mut after) = (Vec::new(), at, String::new());
        loop {
            let call = Call::read("list", format!("ledgers {prefix}"));
            let request = pb::ListLedgersRequest {
                prefix: prefix.to_owned(),
                at: Some(convert::wire_at(at)),
                limit: 0,
                after: after.clone(),
            };
            let sent = self.client.call(&call, request, |wire, request| async move {
                LedgersClient::new(wire).list(request).await
            });
            let answer = sent.await?.0.into_inner();
            let revision = Revision::new(answer.revision);
            found.extend(answer.ledgers.into_iter().map(ledger));
            match found.last() {
                Some(last) if answer.more => after.clone_from(&last.name),
                _ => return Ok((found, revision)),
            }
            at = ReadAt::Exact(revision);
        }
    }

    /// Who has reserved what in a ledger, at one revision, and that revision.
    pub async fn reservations(&self, ledger: &str, at: ReadAt) -> Result<(Vec<Reserved>, Revision), Error> {
        let (mut found, mut at, mut after) = (Vec::<Reserved>::new(), at, String::new());
        loop {
            let call = Call::read("list", format!("reservations {ledger}"));
            let request = pb::ReservationsRequest {
                ledger: ledger.to_owned(),
                at: Some(convert::wire_at(at)),
                limit: 0,
                after: after.clone(),
            };
            let sent = self.client.call(&call, request, |wire, request| async move {
                LedgersClient::new(wire).reservations(request).await
            });
            let answer = sent.await?.0.into_inner();
            let revision = Revision::new(answer.revision);
            found.extend(
                answer.reservations.into_iter().map(|it| Reserved {
                    owner: it.owner,
                    amounts: amounts(it.amounts.into_iter().collect()),
                }),
            );
            match found.last() {
                Some(last) if answer.more => after.clone_from(&last.owner),
                _ => return Ok((found, revision)),
            }
            at = ReadAt::Exact(revision);
        }
    }
}

fn ledger(ledger: pb::Ledger) -> Ledger {
    Ledger {
        name: ledger.name,
        limits: amounts(ledger.limits.into_iter().collect()),
        used: amounts(ledger.used.into_iter().collect()),
        modified: Revision::new(ledger.modified_revision),
    }
}

fn amounts(amounts: BTreeMap<String, u64>) -> Amounts {
    let amount = |(dimension, amount)| (dimension, i64::try_from(amount).unwrap_or(i64::MAX));
    amounts.into_iter().map(amount).collect()
}
