//! Read, decide, commit; and again, if somebody else was faster.
//!
//! Decisions are made on this node's copy, which may be behind. A commit proves them by its guards. Where there is nothing to
//! commit (a refusal, a write that changes nothing, a dry run), nothing proves them: then the copy is first brought up to date
//! by a barrier, and everything is decided once more.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_admission::{Budget, PolicySet};
use setpoint_api::setpoint::v1::Reason;
use setpoint_consensus::Clock;
use setpoint_objects::owners::VisibleOwner;
use setpoint_objects::write::{Context, Fresh, Outcome};
use setpoint_objects::{Metadata, Object, OwnerReference, Subresource};
use setpoint_store::command::Range;
use setpoint_store::{Hold, LeaseName};
use setpoint_types::{KeyRange, Revision};

use super::admit;
use super::commit::{self, Change, Commits, Extra, KeyOp, Setback};
use super::convert;
use super::giving;
use super::intent::{Decision, Intent};
use super::options::{Draw, Options};
use super::policies::Asked;
use crate::access::Roles;
use crate::coordination::LEASE;
use crate::objects::catalog::{Kind, Rules};
use crate::objects::definitions::{ADMISSION_POLICY, Definitions, KIND_DEFINITION};
use crate::objects::error::Refusal;
use crate::objects::key::{self, ObjectName};
use crate::objects::reader::{Reader, blocking};

#[derive(Clone)]
pub struct Writer {
    pub reader: Reader,
    pub commits: Arc<dyn Commits>,
    pub definitions: Arc<Definitions>,
    pub roles: Arc<Roles>,
    pub clock: Arc<dyn Clock>,
    pub draw: Draw,
    pub limits: WriteLimits,
}

#[derive(Clone, Debug)]
pub struct WriteLimits {
    /// Bytes of one stored object.
    pub object_bytes: usize,
    /// Writes and guards of one transaction.
    pub transaction_writes: usize,
    /// How often a write that lost a race is decided anew.
    pub attempts: usize,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self { object_bytes: 1 << 20, transaction_writes: 512, attempts: 8 }
    }
}

/// What became of one intent.
#[derive(Clone, Debug)]
pub struct Written {
    pub outcome: Outcome,
    /// As it is stored, or as it last was.
    pub encoded: Bytes,
    pub warnings: Vec<String>,
    pub taken: Vec<setpoint_objects::FieldConflict>,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Done {
    /// It was done, or there was nothing to do, or it was only tried.
    Now { revision: Revision, written: Vec<Written> },
    /// It had been done before, at this revision.
    Before { revision: Revision },
}

impl Writer {
    /// Does everything a request wants at one revision, or nothing.
    pub async fn write(&self, intents: &[Intent], extra: &Extra, options: &Options) -> Result<Done, Refusal> {
        self.catch_up().await?;
        self.prove_roles(intents).await?;
        let mut current = false;
        let mut draws = 0;
        for _ in 0..self.limits.attempts {
            if let Some(revision) = self.done_before(options)? {
                return Ok(Done::Before { revision });
            }
            let read_at = self.reader.store.revision();
            let prepared = match self.prepare(intents, options).await {
                Err(refusal) if intents.iter().any(|it| it.wants_another_name(&refusal)) => {
                    draws += 1;
                    if draws == self.limits.attempts {
                        return Err(refusal);
                    }
                    continue;
                }
                prepared => prepared,
            };
            let changes = prepared.as_ref().map(|it| it.changes.as_slice()).unwrap_or_default();
            let commits = changes.iter().any(|it| it.op.is_some()) || !extra.ledgers.is_empty();
            if !current && (prepared.is_err() || options.dry_run || !commits) {
                self.reader.barrier.pass().await?;
                // A user's kind may be newer than what this node has compiled. Refusals of built-in kinds need no such look.
                if prepared.is_err() && intents.iter().any(|it| !self.is_built_in(it.kind())) {
                    self.refresh_definitions().await?;
                }
                current = true;
                continue;
            }
            let Prepared { changes, written, .. } = prepared?;
            if options.dry_run || (!commits && extra.guards.is_empty() && options.fence.is_none()) {
                return Ok(Done::Now { revision: read_at, written });
            }
            let bytes = written.iter().map(|it| it.encoded.len()).sum();
            let commit = commit::assemble(options, extra, &changes);
            match self.commits.commit(commit, bytes).await {
                Ok(done) if done.repeated => return Ok(Done::Before { revision: done.revision }),
                Ok(done) => {
                    self.note_definitions(intents).await?;
                    return Ok(Done::Now { revision: done.revision, written });
                }
                Err(error) => match commit::setback(error, options, extra) {
                    Setback::Race => {}
                    Setback::Refused(refusal) => return Err(refusal),
                },
            }
        }
        let text = "others changed the object faster than this write could; try again, or name the revision you read";
        Err(Refusal::new(Reason::Conflict, text))
    }

