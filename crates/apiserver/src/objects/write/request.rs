//! Requests as intents, guards and ledger operations.

use prost::Message;
use setpoint_api::raw::v1 as raw;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::guard::Guard as WireGuard;
use setpoint_api::setpoint::v1::write::Write as WireWrite;
use setpoint_objects::deletion::Propagation;
use setpoint_objects::patch::PatchKind;
use setpoint_objects::write::ApplyHow;
use setpoint_objects::{Metadata, Subresource};
use setpoint_store::Amounts;
use setpoint_store::commit::{Guard, Op};
use setpoint_types::Revision;
use std::collections::BTreeMap;

use super::commit::{Extra, LedgerOp};
use super::convert;
use super::intent::{DeleteRequest, Intent, PatchRequest, Target};
use super::options::{Options, fence};
use super::writer::Writer;
use crate::access::Caller;
use crate::objects::error::Refusal;
use crate::objects::freshness::At;

impl Writer {
    pub async fn create(
        &self,
        request: pb::CreateRequest,
        caller: &Caller,
    ) -> Result<raw::WriteResponse, Refusal> {
        let options = options("create", &request, request.options.clone(), caller)?;
        let intent = Intent::Create(convert::incoming(object(request.object)?)?);
        self.one(intent, &options).await
    }

    pub async fn update(
        &self,
        request: pb::UpdateRequest,
        part: Subresource,
        caller: &Caller,
    ) -> Result<raw::WriteResponse, Refusal> {
        let options = options(part.as_str(), &request, request.options.clone(), caller)?;
        let intent = Intent::Update(convert::incoming(object(request.object)?)?, part);
        self.one(intent, &options).await
    }

    pub async fn apply(
        &self,
        request: pb::ApplyRequest,
        caller: &Caller,
    ) -> Result<raw::ApplyResponse, Refusal> {
        let options = options("apply", &request, request.options.clone(), caller)?;
        let how = ApplyHow { force: request.force, subresource: part(request.status) };
        let intents = [Intent::Apply(convert::incoming(object(request.object)?)?, how)];
        let done = self.write(&intents, &Extra::default(), &options).await?;
        let mut answers = self.answers(&intents, done, options.dry_run).await?;
        let answer = answers.results.pop().unwrap_or_default();
        let taken = answer.taken.iter().cloned().map(convert::conflict).collect();
        Ok(raw::ApplyResponse { write: Some(answer.into_write()), taken })
    }

    pub async fn patch(
        &self,
        request: pb::PatchRequest,
        caller: &Caller,
    ) -> Result<raw::WriteResponse, Refusal> {
        let options = options("patch", &request, request.options.clone(), caller)?;
        let kind = match request.r#type() {
            pb::patch_request::Type::Merge => PatchKind::Merge,
            pb::patch_request::Type::Json => PatchKind::Json,
        };
        let patch = PatchRequest {
            kind,
            patch: request.patch,
            uid: request.uid,
            revision: request.revision,
            subresource: part(request.status),
        };
        self.one(Intent::Patch(target(request.key)?, patch), &options).await
    }

    pub async fn delete(
        &self,
        request: pb::DeleteRequest,
        caller: &Caller,
    ) -> Result<raw::DeleteResponse, Refusal> {
        let options = options("delete", &request, request.options.clone(), caller)?;
        let propagation = match request.propagation() {
            pb::delete_request::Propagation::Background => Propagation::Background,
            pb::delete_request::Propagation::Foreground => Propagation::Foreground,
            pb::delete_request::Propagation::Orphan => Propagation::Orphan,
        };
        let delete = DeleteRequest { uid: request.uid, revision: request.revision, propagation };
        let intents = [Intent::Delete(target(request.key)?, delete)];
        let done = self.write(&intents, &Extra::default(), &options).await?;
        let mut answers = self.answers(&intents, done, options.dry_run).await?;
        let answer = answers.results.pop().unwrap_or_default();
        let blockers = self.blockers(&answer).await?;
        Ok(answer.into_delete(blockers))
    }

    pub async fn transact(
        &self,
        request: pb::TransactRequest,
        caller: &Caller,
    ) -> Result<raw::TransactResponse, Refusal> {
        let parts = request.guards.len() + request.writes.len();
        if parts > self.limits.transaction_writes {
            let most = self.limits.transaction_writes;
            let text =
                format!("has {parts} guards and writes, the most is {most}; make it several transactions");
            return Err(Refusal::invalid("writes", text));
        }
        let options = options("transact", &request, request.options.clone(), caller)?;
        let mut extra = Extra::default();
        for (place, guard) in request.guards.into_iter().enumerate() {
            let guard =
                self.guard(guard).await.map_err(|refusal| refusal.within(&format!("guards[{place}]")))?;
            extra.guards.push(guard);
        }
        let (mut intents, mut places) = (Vec::new(), Vec::new());
        let count = request.writes.len();
        for (place, write) in request.writes.into_iter().enumerate() {
            match read_write(write, place)? {
                Part::Object(intent) => {
                    intents.push(*intent);
                    places.push(place);
                }
                Part::Ledger(op) => extra.ledgers.push(LedgerOp { place, op }),
            }
        }
        let done = self.write(&intents, &extra, &options).await?;
        let answers = self.answers(&intents, done, options.dry_run).await?;
        let mut results = vec![raw::WriteResponse::default(); count];
        for (place, answer) in places.into_iter().zip(answers.results) {
            results[place] = answer.into_write();
        }
        Ok(raw::TransactResponse { revision: answers.revision.get(), results, repeated: answers.repeated })
    }

    async fn one(&self, intent: Intent, options: &Options) -> Result<raw::WriteResponse, Refusal> {
        let intents = [intent];
        let done = self.write(&intents, &Extra::default(), options).await?;
        let mut answers = self.answers(&intents, done, options.dry_run).await?;
        Ok(answers.results.pop().unwrap_or_default().into_write())
    }

    async fn guard(&self, guard: pb::Guard) -> Result<Guard, Refusal> {
        match guard.guard {
            Some(WireGuard::Fence(it)) => Ok(Guard::Fence(fence(it)?)),
            Some(WireGuard::Headroom(it)) => Ok(Guard::Headroom {
                ledger: bounded("headroom.ledger", it.ledger)?,
                amounts: amounts("headroom.amounts", it.amounts)?,
            }),
            Some(WireGuard::Object(it)) => {
                let key = it.key.unwrap_or_default();
                self.reader.ready(&key.kind, At::Cached).await?;
                let key = self.reader.object_name(&key)?.key();
                Ok(Guard::Revision { key, revision: Revision::new(it.revision) })
            }
            None => Err(Refusal::invalid("guard", "is missing; leave empty guards out")),
        }
    }
}

