//! Read, decide, commit; and again, if somebody else was faster.
//!
//! Decisions are made on this node's copy, which may be behind. A commit proves them by its guards. Where there is nothing to
//! commit (a refusal, a write that changes nothing, a dry run), nothing proves them: then the copy is first brought up to date
//! by a barrier, and everything is decided once more.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_admission::Budget;
use setpoint_admission::kind::TakenNames;
use setpoint_api::setpoint::v1::Reason;
use setpoint_consensus::Clock;
use setpoint_objects::owners::VisibleOwner;
use setpoint_objects::write::{Context, Fresh, Outcome};
use setpoint_objects::{Metadata, Object, OwnerReference, Subresource};
use setpoint_store::command::Range;
use setpoint_store::commit::Commit;
use setpoint_store::{Committed, Done as Operated, Hold, KeyValue, LeaseName};
use setpoint_types::{KeyRange, Revision, Uid};

use super::admit;
use super::commit::{self, Change, CommitError, Commits, Decided, Extra, KeyOp, Setback};
use super::contents::{NAMESPACE, standing};
use super::convert;
use super::giving;
use super::intent::{Decision, Intent};
use super::options::{Draw, Options};
use super::policies::Asked;
use super::refusals::Refusals;
use super::turns::Turns;
use crate::access::Roles;
use crate::coordination::LEASE;
use crate::objects::catalog::Kind;
use crate::objects::definitions::{KIND_DEFINITION, Rulebook, is_rule};
use crate::objects::error::Refusal;
use crate::objects::key::ObjectName;
use crate::objects::reader::{Reader, aside, blocking};
use crate::replica::ProposeError;

#[derive(Clone)]
pub struct Writer {
    pub reader: Reader,
    pub commits: Arc<dyn Commits>,
    pub roles: Arc<Roles>,
    pub turns: Arc<Turns>,
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
    /// Bytes of everything one request stores.
    pub request_bytes: usize,
    /// How often a write that lost a race is decided anew.
    pub attempts: usize,
    /// Definitions of kinds, and as many policies: every node compiles all of them.
    pub definitions: usize,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self {
            object_bytes: 1 << 20,
            transaction_writes: 512,
            request_bytes: 4 << 20,
            attempts: 32,
            definitions: 1_000,
        }
    }
}

/// Of a request or a stored object: deciding on less takes well under a millisecond.
const LARGE_BYTES: usize = 16 << 10;

/// How much more a request may be about than it may store: all of it is in memory at a time.
const LOOKED_AT: usize = 16;

/// What became of one intent.
#[derive(Clone, Debug)]
pub struct Written {
    pub part: Subresource,
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
    /// It had been done before, at this revision; or nothing was to do then.
    Before { revision: Revision, changed: bool },
}

impl Writer {
    /// Does everything a request wants at one revision, or nothing.
    pub async fn write(&self, intents: &[Intent], extra: &Extra, options: &Options) -> Result<Done, Refusal> {
        self.prove_roles(intents).await?;
        let _turn = self.turns.take(intents).await;
        let mut current = false;
        let mut draws = 0;
        for _ in 0..self.limits.attempts {
            let rules = self.reader.rules().await?;
            if let Some(done) = self.done_before(options)? {
                return Ok(Done::Before { revision: done.revision, changed: done.changed });
            }
            let read_at = self.reader.store.revision();
            let prepared = match self.prepare(intents, extra, options, &rules).await {
                Err(refusal) if intents.iter().any(|it| it.wants_another_name(&refusal)) => {
                    draws += 1;
                    if draws == self.limits.attempts {
                        return Err(refusal);
                    }
                    continue;
                }
                prepared => prepared,
            };
            let changes = prepared.as_ref().map(|it| it.decided.changes.as_slice()).unwrap_or_default();
            let commits = changes.iter().any(|it| it.op.is_some()) || !extra.ledgers.is_empty();
            if !current && (prepared.is_err() || options.dry_run || !commits) {
                self.reader.barrier.pass().await?;
                current = true;
                continue;
            }
            let Prepared { decided, mut written, .. } = prepared?;
            written.iter_mut().for_each(Written::forget_contents);
            // An operation that changes nothing is remembered too: its repetition must not act later.
            let said = !extra.guards.is_empty() || options.fence.is_some() || options.operation.is_some();
            if !commits && !said {
                return Ok(Done::Now { revision: read_at, written });
            }
            let bytes = if commits { written.iter().map(|it| it.encoded.len()).sum() } else { 0 };
            let commit = commit::assemble(options, extra, &decided);
            let verdict = match options.dry_run {
                true => self.tried(commit, read_at).await?,
                false => self.commits.commit(commit.into(), bytes).await,
            };
            match verdict {
                Ok(Committed { repeated: true, revision, changed }) => {
                    return Ok(Done::Before { revision, changed });
                }
                Ok(done) => {
                    // A role that was just written is in force before its writer is answered.
                    if giving::decides_access(intents) {
                        self.refresh_roles().await?;
                    }
                    return Ok(Done::Now { revision: done.revision, written });
                }
                Err(error) => match commit::setback(error, options, extra) {
                    Setback::Race => {}
                    Setback::Refused(refusal) => return Err(refusal),
                },
            }
        }
        let text = "others changed the object faster than this write could; nothing was written, try again";
        Err(Refusal::new(Reason::Unavailable, text).retry_after(commit::SOON))
    }