    /// A node that was away knows only the policies of then. It decides nothing before it has those of now.
    async fn catch_up(&self) -> Result<(), Refusal> {
        if !self.definitions.is_caught_up() {
            self.reader.barrier.pass().await?;
            self.refresh_definitions().await?;
            self.definitions.note_caught_up();
        }
        Ok(())
    }

    /// A kind, policy or role that was just written is in force before its writer is answered.
    async fn note_definitions(&self, intents: &[Intent]) -> Result<(), Refusal> {
        if giving::decides_access(intents) {
            self.refresh_roles().await?;
        }
        if !intents.iter().any(|it| [KIND_DEFINITION, ADMISSION_POLICY].contains(&it.kind())) {
            return Ok(());
        }
        self.refresh_definitions().await
    }

    fn is_built_in(&self, kind: &str) -> bool {
        self.reader.catalog.get(kind).is_some_and(|it| matches!(it.rules, Rules::BuiltIn(_)))
    }

    async fn refresh_definitions(&self) -> Result<(), Refusal> {
        let definitions = self.definitions.clone();
        let refreshed = blocking(move || definitions.refresh()).await?;
        refreshed.map_err(|failure| self.reader.read_failure(failure))
    }

    /// The revision of the request's operation, if this node knows that it was done.
    pub(crate) fn done_before(&self, options: &Options) -> Result<Option<Revision>, Refusal> {
        let Some(operation) = &options.operation else { return Ok(None) };
        match self.reader.store.operation(&operation.id) {
            Some(done) if done.fingerprint == operation.fingerprint => Ok(Some(done.revision)),
            Some(done) => Err(commit::operation_reused(done.revision)),
            None => Ok(None),
        }
    }

    /// Reads and decides, without committing anything.
    async fn prepare(&self, intents: &[Intent], options: &Options) -> Result<Prepared, Refusal> {
        let mut prepared = Prepared::default();
        for intent in intents {
            let prepared = self.prepare_one(intent, options, &mut prepared).await;
            prepared.map_err(|refusal| intent.named(refusal))?;
        }
        prepared.hold();
        Ok(prepared)
    }

    async fn prepare_one(
        &self,
        intent: &Intent,
        options: &Options,
        prepared: &mut Prepared,
    ) -> Result<(), Refusal> {
        let kind = self.reader.catalog.served(intent.kind())?;
        let (uid, suffix) = (uid((self.draw)()), suffix((self.draw)()));
        let key = intent.key(&kind.for_rules(), &suffix)?;
        let stored_key = ObjectName { kind: kind.name(), namespace: &key.namespace, name: &key.name }.key();
        if prepared.changes.iter().any(|change| change.key == stored_key) {
            let text = format!("{} {} is written twice; make it one write", kind.name(), key.name);
            return Err(Refusal::new(Reason::Invalid, text).naming("writes", "name an object twice"));
        }
        if kind.name() == LEASE && intent.writes_status() {
            return Err(only_coordination());
        }
        let stored = self.stored(stored_key.clone()).await?;
        if matches!(intent, Intent::Delete(..)) && kind.name() == KIND_DEFINITION {
            self.check_unused(stored.as_ref())?;
        }
        let written =
            self.decide(intent, &kind, &key, stored.as_ref(), Fresh { uid: &uid, suffix: &suffix }, options)?;
        if stored.is_none() && !prepared.makes_namespace(&key.namespace) {
            prepared.held.extend(self.namespace(&key).await?);
        }
        prepared.held.extend(self.giving(options, stored.as_ref(), &written.outcome).await?);
        let op = match &written.outcome {
            Outcome::Put(_) => Some(KeyOp::Put(written.encoded.clone())),
            Outcome::Gone(_) => Some(KeyOp::Delete),
            Outcome::Unchanged(_) => None,
        };
        if kind.name() == LEASE && matches!(op, Some(KeyOp::Delete)) {
            prepared.changes.push(self.hold_of(&key).await?);
        }
        let read_at = Revision::new(stored.map_or(0, |it| it.metadata.revision));
        prepared.changes.push(Change { key: stored_key, read_at, op });
        prepared.written.push(written);
        Ok(())
    }

