//! Get: one object.

use setpoint_api::raw::v1 as raw;
use setpoint_api::raw::{Part, RawObject};
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::command::Range;
use setpoint_types::{KeyRange, Revision};

use super::error::Refusal;
use super::freshness::{At, Settled};
use super::key::{self, ObjectName};
use super::reader::{Reader, blocking};

impl Reader {
    pub async fn get(&self, request: pb::GetRequest) -> Result<raw::GetResponse, Refusal> {
        let key = request.key.unwrap_or_default();
        let at = self.ready(&key.kind, At::from_wire(request.at)?).await?;
        let name = self.object_name(&key)?;
        let settled = self.settle(at).await?;
        let revision = match settled {
            Settled::Newest => Revision::NONE,
            Settled::Exactly(revision) => revision,
        };
        let range = KeyRange::Single(name.key());
        let read = Range { revision: revision.wire(), ..Range::latest(range) };
        let result = match self.store.range_soon(&read) {
            Some(result) => result,
            None => {
                let store = self.store.clone();
                blocking(move || store.range(&read)).await?
            }
        };
        let result = result.map_err(|failure| self.read_failure(failure))?;
        let answered = if revision.is_none() { result.revision } else { revision };
        let Some(kv) = result.kvs.into_iter().next() else { return Err(Refusal::not_found(name)) };
        let object = RawObject::of(kv.value, kv.modified.get(), part(request.metadata_only));
        Ok(raw::GetResponse { object: Some(object), revision: answered.get() })
    }

    /// The object a request names, if it can be one.
    pub fn object_name<'k>(&self, key: &'k pb::ObjectKey) -> Result<ObjectName<'k>, Refusal> {
        let kind = self.catalog.served(&key.kind)?;
        let namespace = kind.namespace(&key.namespace)?;
        match key.name.as_str() {
            "" => Err(Refusal::invalid("name", "must name an object")),
            name if !key::is_name(name) => Err(Refusal::invalid("name", key::NAME_RULE)),
            name => Ok(ObjectName { kind: &key.kind, namespace, name }),
        }
    }
}

pub fn part(metadata_only: bool) -> Part {
    if metadata_only { Part::Metadata } else { Part::Whole }
}
