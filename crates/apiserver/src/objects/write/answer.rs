//! What was committed, as the client is told; also where it was committed by an earlier request of the same operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::raw::v1 as raw;
use setpoint_api::raw::{Part, RawObject};
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::deletion::{self, Dependent};
use setpoint_objects::write::Outcome;
use setpoint_objects::{FieldConflict, Object};
use setpoint_store::command::Range;
use setpoint_store::{Change, ChangeSet, ReadFailure, Record};
use setpoint_types::{KeyRange, Revision};

use super::convert;
use super::intent::Intent;
use super::writer::{Done, Writer, Written};
use crate::objects::catalog::Kind;
use crate::objects::error::Refusal;
use crate::objects::key::{self, ObjectName};
use crate::objects::reader::blocking;

/// Parts of an object that an answer names.
const DEPENDENTS_MAX: usize = 32;

/// The objects of one answer, in bytes: with all else that is said, less than the 4 MiB that gRPC clients take unless told
/// otherwise. What a transaction did must not be unknown to its client because it was much.
const OBJECTS_BYTES_MAX: usize = 3 << 20;

/// The answer to one intent.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    raw: Option<RawObject>,
    object: Option<Object>,
    revision: Revision,
    changed: bool,
    gone: bool,
    repeated: bool,
    warnings: Vec<String>,
    pub taken: Vec<FieldConflict>,
}

pub struct Answers {
    pub revision: Revision,
    pub results: Vec<Answer>,
    pub repeated: bool,
}

impl Answers {
    /// Leaves out what is too large, and says so: objects without their content, and those that have too much besides.
    pub fn fit(&mut self) {
        let mut room = OBJECTS_BYTES_MAX;
        for answer in &mut self.results {
            let Some(raw) = answer.raw.take() else { continue };
            let RawObject { stored, revision } = raw;
            if stored.len() <= room {
                room -= stored.len();
                answer.raw = Some(RawObject { stored, revision });
                continue;
            }
            let brief = RawObject::of(stored, revision, Part::Metadata);
            let text = "its spec and status are left out of this answer, which would be too large; read it";
            answer.warnings.push(text.to_owned());
            if brief.stored.len() <= room {
                room -= brief.stored.len();
                answer.raw = Some(brief);
            }
        }
    }
}

impl Answer {
    pub fn into_write(self) -> raw::WriteResponse {
        raw::WriteResponse {
            object: self.raw,
            revision: self.revision.get(),
            changed: self.changed,
            warnings: self.warnings,
            repeated: self.repeated,
        }
    }

    pub fn into_delete(self, blockers: Vec<pb::Blocker>) -> raw::DeleteResponse {
        raw::DeleteResponse {
            object: self.raw,
            revision: self.revision.get(),
            gone: self.gone,
            blockers,
            repeated: self.repeated,
        }
    }
}

impl Writer {
    pub async fn answers(&self, intents: &[Intent], done: Done, dry_run: bool) -> Result<Answers, Refusal> {
        match done {
            Done::Now { revision, written } => {
                let answer = |it| answer(it, revision, dry_run);
                Ok(Answers { revision, results: written.into_iter().map(answer).collect(), repeated: false })
            }
            Done::Before { revision, changed } => {
                let results = self.earlier(intents, revision, changed).await?;
                Ok(Answers { revision, results, repeated: true })
            }
        }
    }

    /// What an operation did at its revision. Where that is compacted, not much more than the revision is known.
    async fn earlier(
        &self,
        intents: &[Intent],
        revision: Revision,
        changed: bool,
    ) -> Result<Vec<Answer>, Refusal> {
        // The revision of one that changed nothing is somebody else's.
        let set = if changed { self.changes_at(revision).await? } else { None };
        let records = set.as_ref().map_or(&[][..], |set| &set.records);
        let mut named = Vec::new();
        for intent in intents {
            let kind = self.reader.catalog.served(intent.kind())?;
            named.push(if intent.is_generated() { None } else { Some(named_key(intent, &kind)?) });
        }
        let (mut results, mut drawn) = (Vec::new(), BTreeMap::new());
        for (intent, key) in intents.iter().zip(&named) {
            let record = match key {
                Some(key) => records.iter().find(|it| it.key == *key),
                // Its name was drawn: of those of its kind that were new, in the order of the request.
                None => {
                    let place: &mut usize = drawn.entry(intent.kind()).or_default();
                    *place += 1;
                    let of_kind = key::of_kind(intent.kind());
                    let is_drawn = |it: &&Record| {
                        matches!(it.change, Change::Put { version: 1, .. })
                            && of_kind.contains(&it.key)
                            && !named.iter().flatten().any(|named| *named == it.key)
                    };
                    records.iter().filter(is_drawn).nth(*place - 1)
                }
            };
            let answer = match (record, key) {
                (Some(record), _) => self.recorded(record, revision)?,
                (None, Some(key)) => self.left_alone(intent, key.clone(), revision, changed).await?,
                (None, None) => Answer { changed, revision, ..Answer::default() },
            };
            results.push(Answer { repeated: true, ..answer });
        }
        Ok(results)
    }