    /// What an intent and the kind's rules make of the stored object.
    fn decide(
        &self,
        intent: &Intent,
        kind: &Kind,
        key: &Metadata,
        stored: Option<&Object>,
        fresh: Fresh<'_>,
        options: &Options,
    ) -> Result<Written, Refusal> {
        let lookup = |owner: &OwnerReference| self.owner(owner, &key.namespace);
        let context = Context {
            manager: &options.manager,
            time_ms: self.clock.now().0,
            validation: options.validation,
            owners: &lookup,
        };
        let decision = intent.decide(&kind.for_rules(), key, stored, fresh, &context)?;
        let (policies, mut budget) = (self.definitions.policies(), Budget::for_request());
        let asked = self.asked(&policies, options, stored, &key.namespace);
        let (outcome, warnings, taken) = match decision {
            Decision::Final(outcome) => {
                let warnings = asked.judge(None, false, &mut budget)?;
                (outcome, warnings, Vec::new())
            }
            Decision::Draft(mut draft) => {
                let status = draft.subresource() == Subresource::Status;
                let mut said = asked.mutate(&mut draft, &mut budget)?;
                let done = draft.finish().map_err(convert::refused)?;
                let object = done.outcome.object();
                admit::admit(kind, stored, object, &self.definitions, &mut budget)?;
                said.extend(asked.judge(Some(object), status, &mut budget)?);
                (done.outcome, [done.warnings, said].concat(), done.taken)
            }
        };
        let encoded = convert::encoded(outcome.object());
        if encoded.len() > self.limits.object_bytes {
            let (has, most) = (encoded.len(), self.limits.object_bytes);
            let text =
                format!("the object would have {has} bytes, the most is {most}; make it smaller, or several");
            let problem = format!("would have {has} bytes, the most is {most}");
            return Err(Refusal::new(Reason::TooLarge, text).naming("object", problem));
        }
        Ok(Written { outcome, encoded, warnings, taken })
    }

