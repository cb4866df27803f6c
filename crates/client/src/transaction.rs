//! Several writes, of any kinds, with conditions and reservations, at one revision or not at all.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::guard::Guard;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_types::object::{Fence, Object};
use setpoint_types::quantity::Amounts;
use setpoint_types::{KindType, ObjectKey, Revision, Uid};

use crate::call::Call;
use crate::client::Client;
use crate::convert;
use crate::error::Error;
use crate::options::{Scope, WriteOptions, Written};
use crate::parts::Parts;
use crate::shape::{Typed, Writable};

/// A transaction that is being put together.
///
/// **Guarantees**: all of it happens at one revision, or nothing does; guards are checked in the same moment. The client's
/// fence is a condition of it as of every write. Sent again after a lost answer, it is not done twice.
///
/// **Does not promise** that its writes see each other: each is decided on the state before it.
#[must_use = "nothing happens before `commit`"]
pub struct Transaction {
    client: Client,
    guards: Vec<Guard>,
    writes: Vec<Write>,
}

/// What a transaction did. **Guarantees**: all of it, at one revision; results are in the order of the writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    pub revision: Revision,
    /// In the order of the writes; none for those that write no object. Of objects that are too large for one answer
    /// together, some lack spec and status, or are none: a warning says so.
    pub results: Vec<Option<Written<Object>>>,
    /// It had been done before: this is the first answer.
    pub repeated: bool,
}

impl Transaction {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, guards: Vec::new(), writes: Vec::new() }
    }

    fn guard(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }

    fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Only while the lease is held at this epoch; beside the fence that the client carries.
    pub fn if_fence(self, fence: &Fence) -> Self {
        self.guard(Guard::Fence(convert::wire_fence(fence)))
    }

    /// Only while the ledger has room for these amounts, beside what is reserved.
    pub fn if_headroom(self, ledger: impl Into<String>, amounts: &Amounts) -> Self {
        let amounts = wire_amounts(amounts);
        self.guard(Guard::Headroom(pb::Headroom { ledger: ledger.into(), amounts }))
    }

    /// Only while the object is at this revision.
    pub fn if_at(self, key: &ObjectKey, revision: Revision) -> Self {
        let key = Some(convert::wire_key(key));
        self.guard(Guard::Object(pb::ObjectAt { key, revision: revision.get() }))
    }

    /// Only while there is no such object.
    pub fn if_absent(self, key: &ObjectKey) -> Self {
        self.if_at(key, Revision::NONE)
    }

    pub fn create<K: KindType + Writable<Object = Typed<K>>>(self, object: &Typed<K>) -> Self {
        let object = self.typed::<K>(object);
        self.write(Write::Create(object))
    }

    /// Replaces everything but the status; one that was read only if it is still at its revision.
    pub fn update<K: KindType + Writable<Object = Typed<K>>>(self, object: &Typed<K>) -> Self {
        let object = self.typed::<K>(object);
        self.write(Write::Update(object))
    }

    pub fn update_status<K: KindType + Writable<Object = Typed<K>>>(self, object: &Typed<K>) -> Self {
        let object = self.typed::<K>(object);
        self.write(Write::UpdateStatus(object))
    }

    pub fn apply<K: KindType + Writable<Object = Typed<K>>>(self, object: &Typed<K>, force: bool) -> Self {
        let object = Some(self.typed::<K>(object));
        self.write(Write::Apply(pb::ApplyWrite { object, force, status: false }))
    }

    pub fn create_dynamic(self, object: &Object) -> Self {
        self.write(Write::Create(dynamic(object)))
    }

    pub fn update_dynamic(self, object: &Object) -> Self {
        self.write(Write::Update(dynamic(object)))
    }

    pub fn update_status_dynamic(self, object: &Object) -> Self {
        self.write(Write::UpdateStatus(dynamic(object)))
    }

    /// Applies an object, or its status.
    pub fn apply_dynamic(self, object: &Object, force: bool, status: bool) -> Self {
        self.write(Write::Apply(pb::ApplyWrite { object: Some(dynamic(object)), force, status }))
    }

    /// Deletes an object, in the background; under conditions, if any are given.
    pub fn delete(self, key: &ObjectKey, uid: Option<&Uid>, revision: Option<Revision>) -> Self {
        self.write(Write::Delete(pb::DeleteWrite {
            key: Some(convert::wire_key(key)),
            uid: uid.map_or_else(String::new, ToString::to_string),
            revision: revision.map_or(0, Revision::get),
            ..pb::DeleteWrite::default()
        }))
    }

    /// Reserves amounts under the owner's name, in place of what it had reserved there.
    pub fn reserve(self, ledger: impl Into<String>, owner: impl Into<String>, amounts: &Amounts) -> Self {
        let (ledger, owner, amounts) = (ledger.into(), owner.into(), wire_amounts(amounts));
        self.write(Write::Reserve(pb::Reserve { ledger, owner, amounts }))
    }

    /// Gives back what an owner has reserved.
    pub fn release(self, ledger: impl Into<String>, owner: impl Into<String>) -> Self {
        self.write(Write::Release(pb::Release { ledger: ledger.into(), owner: owner.into() }))
    }

    /// Sets what a ledger may hold.
    pub fn limits(self, ledger: impl Into<String>, limits: &Amounts) -> Self {
        let limits = wire_amounts(limits);
        self.write(Write::Limits(pb::LedgerLimits { ledger: ledger.into(), limits }))
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub async fn commit(self, options: &WriteOptions) -> Result<Committed, Error> {
        let (wire, safety) = self.client.options(options);
        let call = Call::write("transaction of", format!("{} writes", self.writes.len()), safety);
        let request = pb::TransactRequest {
            guards: self.guards.into_iter().map(|guard| pb::Guard { guard: Some(guard) }).collect(),
            writes: self.writes.into_iter().map(|write| pb::Write { write: Some(write) }).collect(),
            options: Some(wire),
        };
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.transact(request).await });
        let answer = answer.await?;
        let (revision, repeated) = (Revision::new(answer.revision), answer.repeated);
        let mut results = Vec::with_capacity(answer.results.len());
        for result in answer.results {
            let Some(object) = result.object else {
                results.push(None);
                continue;
            };
            let parts = convert::parts(object);
            self.client.wrote(&parts.key(), revision, options);
            results.push(Some(Written {
                object: parts.into_object().map_err(|problem| call.bad_field(&problem))?,
                revision: Revision::new(result.revision),
                changed: result.changed,
                repeated: result.repeated,
                warnings: result.warnings,
                taken: Vec::new(),
            }));
        }
        Ok(Committed { revision, results, repeated })
    }

    /// An object that names no namespace is of the client's.
    fn typed<K: KindType + Writable<Object = Typed<K>>>(&self, object: &Typed<K>) -> pb::Object {
        let mut parts = K::write(K::INFO.name, object);
        if K::INFO.namespaced
            && parts.metadata.namespace.is_empty()
            && let Scope::Namespace(namespace) = self.client.home()
        {
            parts.metadata.namespace = namespace.to_string();
        }
        convert::wire_object(parts)
    }
}

fn dynamic(object: &Object) -> pb::Object {
    convert::wire_object(Parts::of_object(object))
}

fn wire_amounts(amounts: &Amounts) -> std::collections::BTreeMap<String, i64> {
    amounts.iter().map(|(dimension, amount)| (dimension.to_owned(), amount)).collect()
}
