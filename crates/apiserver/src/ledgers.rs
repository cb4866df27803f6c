//! Reading ledgers: limits, use, and who reserved what. At any revision, since ledgers are keys like any other.
//!
//! Not here: reserving and releasing, which are parts of a transaction (`objects/write`).

use setpoint_access::{LEDGERS, Need, Verb};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::ledgers_server::Ledgers;
use setpoint_store::ledger::decode_reservation;
use setpoint_store::{KeyValue, Ledger, LedgerKey, PageMax, ReadFailure, Store};
use setpoint_types::{KeyRange, Revision};
use tonic::{Request, Response, Status};

use crate::access::{Denied, Gate};
use crate::objects::freshness::{At, Settled};
use crate::objects::reader::{OVERTAKEN_MAX, blocking};
use crate::objects::{Reader, Refusal, key};

/// What one answer lists at most.
const LISTED_MAX: usize = 1_000;

pub struct LedgersService {
    pub reader: Reader,
    pub gate: Gate,
}

#[tonic::async_trait]
impl Ledgers for LedgersService {
    async fn get(
        &self,
        request: Request<pb::GetLedgerRequest>,
    ) -> Result<Response<pb::GetLedgerResponse>, Status> {
        self.may_read(&request, |it| Need::ledger(Verb::Get, &it.ledger))?;
        Ok(Response::new(self.reader.ledger(request.into_inner()).await?))
    }

    async fn list(
        &self,
        request: Request<pb::ListLedgersRequest>,
    ) -> Result<Response<pb::ListLedgersResponse>, Status> {
        self.may_read(&request, |_| Need::all(Verb::List, LEDGERS, ""))?;
        Ok(Response::new(self.reader.ledgers(request.into_inner()).await?))
    }

    async fn reservations(
        &self,
        request: Request<pb::ReservationsRequest>,
    ) -> Result<Response<pb::ReservationsResponse>, Status> {
        self.may_read(&request, |it| Need::ledger(Verb::List, &it.ledger))?;
        Ok(Response::new(self.reader.reservations(request.into_inner()).await?))
    }
}

impl LedgersService {
    fn may_read<T>(&self, request: &Request<T>, need: impl FnOnce(&T) -> Need) -> Result<(), Denied> {
        let caller = self.gate.caller(request);
        self.gate.check(&caller, || vec![need(request.get_ref())])
    }
}

impl Reader {
    pub async fn ledger(&self, request: pb::GetLedgerRequest) -> Result<pb::GetLedgerResponse, Refusal> {
        let name = request.ledger;
        if name.is_empty() {
            return Err(Refusal::invalid("ledger", "must name a ledger"));
        }
        let key = Ledger::key(&name);
        let read = move |store: &Store, at: Revision| first(store, KeyRange::Single(key.clone()), at);
        let (revision, found) = self.read_ledgers(request.at, read).await?;
        let Some(kv) = found else {
            return Err(Refusal::new(Reason::NotFound, format!("there is no ledger {name}")).at(revision));
        };
        Ok(pb::GetLedgerResponse { ledger: Some(self.shown(name, kv)?), revision: revision.get() })
    }

    pub async fn ledgers(&self, request: pb::ListLedgersRequest) -> Result<pb::ListLedgersResponse, Refusal> {
        let limit = page(request.limit);
        let pb::ListLedgersRequest { prefix, at, after, .. } = request;
        let read = move |store: &Store, at: Revision| walk(store, &prefix, &after, limit + 1, at);
        let (revision, mut found) = self.read_ledgers(at, read).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let ledgers = found.into_iter().map(|(name, kv)| self.shown(name, kv)).collect::<Result<_, _>>()?;
        Ok(pb::ListLedgersResponse { ledgers, revision: revision.get(), more })
    }

