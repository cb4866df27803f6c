//! A finalizer: what a controller has done outside is undone before its object goes.
//!
//! ```no_run
//! # async fn example(client: setpoint_client::Client, zone: setpoint_types::object::Object) -> Result<(), Box<dyn std::error::Error>> {
//! # async fn remove_record() -> Result<(), std::io::Error> { Ok(()) }
//! use setpoint_client::{Dynamic, Scope};
//! use setpoint_runtime::finalizer::{Finalizer, Guarded};
//!
//! let finalizer = Finalizer::new("dns.example.com/records")?;
//! let api = client.dynamic("DnsRecord", Scope::namespace("default"));
//! match finalizer.guard(&api, &zone, remove_record()).await? {
//!     Guarded::Held { .. } => { /* only now may something be made outside */ }
//!     Guarded::Cleaned { .. } | Guarded::Going => { /* nothing more to do */ }
//! }
//! # Ok(()) }
//! ```
//!
//! Not here: the finalizers of the server (`setpoint/foreground` and its like), and deleting parts, which owner references are for.

use std::error::Error as StdError;

use serde_json::json;
use setpoint_client::{Api, Error, Patch, Shape};
use setpoint_types::names::check_finalizer;
use setpoint_types::{Metadata, Revision};

use crate::ensure::{Done, Ensured, of_this};

/// How often the end of a cleanup is written again after somebody else changed the object in between.
const RELEASES_MAX: usize = 5;

/// One controller's finalizer.
///
/// **Guarantees**
/// - [`Finalizer::guard`] returns [`Guarded::Held`] only if the server has the finalizer on the object: whatever is made outside
///   after that is cleaned up before the object goes, however often the controller crashes.
/// - It is removed only after a cleanup that ended well, and that was handed this generation of the object. The cleanup is run at
///   least once; after a crash, or a conflict, again.
/// - Finalizers of others are neither added nor removed, whoever writes at the same time: every write is of the uid and the revision
///   that was looked at.
/// - Run twice, nothing happens the second time; if what was seen shows that there is nothing to do, nothing is asked.
///
/// **Assumes** that the cleanup can be run again when it was done already, and that nothing is made outside without `Held`.
///
/// **Does not promise** a cleanup if somebody removes the finalizer by hand, or if it was never added: an object that is deleted
/// before it was first guarded goes without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalizer {
    name: String,
}

/// A name that no finalizer can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no name of a finalizer: it {rule}, like \"example.com/cleanup\"")]
pub struct BadFinalizer {
    name: String,
    rule: &'static str,
}

/// What an object's metadata means for one finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing may be made outside yet.
    Unguarded,
    /// What is made outside will be cleaned up.
    Held,
    /// It is being deleted, and waits for the cleanup.
    CleanUp,
    /// It is being deleted, and does not wait for this finalizer.
    Going,
}

/// What [`Finalizer::guard`] came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Guarded<T> {
    /// Go on: the finalizer is there. `added` says what it took; its object is the one to go on with, for it has a later revision.
    Held { added: Ensured<T> },
    /// The cleanup was done, and the finalizer is off. Nothing more is to be done for this object.
    Cleaned { revision: Revision },
    /// The object goes, and there is nothing of ours to clean up.
    Going,
}

/// What went wrong while an object was guarded.
#[derive(Debug, thiserror::Error)]
pub enum FinalizerError<E: StdError + 'static> {
    /// The finalizer could not be added: nothing may be made outside.
    #[error("finalizer {finalizer} was not added")]
    Add {
        finalizer: String,
        #[source]
        source: Error,
    },
    /// It stays, and the cleanup is to be run again.
    #[error("the cleanup of finalizer {finalizer} failed")]
    CleanUp {
        finalizer: String,
        #[source]
        source: E,
    },
    /// The cleanup was done, but the finalizer is still there: it is to be run again.
    #[error("finalizer {finalizer} was not removed after its cleanup")]
    Remove {
        finalizer: String,
        #[source]
        source: Error,
    },
}

impl<E: StdError + 'static> FinalizerError<E> {
    /// The call's error, if it was one.
    pub fn call(&self) -> Option<&Error> {
        match self {
            Self::Add { source, .. } | Self::Remove { source, .. } => Some(source),
            Self::CleanUp { .. } => None,
        }
    }
}

