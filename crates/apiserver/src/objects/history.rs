//! History: the kept versions of one object, newest first, each with who made it.

use setpoint_api::raw::RawObject;
use setpoint_api::raw::v1 as raw;
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::{Change, ReadFailure, Store, Version, Versions, VersionsMax};
use setpoint_types::Revision;

use super::error::Refusal;
use super::event::author;
use super::freshness::At;
use super::reader::{Reader, blocking};

/// How many versions are returned if the request does not say.
const USUAL: u32 = 100;

impl Reader {
    /// Of what this node has: history does not change, and the newest versions are here as soon as they are anywhere
    /// after a barrier.
    pub async fn history(&self, request: pb::HistoryRequest) -> Result<raw::HistoryResponse, Refusal> {
        let key = request.key.unwrap_or_default();
        let at = self.ready(&key.kind, At::Latest).await?;
        let name = self.object_name(&key)?;
        self.settle(at).await?;
        let wanted = if request.limit == 0 { USUAL } else { request.limit };
        let max =
            VersionsMax { count: (wanted as usize).min(self.limits.versions), bytes: self.limits.page_bytes };
        let before = Revision::new(request.before.min(Revision::MAX.get()));
        let (store, object_key) = (self.store.clone(), name.key());
        let answer = blocking(move || {
            let Versions { versions, more, oldest } = store.versions(&object_key, before, max)?;
            let versions = versions.into_iter().map(|it| version(&store, it)).collect::<Result<_, _>>()?;
            Ok(raw::HistoryResponse { versions, more, oldest_kept: oldest.get().max(1) })
        });
        let answer: raw::HistoryResponse = answer.await?.map_err(|failure| self.read_failure(failure))?;
        if answer.versions.is_empty() && before.is_none() {
            return Err(Refusal::not_found(name));
        }
        Ok(answer)
    }
}

fn version(store: &Store, version: Version) -> Result<raw::Version, ReadFailure> {
    let Version { id, record } = version;
    let revision = id.revision.get();
    let author = author(&record);
    let (stored, deleted) = match &record.change {
        Change::Put { value, .. } => (Some(value.clone()), false),
        Change::Delete => {
            let last = record.replaced.map(|last| store.record(last)).transpose()?.flatten();
            let value = last.and_then(|last| match last.change {
                Change::Put { value, .. } => Some(value),
                Change::Delete => None,
            });
            (value, true)
        }
    };
    let object = stored.map(|stored| RawObject::new(stored, revision));
    Ok(raw::Version { object, revision, deleted, author })
}
