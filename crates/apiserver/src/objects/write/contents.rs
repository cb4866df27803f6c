//! What contains others: a definition the objects of its kind, a namespace what is in it. Neither goes before they do.
//!
//! A definition that has objects is not deleted. A namespace that has some is marked, with a finalizer, and goes once it
//! is empty. That it is empty is looked up here, so that a refusal can say what is left, and proven by the commit's guards.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use setpoint_admission::Budget;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, Context, Draft, Fresh, Outcome};
use setpoint_objects::{Metadata, Object, deletion};
use setpoint_store::command::Range;
use setpoint_store::commit::{Commit, Guard, Op};
use setpoint_store::{Author, ReadFailure};
use setpoint_types::kinds::NamespaceSpec;
use setpoint_types::object::to_json;
use setpoint_types::{KeyRange, LeaseId, Revision, Uid};

use super::admit::admit_own;
use super::commit::{Change, KeyOp, by_rules};
use super::convert;
use super::options::Options;
use super::policies::Asked;
use super::writer::{Prepared, Writer, Written};
use crate::objects::catalog::Kind;
use crate::objects::definitions::{KIND_DEFINITION, is_rule};
use crate::objects::error::Refusal;
use crate::objects::key::{self, ObjectName};
use crate::objects::reader::blocking;

pub const NAMESPACE: &str = "Namespace";
/// Where objects are whose namespace is not said. Its object is made with the first that is created in it, or when somebody
/// first asks for namespaces.
pub const DEFAULT: &str = "default";
/// Who is told to have made what the server makes.
const OURSELVES: &str = "setpoint";
/// Kinds that are named where the contents of a namespace are told.
const KINDS_TOLD_MAX: usize = 32;