impl Finalizer {
    pub fn new(name: impl Into<String>) -> Result<Self, BadFinalizer> {
        let name = name.into();
        match check_finalizer(&name) {
            Ok(()) => Ok(Self { name }),
            Err(rule) => Err(BadFinalizer { name, rule }),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is to be done about an object. Pure, for plans.
    pub fn stage(&self, metadata: &Metadata) -> Stage {
        match (metadata.is_terminating(), self.is_on(metadata)) {
            (false, false) => Stage::Unguarded,
            (false, true) => Stage::Held,
            (true, true) => Stage::CleanUp,
            (true, false) => Stage::Going,
        }
    }

    fn is_on(&self, metadata: &Metadata) -> bool {
        metadata.finalizers.contains(&self.name)
    }

    /// Adds the finalizer to an object that lives, or cleans up and removes it from one that is being deleted.
    /// `clean_up` is what undoes what was made outside for `seen`; it is not begun unless it is needed.
    pub async fn guard<K: Shape, E: StdError + 'static>(
        &self,
        api: &Api<K>,
        seen: &K::Object,
        clean_up: impl Future<Output = Result<(), E>>,
    ) -> Result<Guarded<K::Object>, FinalizerError<E>> {
        let metadata = K::metadata(seen);
        let finalizer = || self.name.clone();
        match self.stage(metadata) {
            Stage::Going => Ok(Guarded::Going),
            Stage::Held => Ok(Guarded::Held {
                added: Ensured { done: Done::Unchanged, revision: metadata.revision, object: None },
            }),
            Stage::Unguarded => match self.add(api, metadata).await {
                Ok(added) => Ok(Guarded::Held { added }),
                Err(source) => Err(FinalizerError::Add { finalizer: finalizer(), source }),
            },
            Stage::CleanUp => {
                let cleaned = clean_up.await;
                cleaned.map_err(|source| FinalizerError::CleanUp { finalizer: finalizer(), source })?;
                let removed = self.remove(api, metadata).await;
                let revision =
                    removed.map_err(|source| FinalizerError::Remove { finalizer: finalizer(), source })?;
                Ok(Guarded::Cleaned { revision })
            }
        }
    }

    /// Adds itself to the very object that was looked at. One whose deletion began in between has another revision.
    async fn add<K: Shape>(&self, api: &Api<K>, seen: &Metadata) -> Result<Ensured<K::Object>, Error> {
        let finalizers: Vec<&String> = seen.finalizers.iter().chain([&self.name]).collect();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let written = api.patch(&seen.name, &patch, &of_this(seen)).await?;
        let (revision, object) = (written.revision, Some(written.object));
        Ok(Ensured { done: Done::Changed, revision, object })
    }

    /// Removes itself. Somebody who changed the object meanwhile does not undo the cleanup, unless it was the spec that changed: then
    /// the cleanup has not seen all, and the conflict is told.
    async fn remove<K: Shape>(&self, api: &Api<K>, seen: &Metadata) -> Result<Revision, Error> {
        let mut now = seen.clone();
        for _ in 1..RELEASES_MAX {
            match self.remove_from(api, &now).await {
                Err(error) if error.is_conflict() => match api.find(&now.name).await? {
                    None => return Ok(now.revision),
                    Some(object) => {
                        let found = K::metadata(&object);
                        if found.uid != seen.uid || !self.is_on(found) {
                            return Ok(found.revision);
                        }
                        if found.generation != seen.generation {
                            return Err(error);
                        }
                        now.clone_from(found);
                    }
                },
                done => return done,
            }
        }
        self.remove_from(api, &now).await
    }

    async fn remove_from<K: Shape>(&self, api: &Api<K>, now: &Metadata) -> Result<Revision, Error> {
        let finalizers: Vec<&String> = now.finalizers.iter().filter(|it| **it != self.name).collect();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        match api.patch(&now.name, &patch, &of_this(now)).await {
            Ok(written) => Ok(written.revision),
            // Gone altogether: somebody removed it by hand.
            Err(error) if error.is_not_found() => Ok(now.revision),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;

    use super::*;

    #[test]
    fn what_is_to_be_done_follows_from_the_metadata() {
        let finalizer = Finalizer::new("example.com/f").expect("a good name");
        let check = |deleted: Option<u64>, finalizers: &[&str], stage| {
            let finalizers = finalizers.iter().map(|it| (*it).to_owned()).collect();
            let metadata = Metadata { deleted: deleted.map(Timestamp), finalizers, ..Metadata::default() };
            assert_eq!(finalizer.stage(&metadata), stage);
        };
        check(None, &["other"], Stage::Unguarded);
        check(None, &["other", "example.com/f"], Stage::Held);
        check(Some(1), &["other", "example.com/f"], Stage::CleanUp);
        check(Some(1), &["other"], Stage::Going);
    }

    #[test]
    fn a_bad_name_is_refused_before_it_reaches_an_object() {
        let error = Finalizer::new("a/b/c").unwrap_err();
        assert!(error.to_string().contains("example.com/cleanup"), "{error}");
    }
}