    /// What the commit of a dry run would come to.
    async fn tried(
        &self,
        commit: Commit,
        read_at: Revision,
    ) -> Result<Result<Committed, CommitError>, Refusal> {
        let store = self.reader.store.clone();
        let tried = blocking(move || store.try_commit(&commit)).await?;
        let tried = tried.map_err(|failure| self.reader.storage_failure(&failure))?;
        let done = Committed { revision: read_at, changed: false, repeated: false };
        Ok(tried.map(|()| done).map_err(|rejection| ProposeError::Rejected(rejection).into()))
    }

    /// What the request's operation did, if this node knows that it was done.
    pub(crate) fn done_before(&self, options: &Options) -> Result<Option<Operated>, Refusal> {
        let Some(operation) = &options.operation else { return Ok(None) };
        match self.reader.store.operation(&operation.id) {
            Some(done) if done.fingerprint == operation.fingerprint => Ok(Some(done)),
            Some(done) => Err(commit::operation_reused(done.revision)),
            None => Ok(None),
        }
    }

    /// Reads and decides, without committing anything.
    async fn prepare(
        &self,
        intents: &[Intent],
        extra: &Extra,
        options: &Options,
        rules: &Arc<Rulebook>,
    ) -> Result<Prepared, Refusal> {
        let (mut prepared, mut refusals) = (Prepared::default(), Refusals::default());
        let mut budget = Budget::for_request();
        prepared.decided.rules = rules.revision;
        options.notes.forget();
        for (at, intent) in intents.iter().enumerate() {
            let decided = self.prepare_one(intent, options, rules, &mut prepared, &mut budget).await;
            if let Err(refusal) = decided {
                refusals.add(extra.placed(at, intent.named(refusal)));
            }
            if refusals.is_enough() {
                break;
            }
        }
        refusals.into_result()?;
        self.follow(&mut prepared).await?;
        prepared.check_closed()?;
        prepared.hold();
        Ok(prepared)
    }

    async fn prepare_one(
        &self,
        intent: &Intent,
        options: &Options,
        rules: &Arc<Rulebook>,
        prepared: &mut Prepared,
        budget: &mut Budget,
    ) -> Result<(), Refusal> {
        let kind = self.reader.catalog.served(intent.kind())?;
        let (uid, suffix) = (Uid::from_random((self.draw)()), suffix((self.draw)()));
        let key = intent.key(&kind.for_rules(), &suffix)?;
        let stored_key = ObjectName { kind: kind.name(), namespace: &key.namespace, name: &key.name }.key();
        if kind.name() == LEASE && intent.writes_status() {
            return Err(only_coordination());
        }
        let earlier = prepared.earlier(&stored_key, intent)?;
        let again = earlier.is_some();
        let (stored, stored_bytes) = match earlier {
            Some((object, bytes)) => (Some(object), bytes),
            None => self.stored_sized(stored_key.clone()).await?,
        };
        let read_at = Revision::new(stored.as_ref().map_or(0, |it| it.metadata.revision));
        let stored = match intent {
            Intent::Delete(..) => self.before_deletion(stored)?,
            _ => stored,
        };
        let asks = !rules.policies.is_empty() && !key.namespace.is_empty();
        let space = if asks { Some(self.space(&key).await?) } else { None };
        let case = Case {
            intent,
            kind: &kind,
            key: &key,
            stored: stored.as_ref(),
            stored_bytes,
            fresh: Fresh { uid: uid.as_str(), suffix: &suffix },
            options,
            rules,
            namespace: space.as_ref().and_then(Option::as_ref),
            beside: &prepared.written,
        };
        let written = match case.may_take_long() {
            true => aside(|| self.decide(&case, budget))?,
            false => self.decide(&case, budget)?,
        };
        prepared.count(&written, self.limits.request_bytes)?;
        if stored.is_none() {
            self.check_room(&kind, &prepared.written)?;
            self.check_place(&key, space, prepared).await?;
        }
        let given = self.giving(options, stored.as_ref(), &written.outcome, &prepared.written).await?;
        prepared.held.extend(given);
        self.close(&written.outcome, prepared)?;
        if again {
            prepared.join(&stored_key, written);
            return Ok(());
        }
        let op = written.op();
        if kind.name() == LEASE && matches!(op, Some(KeyOp::Delete)) {
            prepared.decided.changes.push(self.hold_of(&key).await?);
        }
        prepared.decided.changes.push(Change { key: stored_key, read_at, op });
        prepared.written.push(written);
        Ok(())
    }

