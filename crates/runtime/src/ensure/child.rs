//! A part of an object is there: created, found, or adopted.

use serde_json::json;
use setpoint_client::{Api, Error, Patch, PatchOptions, Shape, Typed, Writable, WriteOptions};
use setpoint_types::object::{Object, OwnerReference};
use setpoint_types::selector::LabelSelector;
use setpoint_types::{KindType, Metadata, ObjectKey, Revision, Uid};

use super::{Done, EnsureError, Ensured};

/// How often one call looks again after something came or went between two looks.
const LOOKS_MAX: usize = 3;

/// The object whose parts are made, as the run saw it. **Assumes** that key, uid and revision are of one look. **Does not promise** that
/// it is still there: a part of an object that is gone is taken away by the garbage collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub key: ObjectKey,
    pub uid: Uid,
    /// At which it was seen.
    pub revision: Revision,
}

impl Owner {
    pub fn of<K: KindType>(object: &Typed<K>) -> Self {
        Self::new(object.key(), &object.metadata)
    }

    pub fn of_object(object: &Object) -> Self {
        Self::new(object.key(), &object.metadata)
    }

    fn new(key: ObjectKey, metadata: &Metadata) -> Self {
        Self { key, uid: metadata.uid.clone(), revision: metadata.revision }
    }