    /// What happened at a revision; none if it is compacted.
    async fn changes_at(&self, revision: Revision) -> Result<Option<Arc<ChangeSet>>, Refusal> {
        let store = self.reader.store.clone();
        match blocking(move || store.changes(revision, 1)).await? {
            Ok(sets) => Ok(sets.into_iter().find(|set| set.revision == revision)),
            Err(ReadFailure::Engine(failure)) => Err(self.reader.storage_failure(&failure)),
            Err(_) => Ok(None),
        }
    }

    /// Of an object that is not among what an operation changed: it was as asked, or its change is compacted.
    async fn left_alone(
        &self,
        intent: &Intent,
        key: Bytes,
        revision: Revision,
        changed: bool,
    ) -> Result<Answer, Refusal> {
        let deletes = matches!(intent, Intent::Delete(..));
        let unknown = Answer { changed, revision, ..Answer::default() };
        let read = Range { revision: revision.wire(), ..Range::latest(KeyRange::Single(key.clone())) };
        let store = self.reader.store.clone();
        match blocking(move || store.range(&read)).await? {
            Ok(found) => match found.kvs.first() {
                Some(kv) => {
                    let raw = Some(RawObject::new(kv.value.clone(), kv.modified.get()));
                    let object = convert::stored(kv);
                    Ok(Answer { raw, object, revision: kv.modified, ..Answer::default() })
                }
                None => Ok(Answer { gone: deletes, ..unknown }),
            },
            Err(ReadFailure::Engine(failure)) => Err(self.reader.storage_failure(&failure)),
            Err(_) if deletes => {
                // One that still waits does so for what it waited for then.
                let waits = self.stored(key).await?.filter(|it| it.metadata.deleted_ms.is_some());
                Ok(Answer { gone: changed && waits.is_none(), object: waits, ..unknown })
            }
            Err(_) => Ok(unknown),
        }
    }

    fn recorded(&self, record: &Record, revision: Revision) -> Result<Answer, Refusal> {
        let put = Answer { changed: true, revision, ..Answer::default() };
        match &record.change {
            Change::Put { value, .. } => {
                let raw = Some(RawObject::new(value.clone(), revision.get()));
                Ok(Answer { raw, object: convert::stored(&record.to_key_value(revision)), ..put })
            }
            Change::Delete => {
                let Some(id) = record.replaced else { return Ok(Answer { gone: true, ..put }) };
                let last = self.reader.store.record(id).map_err(|it| self.reader.storage_failure(&it))?;
                let value = last.map(|it| it.to_key_value(id.revision).value);
                let raw = value.map(|value| RawObject::new(value, revision.get()));
                Ok(Answer { raw, gone: true, ..put })
            }
        }
    }

    /// What a deletion that has begun waits for.
    pub async fn blockers(&self, answer: &Answer) -> Result<Vec<pb::Blocker>, Refusal> {
        let Some(object) = answer.object.as_ref().filter(|_| !answer.gone) else { return Ok(Vec::new()) };
        let ordered = [deletion::FOREGROUND, deletion::ORPHAN];
        let asks_for_parts = object.metadata.finalizers.iter().any(|it| ordered.contains(&it.as_str()));
        let parts = if asks_for_parts { self.parts(object.clone()).await? } else { Vec::new() };
        let wire =
            |part: Dependent| pb::ObjectKey { kind: part.kind, namespace: part.namespace, name: part.name };
        let blockers = deletion::blockers(object, &parts).into_iter();
        let blocker = |it: deletion::Blocker| pb::Blocker {
            finalizer: it.finalizer,
            dependents: it.dependents.into_iter().take(DEPENDENTS_MAX).map(wire).collect(),
        };
        let mut blockers: Vec<_> = blockers.map(blocker).collect();
        if let Some(space) = blockers.iter_mut().find(|it| it.finalizer == deletion::NAMESPACE) {
            space.dependents = self.inside(object, DEPENDENTS_MAX).await?;
        }
        Ok(blockers)
    }

