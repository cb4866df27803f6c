//! What is known of one owner and its parts. That an owner is gone is never believed of a cache: the server is asked, and then the
//! caches are waited for, so that no part is overlooked that it had before.

use setpoint_client::{Client, Dynamic, ListOptions, ReadAt};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::Entry;
use setpoint_types::kinds::{BindingState, BindingStatus, Namespace};
use setpoint_types::{Metadata, ObjectKey, Revision};

use super::kinds::Kinds;
use super::owner::OwnerId;
use super::plan::{Observed, Order, Owner, Part};

/// By what the caches tell. None: there is nothing to do about it.
pub(super) async fn observe(
    kinds: &Kinds,
    client: &Client,
    id: OwnerId,
) -> Result<Option<Observed>, ReconcileError> {
    let is_settled = match kinds.cached(&id) {
        Some(metadata) => Order::of(&metadata).is_none(),
        None => kinds.parts(&id).is_empty(),
    };
    if is_settled { Ok(None) } else { look(kinds, client, id, false).await }
}

/// The same, parts of users' kinds included.
pub(super) async fn observe_whole(
    kinds: &Kinds,
    client: &Client,
    id: OwnerId,
) -> Result<Option<Observed>, ReconcileError> {
    look(kinds, client, id, true).await
}

async fn look(
    kinds: &Kinds,
    client: &Client,
    id: OwnerId,
    whole: bool,
) -> Result<Option<Observed>, ReconcileError> {
    let (owner, revision) = ask(kinds, client, &id).await?;
    if owner == Owner::There {
        return Ok(None);
    }
    kinds.catch_up(revision).await?;
    let mut parts = Vec::new();
    for (kind, entry) in kinds.parts(&id) {
        let metadata = with_revision(entry.metadata()?, entry.revision());
        let has_other = has_other_owner(kinds, client, &id, &metadata).await?;
        parts.push(Part { is_free: is_free(kind, &entry)?, has_other, key: key(kind, &metadata), metadata });
    }
    // Parts of users' kinds are in no cache. The order of a deletion waits for them; those of an owner that is gone are found by the
    // periodic look at their namespace.
    if whole || matches!(owner, Owner::Going { .. }) {
        for (kind, metadata) in kinds.of_users(client, &id.namespace).await? {
            if metadata.owners.iter().any(|owner| owner.uid == id.uid) {
                let has_other = has_other_owner(kinds, client, &id, &metadata).await?;
                parts.push(Part { is_free: true, has_other, key: key(&kind, &metadata), metadata });
            }
        }
    }
    Ok(Some(Observed { id, owner, parts }))
}

fn key(kind: &str, metadata: &Metadata) -> ObjectKey {
    ObjectKey::new(kind, &metadata.namespace, &metadata.name)
}

/// A cache keeps the revision beside the object.
fn with_revision(mut metadata: Metadata, revision: Revision) -> Metadata {
    metadata.revision = revision;
    metadata
}

/// What the server says of the owner, and as of which revision.
pub(super) async fn ask(
    kinds: &Kinds,
    client: &Client,
    id: &OwnerId,
) -> Result<(Owner, Revision), ReconcileError> {
    let api = client.shaped::<Dynamic>(&id.kind, kinds.scope(id));
    let (metadata, revision) = match api.get_at(&id.name, ReadAt::Latest).await {
        Ok((object, revision)) => (object.metadata, revision),
        Err(error) if error.is_not_found() => {
            // Parts that were made before it went are at or before what the server has now.
            let options = ListOptions { page: 1, ..ListOptions::default() };
            let now = client.api::<Namespace>().list(&options).await?.revision;
            return Ok((Owner::Gone, now));
        }
        Err(error) => return Err(error.into()),
    };
    if metadata.uid != id.uid {
        return Ok((Owner::Gone, revision));
    }
    let owner = match Order::of(&metadata) {
        Some(order) => Owner::Going { metadata: Box::new(metadata), order },
        None => Owner::There,
    };
    Ok((owner, revision))
}

/// Whether a part has another owner that is there and stays.
async fn has_other_owner(
    kinds: &Kinds,
    client: &Client,
    id: &OwnerId,
    part: &Metadata,
) -> Result<bool, ReconcileError> {
    for reference in part.owners.iter().filter(|reference| reference.uid != id.uid) {
        let other = OwnerId::named_by(reference, &part.namespace, kinds.is_namespaced(&reference.kind));
        let stays = match kinds.cached(&other) {
            Some(metadata) => !metadata.is_terminating(),
            None => ask(kinds, client, &other).await?.0 == Owner::There,
        };
        if stays {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A binding that is not released has something reserved.
fn is_free(kind: &str, entry: &Entry) -> Result<bool, ReconcileError> {
    if kind != "Binding" {
        return Ok(true);
    }
    let status: BindingStatus = entry.parts()?.status()?.unwrap_or_default();
    Ok(status.state == BindingState::Released)
}