    /// As the one owner that controls another object, which blocks its foreground deletion.
    pub fn as_controller(&self) -> OwnerReference {
        OwnerReference {
            kind: self.key.kind.clone(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }

    fn controls(&self, metadata: &Metadata) -> bool {
        metadata.controller().is_some_and(|controller| controller.uid == self.uid)
    }

    /// Whether it is controlled by another object of this owner's name. Only one of them is there now, so that the other one's parts
    /// are nobody's.
    fn has_namesake(&self, metadata: &Metadata) -> bool {
        let is_namesake = |it: &OwnerReference| it.kind == self.key.kind && it.name == self.key.name;
        metadata.controller().is_some_and(|controller| is_namesake(controller) && controller.uid != self.uid)
    }
}

/// Whether a part may be adopted that is there, and that nobody controls.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Adopt {
    /// No: whoever made it may not want it to be changed.
    #[default]
    Never,
    /// If its labels are such.
    Matching(LabelSelector),
    /// Yes, whatever it is: nobody else makes objects of such names.
    Always,
}

/// What is to be done about a part that is there.
#[derive(Debug, PartialEq)]
enum Finding {
    Ours,
    Orphan,
    /// Of an earlier owner of the same name.
    Leftover,
}

/// A part of `owner` is there, under the name of `wanted`, controlled by `owner`.
///
/// | found under the name | then |
/// |---|---|
/// | nothing | created as `wanted` |
/// | controlled by the owner's uid | nothing: what it should contain is [`super::ensure_applied`]'s |
/// | without a controller | adopted if `adopt` allows, else [`EnsureError::NotAdoptable`]; its other owners stay |
/// | controlled by a namesake of the owner with another uid | deleted, if the owner is still as it was seen; then created, or [`EnsureError::Terminating`] while it goes |
/// | controlled by anybody else | [`EnsureError::AlreadyOwned`] |
/// | being deleted | [`EnsureError::Terminating`]: it is made anew by the run after it is gone |
///
/// **Guarantees**: run any number of times, by any number of processes, with crashes at any point, there is at most one such part, and
/// none that somebody else controls is touched. Adoption and deletion are of the object that was looked at, and of no later one.
/// **Assumes** that whoever holds `seen` got it from the cache or the server, and that the name says what the part is for
/// ([`super::name_for`]). **Does not promise** that a part that `seen` shows is still there; the cache tells when it goes.
pub async fn ensure_child<K: Writable>(
    api: &Api<K>,
    owner: &Owner,
    seen: Option<&K::Object>,
    mut wanted: K::Object,
    adopt: &Adopt,
) -> Result<Ensured<K::Object>, EnsureError> {
    let key = check::<K>(api, owner, &mut wanted)?;
    if let Some(metadata) = seen.map(K::metadata).filter(|it| owner.controls(it) && !it.is_terminating()) {
        return Ok(Ensured::unchanged(metadata.revision));
    }
    for _ in 0..LOOKS_MAX {
        match api.create(&wanted, &WriteOptions::default()).await {
            Ok(written) => {
                let (revision, object) = (written.revision, Some(written.object));
                return Ok(Ensured { done: Done::Created, revision, object });
            }
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(found) = api.find(&key.name).await? else { continue };
        let metadata = K::metadata(&found);
        match judge(&key, owner, metadata, adopt)? {
            Finding::Ours => {
                return Ok(Ensured {
                    done: Done::Unchanged,
                    revision: metadata.revision,
                    object: Some(found),
                });
            }
            Finding::Orphan => return adopt_it(api, owner, metadata).await,
            Finding::Leftover => delete_leftover(api, owner, &key, &metadata.uid).await?,
        }
    }
    Err(EnsureError::Moved { object: key })
}

/// Completes what is wanted, and tells how it is called.
fn check<K: Writable>(api: &Api<K>, owner: &Owner, wanted: &mut K::Object) -> Result<ObjectKey, EnsureError> {
    let metadata = K::metadata_mut(wanted);
    let namespace = match api.scope().name() {
        "" => metadata.namespace.clone(),
        namespace => namespace.to_owned(),
    };
    let key = ObjectKey::new(api.kind(), namespace, &metadata.name);
    let senseless = |problem| Err(EnsureError::Senseless { object: key.clone(), problem });
    if metadata.name.is_empty() {
        return senseless("it has no name: a part is found again by its name");
    }
    if owner.uid.is_empty() {
        return senseless("its owner has no uid: read the owner first");
    }
    match metadata.controller() {
        None => metadata.owners.push(owner.as_controller()),
        Some(controller) if controller.uid == owner.uid => {}
        Some(_) => return senseless("it names another controller than its owner"),
    }
    Ok(key)
}

fn judge(key: &ObjectKey, owner: &Owner, found: &Metadata, adopt: &Adopt) -> Result<Finding, EnsureError> {
    let object = || key.clone();
    if found.is_terminating() {
        return Err(EnsureError::Terminating { object: object(), uid: found.uid.clone() });
    }
    if owner.controls(found) {
        return Ok(Finding::Ours);
    }
    if owner.has_namesake(found) {
        return Ok(Finding::Leftover);
    }
    if let Some(other) = found.controller() {
        return Err(EnsureError::AlreadyOwned { object: object(), owner: Box::new(other.clone()) });
    }
    let why = match adopt {
        Adopt::Always => return Ok(Finding::Orphan),
        Adopt::Matching(selector) if selector.matches(&found.labels) => return Ok(Finding::Orphan),
        Adopt::Matching(_) => "its labels do not match",
        Adopt::Never => "nothing is adopted here",
    };
    Err(EnsureError::NotAdoptable { object: object(), why })
}

/// Names the owner as the controller of the very object that was looked at. Owners that do not control it stay.
async fn adopt_it<K: Writable>(
    api: &Api<K>,
    owner: &Owner,
    found: &Metadata,
) -> Result<Ensured<K::Object>, EnsureError> {
    // An owner that only owned it so far is the same owner.
    let others = found.owners.iter().filter(|it| it.uid != owner.uid);
    let owners: Vec<OwnerReference> = others.cloned().chain([owner.as_controller()]).collect();
    let patch = Patch::Merge(json!({"metadata": {"owners": owners}}));
    let written = api.patch(&found.name, &patch, &of_this(found)).await?;
    let (revision, object) = (written.revision, Some(written.object));
    Ok(Ensured { done: Done::Adopted, revision, object })
}

/// Deletes a part of an earlier owner. It is the earlier one's, and not a later one's of which this run does not know yet, if the
/// owner is still there as it was seen: that is a condition of the same commit.
async fn delete_leftover<K: Shape>(
    api: &Api<K>,
    owner: &Owner,
    key: &ObjectKey,
    uid: &Uid,
) -> Result<(), EnsureError> {
    let deletion = api.client().transaction().if_at(&owner.key, owner.revision).delete(key, Some(uid), None);
    match deletion.commit(&WriteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() || is_of_leftover(&error, key) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The leftover went meanwhile, and something else has its name.
fn is_of_leftover(error: &Error, key: &ObjectKey) -> bool {
    EnsureError::is_other_uid(error)
        && error.refusal().and_then(|it| it.object).is_none_or(|object| object == *key)
}

/// Conditions that only the object holds that was looked at, as it was.
pub(crate) fn of_this(metadata: &Metadata) -> PatchOptions {
    PatchOptions {
        uid: Some(metadata.uid.clone()),
        revision: Some(metadata.revision),
        ..PatchOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;

    use super::*;

    fn owner() -> Owner {
        let key = ObjectKey::new("Workload", "default", "web");
        Owner { key, uid: Uid::new("u2"), revision: Revision::new(9) }
    }

    fn controlled_by(kind: &str, name: &str, uid: &str) -> Metadata {
        let (kind, name, uid) = (kind.to_owned(), name.to_owned(), Uid::new(uid));
        let owners = vec![OwnerReference { kind, name, uid, controller: true, ..Default::default() }];
        Metadata { owners, ..Metadata::default() }
    }

    fn check(found: &Metadata, adopt: &Adopt, expected: &str) {
        let key = ObjectKey::new("Config", "default", "c");
        let judged = match judge(&key, &owner(), found, adopt) {
            Ok(finding) => format!("{finding:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(judged, expected);
    }

    #[test]
    fn what_is_there_is_judged_by_who_controls_it() {
        let never = &Adopt::Never;
        check(&controlled_by("Workload", "web", "u2"), never, "Ours");
        check(&controlled_by("Workload", "web", "u1"), never, "Leftover");
        let taken = "Config default/c is controlled by Rollout web: give it up there, or choose another name";
        check(&controlled_by("Rollout", "web", "u1"), &Adopt::Always, taken);
        let going = Metadata { deleted: Some(Timestamp(1)), ..controlled_by("Workload", "web", "u2") };
        check(&going, never, "Config default/c is still there, being deleted");
    }

    #[test]
    fn what_nobody_controls_is_adopted_only_as_allowed() {
        let found = Metadata { labels: [("app".to_owned(), "web".to_owned())].into(), ..Metadata::default() };
        let refused = "Config default/c exists without a controller, and may not be adopted: ";
        check(&found, &Adopt::Never, &format!("{refused}nothing is adopted here"));
        check(&found, &Adopt::Always, "Orphan");
        let matching = |text: &str| Adopt::Matching(LabelSelector::parse(text).expect("a selector"));
        check(&found, &matching("app=web"), "Orphan");
        check(&found, &matching("app=api"), &format!("{refused}its labels do not match"));
    }
}