    /// Objects that name this one as an owner, as many as an answer names, among those that one request may look at.
    async fn parts(&self, owner: Object) -> Result<Vec<Dependent>, Refusal> {
        let store = self.reader.store.clone();
        let mut left = self.reader.limits.scanned_objects;
        let kinds = self.reader.catalog.all();
        let found = blocking(move || {
            let mut parts = Vec::new();
            for kind in kinds {
                let range = if kind.info.namespaced && !owner.metadata.namespace.is_empty() {
                    key::of_namespace(kind.name(), &owner.metadata.namespace)
                } else {
                    key::of_kind(kind.name())
                };
                let read = Range { limit: left as i64, ..Range::latest(range) };
                let result = store.range(&read)?;
                left = left.saturating_sub(result.kvs.len());
                let stored = result.kvs.iter().filter_map(convert::stored);
                parts.extend(stored.filter_map(|part| Dependent::of(&owner, &part)));
                if left == 0 || parts.len() > DEPENDENTS_MAX {
                    break;
                }
            }
            Ok(parts)
        });
        found.await?.map_err(|failure: ReadFailure| self.reader.read_failure(failure))
    }
}

/// The key of an object that a request names.
fn named_key(intent: &Intent, kind: &Kind) -> Result<Bytes, Refusal> {
    let key = intent.key(&kind.for_rules(), "")?;
    Ok(ObjectName { kind: kind.name(), namespace: &key.namespace, name: &key.name }.key())
}

fn answer(written: Written, revision: Revision, dry_run: bool) -> Answer {
    let Written { outcome, encoded, warnings, taken, .. } = written;
    let before = Revision::new(outcome.object().metadata.revision);
    let (object, revision, changed, gone) = match outcome {
        Outcome::Put(object) if dry_run => (object, before, true, false),
        Outcome::Put(object) => (object, revision, true, false),
        Outcome::Gone(object) => (object, if dry_run { before } else { revision }, true, true),
        Outcome::Unchanged(object) => (object, before, false, false),
    };
    let raw = Some(RawObject::new(encoded, revision.get()));
    Answer { raw, object: Some(object), revision, changed, gone, repeated: false, warnings, taken }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_for_an_answer_is_left_out_of_it() {
        use prost::Message;
        let object = |name: &str, bytes: usize, annotations: usize| {
            let annotations = [("a".to_owned(), "x".repeat(annotations))].into();
            let metadata = pb::Metadata { name: name.to_owned(), annotations, ..Default::default() };
            let spec = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes)).into();
            let object =
                pb::Object { kind: "K".into(), metadata: Some(metadata), spec, ..Default::default() };
            let raw = Some(RawObject::new(object.encode_to_vec().into(), 7));
            Answer { raw, changed: true, ..Answer::default() }
        };
        let mega = 1 << 20;
        let results = vec![
            object("a", mega, 0),
            object("b", mega, 0),
            object("c", mega, 0),
            object("d", 10, 0),
            object("e", 10, mega),
        ];
        let mut answers = Answers { revision: Revision::new(7), results, repeated: false };
        answers.fit();
        let told: Vec<_> = answers.results.into_iter().map(Answer::into_write).collect();
        let bytes = |it: &raw::WriteResponse| it.object.as_ref().map_or(0, |it| it.stored.len());
        assert!(told.iter().map(bytes).sum::<usize>() <= OBJECTS_BYTES_MAX);
        let sizes: Vec<_> = told.iter().map(bytes).collect();
        assert!(sizes[0] > mega && sizes[1] > mega && sizes[3] > 10, "{sizes:?}");
        assert!((1..100).contains(&sizes[2]), "its metadata alone: {sizes:?}");
        assert_eq!(sizes[4], 0, "not even that fits");
        let warned: Vec<_> = told.iter().map(|it| it.warnings.len()).collect();
        assert_eq!(warned, [0, 0, 1, 0, 1]);
        assert!(told.iter().all(|it| it.changed));
    }
}