/// One write of a transaction.
enum Part {
    Object(Box<Intent>),
    Ledger(Op),
}

fn read_write(write: pb::Write, place: usize) -> Result<Part, Refusal> {
    // Problems of objects name the fields of those.
    let within = |refusal: Refusal| refusal.within(&format!("writes[{place}]"));
    let update =
        |object, part| convert::incoming(object).map(|it| Part::Object(Box::new(Intent::Update(it, part))));
    match write.write {
        Some(WireWrite::Create(object)) => {
            Ok(Part::Object(Box::new(Intent::Create(convert::incoming(object)?))))
        }
        Some(WireWrite::Update(object)) => update(object, Subresource::Main),
        Some(WireWrite::UpdateStatus(object)) => update(object, Subresource::Status),
        Some(WireWrite::Apply(it)) => {
            let how = ApplyHow { force: it.force, subresource: part(it.status) };
            Ok(Part::Object(Box::new(Intent::Apply(convert::incoming(object(it.object)?)?, how))))
        }
        Some(WireWrite::Delete(it)) => {
            let request =
                DeleteRequest { uid: it.uid, revision: it.revision, propagation: Propagation::Background };
            Ok(Part::Object(Box::new(Intent::Delete(target(it.key)?, request))))
        }
        Some(WireWrite::Reserve(it)) => reserve(it).map_err(within),
        Some(WireWrite::Release(it)) => release(it).map_err(within),
        Some(WireWrite::Limits(it)) => limits(it).map_err(within),
        None => Err(within(Refusal::invalid("write", "is missing; leave empty writes out"))),
    }
}

fn reserve(it: pb::Reserve) -> Result<Part, Refusal> {
    Ok(Part::Ledger(Op::Reserve {
        ledger: bounded("reserve.ledger", it.ledger)?,
        owner: bounded("reserve.owner", it.owner)?,
        amounts: amounts("reserve.amounts", it.amounts)?,
    }))
}

fn release(it: pb::Release) -> Result<Part, Refusal> {
    let (ledger, owner) = (bounded("release.ledger", it.ledger)?, bounded("release.owner", it.owner)?);
    Ok(Part::Ledger(Op::Release { ledger, owner }))
}

fn limits(it: pb::LedgerLimits) -> Result<Part, Refusal> {
    let (ledger, limits) = (bounded("limits.ledger", it.ledger)?, amounts("limits.limits", it.limits)?);
    Ok(Part::Ledger(Op::Limits { ledger, limits }))
}

/// Of the names of ledgers and of those who reserve.
const LEDGER_BYTES_MAX: usize = 512;
/// Of one ledger.
const DIMENSIONS_MAX: usize = 64;

fn bounded(field: &str, name: String) -> Result<String, Refusal> {
    if name.is_empty() || name.len() > LEDGER_BYTES_MAX {
        return Err(Refusal::invalid(field, format!("must have 1 to {LEDGER_BYTES_MAX} bytes")));
    }
    Ok(name)
}

fn amounts(field: &str, amounts: BTreeMap<String, i64>) -> Result<Amounts, Refusal> {
    if amounts.len() > DIMENSIONS_MAX || amounts.keys().any(|name| name.is_empty() || name.len() > 128) {
        let text = format!("must have at most {DIMENSIONS_MAX} dimensions, with names of 1 to 128 bytes");
        return Err(Refusal::invalid(field, text));
    }
    let amount = |(name, amount): (String, i64)| match u64::try_from(amount) {
        Ok(amount) => Ok((name, amount)),
        Err(_) => Err(Refusal::invalid(field, format!("has {amount} of {name}; amounts are not negative"))),
    };
    amounts.into_iter().map(amount).collect()
}

fn options(
    method: &str,
    request: &impl Message,
    options: Option<pb::WriteOptions>,
    caller: &Caller,
) -> Result<Options, Refusal> {
    let bytes = || [method.as_bytes(), &request.encode_to_vec()].concat();
    Options::new(options.unwrap_or_default(), caller, request.encoded_len(), bytes)
}

fn object(object: Option<pb::Object>) -> Result<pb::Object, Refusal> {
    object.ok_or_else(|| Refusal::invalid("object", "is missing"))
}

fn part(status: bool) -> Subresource {
    if status { Subresource::Status } else { Subresource::Main }
}

fn target(key: Option<pb::ObjectKey>) -> Result<Target, Refusal> {
    let key = key.ok_or_else(|| Refusal::invalid("key", "is missing"))?;
    let named = Metadata { namespace: key.namespace, name: key.name, ..Metadata::default() };
    Ok(Target { kind: key.kind, key: named })
}