    pub async fn reservations(
        &self,
        request: pb::ReservationsRequest,
    ) -> Result<pb::ReservationsResponse, Refusal> {
        let limit = page(request.limit);
        let pb::ReservationsRequest { ledger, at, after, .. } = request;
        if ledger.is_empty() {
            return Err(Refusal::invalid("ledger", "must name a ledger"));
        }
        let range = key::after(Ledger::reservations(&ledger), &Ledger::reservation_key(&ledger, &after));
        let read = move |store: &Store, at: Revision| {
            let mut pages = store.open_pages_at(range.clone(), at)?;
            let page = store.next_page(&mut pages, PageMax { keys: limit + 1, bytes: usize::MAX })?;
            Ok(page.kvs)
        };
        let (revision, mut found) = self.read_ledgers(at, read).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let reservations = found.into_iter().map(|kv| self.reservation(kv)).collect::<Result<_, _>>()?;
        Ok(pb::ReservationsResponse { reservations, revision: revision.get(), more })
    }

    /// Reads at the revision that a request asks for.
    async fn read_ledgers<T: Send + 'static>(
        &self,
        at: Option<pb::ReadAt>,
        read: impl Fn(&Store, Revision) -> Result<T, ReadFailure> + Clone + Send + 'static,
    ) -> Result<(Revision, T), Refusal> {
        let at = At::from_wire(at)?;
        for _ in 0..OVERTAKEN_MAX {
            let settled = self.settle(at).await?;
            let at = match settled {
                Settled::Newest => self.store.revision(),
                Settled::Exactly(revision) => revision,
            };
            let (read, store) = (read.clone(), self.store.clone());
            match blocking(move || read(&store, at)).await? {
                // The newest state was overtaken by writes and a compaction: there is a newer one to read.
                Err(ReadFailure::Rejected(_)) if settled == Settled::Newest => {}
                found => return Ok((at, found.map_err(|failure| self.read_failure(failure))?)),
            }
        }
        Err(Refusal::expired(self.oldest_kept()))
    }

    fn shown(&self, name: String, kv: KeyValue) -> Result<pb::Ledger, Refusal> {
        let modified_revision = kv.modified.get();
        let ledger = Ledger::decode(kv.value).map_err(|damaged| self.storage_failure(&damaged.into()))?;
        let (limits, used) = (ledger.limits.into_iter().collect(), ledger.used.into_iter().collect());
        Ok(pb::Ledger { name, limits, used, modified_revision })
    }

    fn reservation(&self, kv: KeyValue) -> Result<pb::Reservation, Refusal> {
        let owner = match LedgerKey::parse(&kv.key) {
            Some(LedgerKey::Reservation { owner, .. }) => owner,
            _ => String::new(),
        };
        let modified_revision = kv.modified.get();
        let amounts =
            decode_reservation(kv.value).map_err(|damaged| self.storage_failure(&damaged.into()))?;
        Ok(pb::Reservation { owner, amounts: amounts.into_iter().collect(), modified_revision })
    }
}

fn page(limit: u32) -> usize {
    if limit == 0 { LISTED_MAX } else { LISTED_MAX.min(limit as usize) }
}

/// The ledgers behind a name. Their reservations lie among them, and are stepped over without being read.
fn walk(
    store: &Store,
    prefix: &str,
    after: &str,
    limit: usize,
    at: Revision,
) -> Result<Vec<(String, KeyValue)>, ReadFailure> {
    let mut range = Ledger::with_prefix(prefix);
    if !after.is_empty() {
        let behind = key::after(range.clone(), &Ledger::key(after));
        range = if behind.start() > range.start() { behind } else { range };
    }
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(kv) = first(store, range.clone(), at)? else { break };
        range = match LedgerKey::parse(&kv.key) {
            Some(LedgerKey::Reservation { ledger, .. }) => {
                match (Ledger::reservations(&ledger).end(), range.end()) {
                    (Some(start), Some(end)) if start < end => KeyRange::Span { start, end },
                    _ => break,
                }
            }
            _ => key::after(range, &kv.key),
        };
        if let Some(LedgerKey::Ledger(name)) = LedgerKey::parse(&kv.key) {
            found.push((name, kv));
        }
    }
    Ok(found)
}

fn first(store: &Store, range: KeyRange, at: Revision) -> Result<Option<KeyValue>, ReadFailure> {
    let mut pages = store.open_pages_at(range, at)?;
    let page = store.next_page(&mut pages, PageMax { keys: 1, bytes: usize::MAX })?;
    Ok(page.kvs.into_iter().next())
}