    fn asked<'a>(
        &self,
        policies: &'a PolicySet,
        options: &'a Options,
        before: Option<&'a Object>,
        namespace: &str,
    ) -> Asked<'a> {
        if policies.is_empty() {
            return Asked { policies, options, before, groups: Vec::new(), namespace: None };
        }
        let groups = options.principal.groups().iter().map(|group| group.to_string()).collect();
        let name = ObjectName { kind: "Namespace", namespace: "", name: namespace };
        let found = self.reader.store.range(&Range::latest(KeyRange::Single(name.key()))).ok();
        let found = found.filter(|_| !namespace.is_empty()).and_then(|it| convert::stored(it.kvs.first()?));
        Asked { policies, options, before, groups, namespace: found.as_ref().map(admit::json_of) }
    }

    pub(super) async fn stored(&self, key: Bytes) -> Result<Option<Object>, Refusal> {
        let read = Range::latest(KeyRange::Single(key));
        let result = match self.reader.store.range_soon(&read) {
            Some(result) => result,
            None => {
                let store = self.reader.store.clone();
                blocking(move || store.range(&read)).await?
            }
        };
        let result = result.map_err(|failure| self.reader.read_failure(failure))?;
        let Some(kv) = result.kvs.first() else { return Ok(None) };
        convert::stored(kv).map(Some).ok_or_else(|| {
            Refusal::new(
                Reason::Internal,
                "what is stored under the object's key is no object; restore a backup",
            )
        })
    }

    /// A kind that has objects stays defined: without it nobody could read or delete them. One that is created at the same
    /// moment is not seen; it comes back with the definition.
    fn check_unused(&self, definition: Option<&Object>) -> Result<(), Refusal> {
        let Some(kind) = definition.and_then(|it| it.spec["names"]["kind"].as_str()) else { return Ok(()) };
        let count = Range { count_only: true, ..Range::latest(key::of_kind(kind)) };
        let found =
            self.reader.store.range(&count).map_err(|failure| self.reader.read_failure(failure))?.count;
        if found == 0 {
            return Ok(());
        }
        let text = format!("there are objects of the kind {kind}, {found} of them; delete them first");
        Err(Refusal::new(Reason::Conflict, text))
    }

    /// An owner as this node sees it now, in the namespace of what it owns or in the whole cluster.
    fn owner(&self, owner: &OwnerReference, namespace: &str) -> Option<VisibleOwner> {
        let kind = self.reader.catalog.get(&owner.kind)?;
        let namespaced = kind.info.namespaced;
        let namespace = if namespaced { namespace } else { "" };
        let key = ObjectName { kind: kind.name(), namespace, name: &owner.name }.key();
        let found = self.reader.store.range(&Range::latest(KeyRange::Single(key))).ok()?;
        let metadata = convert::stored(found.kvs.first()?)?.metadata;
        Some(VisibleOwner { uid: metadata.uid, namespaced, owners: metadata.owners })
    }

    /// A Lease object takes the hold along: else somebody would hold what nobody can see. Its epochs stay.
    async fn hold_of(&self, key: &Metadata) -> Result<Change, Refusal> {
        let lease = LeaseName::new(&key.namespace, &key.name);
        let (read, store) = (Range::latest(KeyRange::Single(lease.hold_key())), self.reader.store.clone());
        let found = blocking(move || store.range(&read)).await?;
        let found = found.map_err(|failure| self.reader.read_failure(failure))?.kvs.pop();
        let (read_at, value) = found.map_or((Revision::NONE, None), |kv| (kv.modified, Some(kv.value)));
        let hold = value.map(Hold::decode).transpose();
        let hold = hold.map_err(|damaged| self.reader.storage_failure(&damaged.into()))?;
        let op = hold.map(|hold| KeyOp::Vacate(lease.clone(), hold.epoch));
        Ok(Change { key: lease.hold_key(), read_at, op })
    }

    /// The guard that the namespace of a new object stays as it is: there, and not being deleted. The default one needs no
    /// object.
    pub(crate) async fn namespace(&self, key: &Metadata) -> Result<Option<Change>, Refusal> {
        if key.namespace.is_empty() {
            return Ok(None);
        }
        let name = ObjectName { kind: "Namespace", namespace: "", name: &key.namespace };
        match self.stored(name.key()).await? {
            None if key.namespace == "default" => Ok(None),
            None => Err(Refusal::not_found(name)),
            Some(found) if found.metadata.deleted_ms.is_some() => {
                let text = format!("the namespace {} is being deleted; take another one", key.namespace);
                Err(Refusal::new(Reason::Conflict, text).about(name))
            }
            Some(found) => {
                let read_at = Revision::new(found.metadata.revision);
                Ok(Some(Change { key: name.key(), read_at, op: None }))
            }
        }
    }
}

/// Who holds a lease is decided by commits of their own, and the object only tells.
fn only_coordination() -> Refusal {
    let text = "cannot be written: who holds a lease is decided by Coordination; call Acquire or Release";
    Refusal::invalid(".status", text)
}

/// What a commit would store, and what would be answered.
#[derive(Default)]
struct Prepared {
    changes: Vec<Change>,
    written: Vec<Written>,
    /// What new objects stand on, their namespaces for one, and has to stay as it was read.
    held: Vec<Change>,
}

impl Prepared {
    fn makes_namespace(&self, namespace: &str) -> bool {
        let key = ObjectName { kind: "Namespace", namespace: "", name: namespace }.key();
        self.changes.iter().any(|it| it.key == key && matches!(it.op, Some(KeyOp::Put(_))))
    }

    /// Guards what is not guarded by being written.
    fn hold(&mut self) {
        for held in std::mem::take(&mut self.held) {
            if !self.changes.iter().any(|it| it.key == held.key) {
                self.changes.push(held);
            }
        }
    }
}

/// As UUIDs are written.
pub(crate) fn uid(random: u128) -> String {
    let hex = format!("{random:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Five characters without vowels and digits that look like letters, so that no words come out.
fn suffix(mut random: u128) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut drawn = || {
        let letter = LETTERS[(random % LETTERS.len() as u128) as usize];
        random /= LETTERS.len() as u128;
        char::from(letter)
    };
    (0..5).map(|_| drawn()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_a_uid_and_a_part_of_a_name() {
        assert_eq!(uid(0x0123_4567_89ab_cdef), "00000000-0000-0000-0123-456789abcdef");
        assert_eq!(uid(u128::MAX).len(), 36);
        assert_eq!(suffix(0), "bbbbb");
        assert_ne!(suffix(1), suffix(2));
        assert!(suffix(u128::MAX).bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }
}
