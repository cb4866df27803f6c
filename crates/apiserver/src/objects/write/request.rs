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

use super::answer::{Answer, Answers};
use super::commit::{Extra, LedgerOp};
use super::convert;
use super::intent::{DeleteRequest, Intent, PatchRequest, Target};
use super::options::{Options, fence, unknown};
use super::refusals::Refusals;
use super::writer::Writer;
use crate::access::Caller;
use crate::objects::error::Refusal;
use crate::objects::freshness::At;
use crate::placement::books;

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
        let intent = Intent::Apply(convert::incoming(object(request.object)?)?, how);
        let answer = self.one_done(intent, &options).await?;
        let taken = answer.taken.iter().cloned().map(convert::conflict).collect();
        Ok(raw::ApplyResponse { write: Some(answer.into_write()), taken })
    }

    pub async fn patch(
        &self,
        request: pb::PatchRequest,
        caller: &Caller,
    ) -> Result<raw::WriteResponse, Refusal> {
        let options = options("patch", &request, request.options.clone(), caller)?;
        let patch = PatchRequest {
            kind: patch_kind(request.r#type)?,
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
        let propagation = propagation(request.propagation)?;
        let delete = DeleteRequest { uid: request.uid, revision: request.revision, propagation };
        let answer = self.one_done(Intent::Delete(target(request.key)?, delete), &options).await?;
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
                self.guard(guard).await.map_err(|refusal| refusal.in_part(&format!("guards[{place}]")))?;
            extra.guards.push(guard);
        }
        let (mut intents, mut refusals) = (Vec::new(), Refusals::default());
        let count = request.writes.len();
        for (place, write) in request.writes.into_iter().enumerate() {
            match read_write(write) {
                Ok(Part::Object(intent)) => {
                    intents.push(*intent);
                    extra.places.push(place);
                }
                Ok(Part::Ledger(op)) => extra.ledgers.push(LedgerOp { place, op }),
                Err(refusal) => refusals.add(refusal.in_part(&format!("writes[{place}]"))),
            }
        }
        refusals.into_result()?;
        let mut answers = self.done(&intents, &extra, &options).await?;
        answers.fit();
        let mut results = vec![raw::WriteResponse::default(); count];
        for (place, answer) in extra.places.into_iter().zip(answers.results) {
            results[place] = answer.into_write();
        }
        Ok(raw::TransactResponse { revision: answers.revision.get(), results, repeated: answers.repeated })
    }

    async fn one(&self, intent: Intent, options: &Options) -> Result<raw::WriteResponse, Refusal> {
        Ok(self.one_done(intent, options).await?.into_write())
    }

    async fn one_done(&self, intent: Intent, options: &Options) -> Result<Answer, Refusal> {
        let intents = [intent];
        let answers = self.done(&intents, &Extra::default(), options).await;
        let mut answers = answers.map_err(|refusal| intents[0].named(refusal))?;
        Ok(answers.results.pop().unwrap_or_default())
    }

    /// Does what a request wants, tells what policies note about it, and answers.
    async fn done(&self, intents: &[Intent], extra: &Extra, options: &Options) -> Result<Answers, Refusal> {
        let done = self.write(intents, extra, options).await;
        options.notes.tell(&options.author.principal);
        self.answers(intents, done?, options.dry_run).await
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

fn read_write(write: pb::Write) -> Result<Part, Refusal> {
    let intent = match write.write {
        Some(WireWrite::Create(object)) => Intent::Create(convert::incoming(object)?),
        Some(WireWrite::Update(object)) => Intent::Update(convert::incoming(object)?, Subresource::Main),
        Some(WireWrite::UpdateStatus(object)) => {
            Intent::Update(convert::incoming(object)?, Subresource::Status)
        }
        Some(WireWrite::Apply(it)) => {
            let how = ApplyHow { force: it.force, subresource: part(it.status) };
            Intent::Apply(convert::incoming(object(it.object)?)?, how)
        }
        Some(WireWrite::Patch(it)) => {
            let kind = patch_kind(it.r#type)?;
            let (uid, revision, subresource) = (it.uid, it.revision, part(it.status));
            Intent::Patch(target(it.key)?, PatchRequest { kind, patch: it.patch, uid, revision, subresource })
        }
        Some(WireWrite::Delete(it)) => {
            let propagation = propagation(it.propagation)?;
            let request = DeleteRequest { uid: it.uid, revision: it.revision, propagation };
            Intent::Delete(target(it.key)?, request)
        }
        Some(WireWrite::Reserve(it)) => return reserve(it),
        Some(WireWrite::Release(it)) => return release(it),
        Some(WireWrite::Limits(it)) => return limits(it),
        None => return Err(Refusal::invalid("write", "is missing; leave empty writes out")),
    };
    Ok(Part::Object(Box::new(intent)))
}

fn patch_kind(kind: i32) -> Result<PatchKind, Refusal> {
    match pb::patch_request::Type::try_from(kind) {
        Ok(pb::patch_request::Type::Merge) => Ok(PatchKind::Merge),
        Ok(pb::patch_request::Type::Json) => Ok(PatchKind::Json),
        Err(_) => Err(unknown("type", kind)),
    }
}

fn propagation(mode: i32) -> Result<Propagation, Refusal> {
    match pb::delete_request::Propagation::try_from(mode) {
        Ok(pb::delete_request::Propagation::Background) => Ok(Propagation::Background),
        Ok(pb::delete_request::Propagation::Foreground) => Ok(Propagation::Foreground),
        Ok(pb::delete_request::Propagation::Orphan) => Ok(Propagation::Orphan),
        Err(_) => Err(unknown("propagation", mode)),
    }
}

/// Some ledgers are written with what they stand for. What was left behind in them can be released.
fn own(field: &str, ledger: String) -> Result<String, Refusal> {
    if books::is_followed(&ledger) {
        let text =
            "is written with nodes, quotas and bindings; change the Node or Quota, or call Placement.Bind";
        return Err(Refusal::invalid(field, text));
    }
    bounded(field, ledger)
}

fn reserve(it: pb::Reserve) -> Result<Part, Refusal> {
    Ok(Part::Ledger(Op::Reserve {
        ledger: own("reserve.ledger", it.ledger)?,
        owner: bounded("reserve.owner", it.owner)?,
        amounts: amounts("reserve.amounts", it.amounts)?,
    }))
}

fn release(it: pb::Release) -> Result<Part, Refusal> {
    let (ledger, owner) = (bounded("release.ledger", it.ledger)?, bounded("release.owner", it.owner)?);
    Ok(Part::Ledger(Op::Release { ledger, owner }))
}

fn limits(it: pb::LedgerLimits) -> Result<Part, Refusal> {
    let (ledger, limits) = (own("limits.ledger", it.ledger)?, amounts("limits.limits", it.limits)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_many_labels_is_the_same_operation_however_often_it_is_decoded() {
        let labels = (0..12).map(|number| (format!("l{number}"), "x".to_owned())).collect();
        let metadata = pb::Metadata { labels, ..Default::default() };
        let object = Some(pb::Object { metadata: Some(metadata), ..Default::default() });
        let wire_options = pb::WriteOptions { operation: "id".into(), ..Default::default() };
        let sent = pb::CreateRequest { object, options: Some(wire_options) }.encode_to_vec();
        let fingerprint = || {
            let request = pb::CreateRequest::decode(&sent[..]).expect("a request");
            let options = options("create", &request, request.options.clone(), &Caller::default());
            options.expect("good options").operation.expect("an id was given").fingerprint
        };
        let first = fingerprint();
        assert!((0..20).all(|_| fingerprint() == first), "S20: a retry is taken for another request");
    }
}