    /// Whether a new object may be where it is to be, which has to stay so.
    async fn check_place(
        &self,
        key: &Metadata,
        space: Option<Option<Object>>,
        prepared: &mut Prepared,
    ) -> Result<(), Refusal> {
        if !prepared.makes_namespace(&key.namespace) {
            let held = match space {
                Some(space) => standing(key, space)?,
                None => self.standing(key).await?,
            };
            prepared.held.extend(held);
        }
        Ok(())
    }

    /// What an intent and the kind's rules make of the stored object.
    fn decide(&self, case: &Case<'_>, budget: &mut Budget) -> Result<Written, Refusal> {
        let Case { intent, kind, key, stored, options, .. } = *case;
        let lookup = |owner: &OwnerReference| self.owner(owner, &key.namespace);
        let context = Context {
            manager: &options.manager,
            time_ms: self.clock.now().0,
            validation: options.validation,
            owners: &lookup,
        };
        let decision = intent.decide(&kind.for_rules(), key, stored, case.fresh, &context)?;
        let asked = Asked::new(&case.rules.policies, options, stored, case.namespace);
        let (mut outcome, warnings, taken) = match decision {
            Decision::Final(mut outcome) => {
                self.tell(&mut outcome, stored, context.time_ms);
                let warnings = asked.judge(None, false, budget)?;
                (outcome, warnings, Vec::new())
            }
            Decision::Draft(mut draft) => {
                let status = draft.subresource() == Subresource::Status;
                let mut said = asked.mutate(&mut draft, budget).map_err(|denied| {
                    draft.found().iter().fold(denied, |denied, it| denied.naming(&it.path, &it.message))
                })?;
                let rest = |object: &Object| {
                    admit::problems(kind, stored, object, &case.taken_names(object), budget)
                };
                let mut done = draft.finish_or(rest).map_err(convert::refused)?;
                self.tell(&mut done.outcome, stored, context.time_ms);
                let object = done.outcome.object();
                admit::admit(kind, stored, object, &case.taken_names(object), budget)?;
                said.extend(asked.judge(Some(object), status, budget)?);
                (done.outcome, [done.warnings, said].concat(), done.taken)
            }
        };
        let encoded = convert::encoded(outcome.object_mut());
        if encoded.len() > self.limits.object_bytes {
            let (has, most) = (encoded.len(), self.limits.object_bytes);
            let text =
                format!("the object would have {has} bytes, the most is {most}; make it smaller, or several");
            let problem = format!("would have {has} bytes, the most is {most}");
            return Err(Refusal::new(Reason::TooLarge, text).naming("object", problem));
        }
        Ok(Written { part: intent.part(), outcome, encoded, warnings, taken })
    }

    pub(super) async fn stored(&self, key: Bytes) -> Result<Option<Object>, Refusal> {
        Ok(self.stored_sized(key).await?.0)
    }

    /// Also how many bytes it has.
    async fn stored_sized(&self, key: Bytes) -> Result<(Option<Object>, usize), Refusal> {
        let Some(kv) = self.stored_bytes(key).await? else { return Ok((None, 0)) };
        convert::stored(&kv).map(|object| (Some(object), kv.value.len())).ok_or_else(|| {
            Refusal::new(
                Reason::Internal,
                "what is stored under the object's key is no object; restore a backup",
            )
        })
    }