impl Writer {
    /// Where the contents of an object are, by kind. Kinds that are not known yet are no gap: the commit is guarded by the
    /// revision of the rules.
    fn contents(&self, object: &Object) -> Vec<(String, KeyRange)> {
        match object.kind.as_str() {
            KIND_DEFINITION => {
                let kind = object.spec["names"]["kind"].as_str();
                kind.map(|kind| (kind.to_owned(), key::of_kind(kind))).into_iter().collect()
            }
            NAMESPACE => {
                let kinds = self.reader.catalog.all().into_iter().filter(|kind| kind.info.namespaced);
                let range = |kind: &Kind| key::of_namespace(kind.name(), &object.metadata.name);
                kinds.map(|kind| (kind.name().to_owned(), range(&kind))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How many objects it contains, by kind.
    pub(super) fn remaining(&self, object: &Object) -> BTreeMap<String, u64> {
        let count = |range: &KeyRange| self.reader.store.count(range) as u64;
        let counted = self.contents(object).into_iter().map(|(kind, range)| (kind, count(&range)));
        counted.filter(|(_, count)| *count > 0).take(KINDS_TOLD_MAX).collect()
    }

    /// The object that a deletion meets: a namespace waits for its contents, a definition refuses.
    pub(super) fn before_deletion(&self, stored: Option<Object>) -> Result<Option<Object>, Refusal> {
        let Some(mut object) = stored else { return Ok(None) };
        match object.kind.as_str() {
            KIND_DEFINITION => self.check_empty(&object)?,
            NAMESPACE if object.metadata.name == DEFAULT => {
                return Err(Refusal::invalid(
                    "name",
                    "is the default namespace, which stays; delete what is in it",
                ));
            }
            NAMESPACE => {
                object.metadata.finalizers.retain(|it| it != deletion::NAMESPACE);
                if !self.remaining(&object).is_empty() {
                    object.metadata.finalizers.push(deletion::NAMESPACE.to_owned());
                }
            }
            _ => {}
        }
        Ok(Some(object))
    }

    /// Without its definition nobody could read or delete an object, and what stays in a namespace would belong to whoever
    /// makes the next one of its name.
    fn check_empty(&self, object: &Object) -> Result<(), Refusal> {
        let remaining = self.remaining(object);
        let Some((kind, found)) = remaining.first_key_value() else { return Ok(()) };
        let text = match object.kind.as_str() {
            KIND_DEFINITION => {
                format!("there are objects of the kind {kind}, {found} of them; delete them first")
            }
            _ => {
                let told: Vec<_> = remaining.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
                let name = &object.metadata.name;
                format!("there are objects in the namespace {name}: {}; delete them first", told.join(", "))
            }
        };
        Err(Refusal::new(Reason::Conflict, text))
    }

    /// Notes what an outcome closes: nothing new may come into what is deleted, and what goes must be empty.
    pub(super) fn close(&self, outcome: &Outcome, prepared: &mut Prepared) -> Result<(), Refusal> {
        let object = outcome.object();
        let goes = matches!(outcome, Outcome::Gone(_));
        if !goes && object.metadata.deleted_ms.is_none() {
            return Ok(());
        }
        let ranges = self.contents(object).into_iter().map(|(_, range)| range);
        prepared.closed.extend(ranges.clone());
        if goes {
            self.check_empty(object)?;
            prepared.decided.emptied.extend(ranges);
        }
        Ok(())
    }

    /// Whether there may be one more of a kind.
    pub(super) fn check_room(&self, kind: &Kind, beside: &[Written]) -> Result<(), Refusal> {
        if kind.deleting {
            let text =
                format!("the definition of the kind {} is being deleted; take another kind", kind.name());
            return Err(Refusal::new(Reason::Conflict, text));
        }
        if !is_rule(kind.name()) {
            return Ok(());
        }
        let is_new = |it: &&Written| {
            let object = it.outcome.object();
            object.kind == kind.name() && object.metadata.revision == 0
        };
        let there = self.reader.store.count(&key::of_kind(kind.name()));
        let (there, most) = (there + beside.iter().filter(is_new).count(), self.limits.definitions);
        if there < most {
            return Ok(());
        }
        let text =
            format!("there are {there} objects of the kind {}, which is the most; delete one", kind.name());
        Err(Refusal::new(Reason::QuotaExceeded, text))
    }

    /// The Namespace that an object is in; of the default one, as it will be if it is not there yet.
    pub(super) async fn space(&self, key: &Metadata) -> Result<Option<Object>, Refusal> {
        if key.namespace.is_empty() {
            return Ok(None);
        }
        let name = ObjectName { kind: NAMESPACE, namespace: "", name: &key.namespace };
        match self.stored(name.key()).await? {
            None if key.namespace == DEFAULT => self.default_namespace().map(Some),
            stored => Ok(stored),
        }
    }

    /// The guard that the namespace of a new object stays as it is; of the namespace only what that takes is read.
    pub(super) async fn standing(&self, key: &Metadata) -> Result<Option<Change>, Refusal> {
        if key.namespace.is_empty() {
            return Ok(None);
        }
        let stored_key = ObjectName { kind: NAMESPACE, namespace: "", name: &key.namespace }.key();
        match self.stored_bytes(stored_key.clone()).await? {
            Some(kv) if !convert::is_deleted(&kv.value) => {
                Ok(Some(Change { key: stored_key, read_at: kv.modified, op: None }))
            }
            // Missing, or being deleted: rare enough to be read in full.
            _ => standing(key, self.space(key).await?),
        }
    }

    /// Before namespaces are read: makes the object of the default one, if it is not there yet. It cannot be there from the
    /// start, because the first key of a new cluster is at etcd's first revision. A read goes on without it if need be.
    pub async fn show_default_namespace(&self) {
        let key = ObjectName { kind: NAMESPACE, namespace: "", name: DEFAULT }.key();
        if self.reader.store.count(&KeyRange::Single(key.clone())) > 0 || !self.reader.barrier.is_led() {
            return;
        }
        let Ok(mut object) = self.default_namespace() else { return };
        let guards = vec![Guard::Revision { key: key.clone(), revision: Revision::NONE }];
        let value = convert::encoded(&mut object);
        let bytes = value.len();
        let ops = vec![Op::Put { key, value, lease: LeaseId::NONE }];
        let itself = || OURSELVES.to_owned();
        let author = Some(Author { principal: itself(), manager: itself(), ..Author::default() });
        // If this node is behind, or somebody was faster, it is there.
        if let Err(error) =
            self.commits.commit(Commit { operation: None, author, guards, ops }.into(), bytes).await
        {
            tracing::debug!(%error, "the default namespace was not made");
        }
    }

    fn default_namespace(&self) -> Result<Object, Refusal> {
        let kind = self.reader.catalog.served(NAMESPACE)?;
        let metadata = Metadata { name: DEFAULT.to_owned(), ..Metadata::default() };
        let spec = to_json(&NamespaceSpec::default());
        let object = Object { kind: NAMESPACE.to_owned(), metadata, spec, status: Value::Null };
        let context = Context {
            manager: OURSELVES,
            time_ms: self.clock.now().0,
            validation: FieldValidation::Ignore,
            owners: &|_| None,
        };
        let uid = Uid::from_random((self.draw)());
        let made = write::create(
            &kind.for_rules(),
            None,
            object.into(),
            Fresh { uid: uid.as_str(), suffix: "" },
            &context,
        );
        let mut outcome = made.and_then(|draft| draft.finish()).map_err(convert::refused)?.outcome;
        self.tell(&mut outcome, None, context.time_ms);
        Ok(outcome.object().clone())
    }

    /// What a namespace that is being deleted waits for: some of its contents.
    pub(super) async fn inside(
        &self,
        namespace: &Object,
        most: usize,
    ) -> Result<Vec<pb::ObjectKey>, Refusal> {
        let (store, contents) = (self.reader.store.clone(), self.contents(namespace));
        let read = move || {
            let mut found = Vec::new();
            for (_, range) in contents {
                let left = most.saturating_sub(found.len());
                if left == 0 {
                    break;
                }
                let read = Range { limit: left as i64, keys_only: true, ..Range::latest(range) };
                for kv in store.range(&read)?.kvs {
                    found.extend(ObjectName::of(&kv.key).map(|name| pb::ObjectKey {
                        kind: name.kind.to_owned(),
                        namespace: name.namespace.to_owned(),
                        name: name.name.to_owned(),
                    }));
                }
            }
            Ok(found)
        };
        blocking(read).await?.map_err(|failure: ReadFailure| self.reader.read_failure(failure))
    }
}

/// What a new object that the server makes stands on, and what is made with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    pub guards: Vec<Guard>,
    pub ops: Vec<Op>,
}

impl Writer {
    /// Makes an object of a built-in kind for a client as if the client had created it: policies change and judge it, and
    /// its namespace has to be there.
    pub(crate) async fn make(
        &self,
        kind: &Kind,
        draft: impl Fn() -> Result<Draft<'static>, Refusal> + Sync,
        options: &Options,
    ) -> Result<(Object, Base), Refusal> {
        let made = match self.made(kind, &draft, options).await {
            // It must not be refused because this node is behind.
            Err(_) => {
                self.reader.barrier.pass().await?;
                self.made(kind, &draft, options).await
            }
            made => made,
        };
        options.notes.tell(&options.author.principal);
        made
    }

    async fn made(
        &self,
        kind: &Kind,
        draft: &(impl Fn() -> Result<Draft<'static>, Refusal> + Sync),
        options: &Options,
    ) -> Result<(Object, Base), Refusal> {
        options.notes.forget();
        let rules = self.reader.rules().await?;
        let key = draft()?.object().metadata.clone();
        let space = self.space(&key).await?;
        let mut draft = draft()?;
        let asked = Asked::new(&rules.policies, options, None, space.as_ref());
        let mut budget = Budget::for_request();
        asked.mutate(&mut draft, &mut budget)?;
        let object = draft.finish().map_err(convert::refused)?.outcome.object().clone();
        admit_own(kind, &object)?;
        asked.judge(Some(&object), false, &mut budget)?;
        let mut base = Base { guards: vec![by_rules(rules.revision)], ops: Vec::new() };
        if let Some(Change { key, read_at, op }) = standing(&object.metadata, space)? {
            base.guards.push(Guard::Revision { key: key.clone(), revision: read_at });
            if let Some(KeyOp::Put(value)) = op {
                base.ops.push(Op::Put { key, value, lease: LeaseId::NONE });
            }
        }
        Ok((object, base))
    }
}

/// The guard that the namespace of a new object stays as it is: there, and not being deleted.
pub fn standing(key: &Metadata, space: Option<Object>) -> Result<Option<Change>, Refusal> {
    if key.namespace.is_empty() {
        return Ok(None);
    }
    let name = ObjectName { kind: NAMESPACE, namespace: "", name: &key.namespace };
    match space {
        None => Err(Refusal::not_found(name)),
        Some(found) if found.metadata.deleted_ms.is_some() => {
            let text = format!("the namespace {} is being deleted; take another one", key.namespace);
            Err(Refusal::new(Reason::Conflict, text).about(name))
        }
        Some(mut found) => {
            let read_at = Revision::new(found.metadata.revision);
            let made: Option<Bytes> = read_at.is_none().then(|| convert::encoded(&mut found));
            Ok(Some(Change { key: name.key(), read_at, op: made.map(KeyOp::Put) }))
        }
    }
}