    /// What is stored under a key.
    pub(super) async fn stored_bytes(&self, key: Bytes) -> Result<Option<KeyValue>, Refusal> {
        let read = match self.reader.store.get_soon(&key) {
            Some(read) => read,
            None => {
                let (read, store) = (Range::latest(KeyRange::Single(key)), self.reader.store.clone());
                blocking(move || store.range(&read)).await?.map(|mut found| found.kvs.pop())
            }
        };
        read.map_err(|failure| self.reader.read_failure(failure))
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
}

/// Who holds a lease is decided by commits of their own, and the object only tells.
fn only_coordination() -> Refusal {
    let text = "cannot be written: who holds a lease is decided by Coordination; call Acquire or Release";
    Refusal::invalid(".status", text)
}

/// One write, and everything it is decided from.
#[derive(Clone, Copy)]
struct Case<'a> {
    intent: &'a Intent,
    kind: &'a Arc<Kind>,
    key: &'a Metadata,
    stored: Option<&'a Object>,
    stored_bytes: usize,
    fresh: Fresh<'a>,
    options: &'a Options,
    rules: &'a Arc<Rulebook>,
    /// The Namespace it is in, if policies are asked.
    namespace: Option<&'a Object>,
    /// What the same request writes before it.
    beside: &'a [Written],
}

impl Case<'_> {
    /// Whether the decision may take longer than an async worker should be kept from its other work, elections among it: a
    /// definition is compiled, expressions are evaluated, or there is much to look at.
    fn may_take_long(&self) -> bool {
        is_rule(self.kind.name())
            || !self.rules.policies.is_empty()
            || self.kind.info.custom
            || self.options.request_bytes > LARGE_BYTES
            || self.stored_bytes > LARGE_BYTES
    }

    /// The names that the definition of a kind must not use.
    fn taken_names(&self, object: &Object) -> TakenNames {
        if object.kind != KIND_DEFINITION {
            return TakenNames::default();
        }
        let mut taken = self.rules.taken_names(&object.metadata.name);
        let beside = self.beside.iter().map(|it| it.outcome.object()).filter(|it| it.kind == KIND_DEFINITION);
        for names in beside.filter_map(|it| serde_json::from_value(it.spec["names"].clone()).ok()) {
            taken.add(&names);
        }
        taken
    }
}

/// What a commit would store, and what would be answered.
#[derive(Default)]
pub(super) struct Prepared {
    pub decided: Decided,
    pub written: Vec<Written>,
    /// What new objects stand on, their namespaces for one, and has to stay as it was read.
    pub held: Vec<Change>,
    /// Where nothing new may be: in what is deleted, or is marked to be.
    pub closed: Vec<KeyRange>,
    /// Of what is to be stored.
    bytes: usize,
    /// Also of what goes, or stays as it is.
    looked_at: usize,
}

impl Prepared {
    fn makes_namespace(&self, namespace: &str) -> bool {
        let key = ObjectName { kind: NAMESPACE, namespace: "", name: namespace }.key();
        self.decided.changes.iter().any(|it| it.key == key && matches!(it.op, Some(KeyOp::Put(_))))
    }

    /// Refuses what is too much before the rest of it is made.
    fn count(&mut self, written: &Written, most: usize) -> Result<(), Refusal> {
        if matches!(written.outcome, Outcome::Put(_)) {
            self.bytes += written.encoded.len();
        }
        self.looked_at += written.encoded.len();
        let looked_at_most = most.saturating_mul(LOOKED_AT);
        if self.bytes <= most && self.looked_at <= looked_at_most {
            return Ok(());
        }
        let text = match self.bytes > most {
            true => format!("would store more than {most} bytes at once; make it several"),
            false => format!("is about objects of more than {looked_at_most} bytes; make it several"),
        };
        Err(Refusal::new(Reason::TooLarge, format!("the request {text}")).naming("writes", text))
    }

    /// Guards what is not guarded by being written.
    fn hold(&mut self) {
        for held in std::mem::take(&mut self.held) {
            if !self.decided.changes.iter().any(|it| it.key == held.key) {
                self.decided.changes.push(held);
            }
        }
    }

    /// A request does not put anything into what it deletes.
    fn check_closed(&self) -> Result<(), Refusal> {
        let is_new = |it: &&Change| it.read_at.is_none() && matches!(it.op, Some(KeyOp::Put(_)));
        let mut new = self.decided.changes.iter().filter(is_new);
        let inside = new.find(|it| self.closed.iter().any(|range| range.contains(&it.key)));
        match inside.and_then(|it| ObjectName::of(&it.key)) {
            Some(name) => {
                let text = "its kind or its namespace is deleted by the same request; leave one of both out";
                Err(Refusal::new(Reason::Conflict, text).about(name))
            }
            None => Ok(()),
        }
    }
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
    fn what_is_drawn_is_a_part_of_a_name() {
        assert_eq!(suffix(0), "bbbbb");
        assert_ne!(suffix(1), suffix(2));
        assert!(suffix(u128::MAX).bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    }
}
