//! All kinds at one revision.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_types::Revision;
use tokio::sync::watch;

use super::postings::{KindIndex, Wanted};
use crate::objects::attributes::Attributes;
use crate::objects::catalog::Kind;

pub struct Index {
    inner: RwLock<Inner>,
    /// The revision it is at, for those who wait for one.
    reached: watch::Sender<Revision>,
    bytes_max: usize,
}

#[derive(Default)]
struct Inner {
    revision: Revision,
    /// None for a kind that was given up because it takes too much memory. Lists of it scan, as those of a kind that is
    /// not here: it may have objects, only nobody has looked yet.
    kinds: HashMap<String, Option<KindIndex>>,
}

/// What was found, all of one revision.
pub struct Selected {
    pub revision: Revision,
    /// `namespace/name`, in order.
    pub names: Vec<Arc<str>>,
    pub more: bool,
    /// False if some of it was perhaps not there at the revision, or not selected.
    pub sure: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    pub objects: usize,
    /// About how much memory they take.
    pub bytes: usize,
}

/// What a change is to the index.
pub(super) enum Update<'r> {
    Put { kind: &'r str, name: &'r str, attributes: Attributes<'r> },
    Remove { kind: &'r str, name: &'r str },
}

impl Index {
    /// Beyond `bytes_max` the largest kind is given up.
    pub fn new(bytes_max: usize) -> Self {
        Self { inner: RwLock::default(), reached: watch::Sender::new(Revision::NONE), bytes_max }
    }

    /// Waits until it has seen a revision.
    pub async fn reached(&self, revision: Revision) {
        // Cannot fail: the sender is in `self`.
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= revision).await;
    }

    /// What is selected at a revision, or at its own if none is named. None if it does not know the kind, or knows it with
    /// other fields, or not so far back: then a scan finds out.
    pub fn select(&self, kind: &Kind, wanted: &Wanted<'_>, at: Option<Revision>) -> Option<Selected> {
        let inner = self.inner.read();
        let index = inner.kinds.get(kind.name())?.as_ref()?;
        if inner.revision.is_none() || *index.fields() != kind.fields {
            return None;
        }
        let revision = at.unwrap_or(inner.revision);
        let sure = revision == inner.revision;
        let (names, more) = if sure { index.select(wanted) } else { index.select_at(wanted, revision)? };
        Some(Selected { revision, names, more, sure })
    }

    pub fn revision(&self) -> Revision {
        self.inner.read().revision
    }

    pub fn size(&self) -> IndexSize {
        let inner = self.inner.read();
        let kinds = inner.kinds.values().flatten();
        kinds.fold(IndexSize::default(), |size, kind| IndexSize {
            objects: size.objects + kind.len(),
            bytes: size.bytes + kind.bytes(),
        })
    }

    /// Applies everything between its revision and `until`.
    pub(super) fn update(&self, updates: Vec<Update<'_>>, until: Revision) {
        let mut inner = self.inner.write();
        inner.apply(updates, until, self.bytes_max);
        inner.revision = until;
        drop(inner);
        self.announce(until);
    }

    /// Puts what was built anew in the place of everything.
    pub(super) fn replace(&self, built: Draft, revision: Revision) {
        let Draft { mut inner } = built;
        inner.follow(revision);
        inner.revision = revision;
        *self.inner.write() = inner;
        self.announce(revision);
    }

    /// Puts kinds that were read by themselves, at the revision it is at, beside or in the place of those it has.
    pub(super) fn add(&self, mut read: Draft) {
        let mut inner = self.inner.write();
        read.inner.follow(inner.revision);
        inner.kinds.extend(read.inner.kinds);
        inner.keep_within(self.bytes_max);
    }

    pub(super) fn forget(&self, kind: &str) {
        self.inner.write().kinds.remove(kind);
    }

    fn announce(&self, revision: Revision) {
        self.reached.send_if_modified(|reached| std::mem::replace(reached, revision) != revision);
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

/// An index in the making.
pub(super) struct Draft {
    inner: Inner,
}

impl Draft {
    /// Of kinds of which nothing was read yet.
    pub fn of<'k>(kinds: impl Iterator<Item = &'k Arc<Kind>>) -> Self {
        let empty = |kind: &Arc<Kind>| (kind.name().to_owned(), Some(KindIndex::new(kind.fields.clone())));
        Self { inner: Inner { revision: Revision::NONE, kinds: kinds.map(empty).collect() } }
    }

    pub fn add(&mut self, updates: Vec<Update<'_>>, bytes_max: usize) {
        self.inner.apply(updates, Revision::NONE, bytes_max);
    }
}

impl Inner {
    /// What was read is complete up to a revision.
    fn follow(&mut self, from: Revision) {
        self.kinds.values_mut().flatten().for_each(|index| index.follow(from));
    }

    fn apply(&mut self, updates: Vec<Update<'_>>, until: Revision, bytes_max: usize) {
        for update in updates {
            match update {
                Update::Put { kind, name, attributes } => {
                    if let Some(Some(index)) = self.kinds.get_mut(kind) {
                        index.put(name, &attributes, until);
                    }
                }
                Update::Remove { kind, name } => {
                    if let Some(Some(index)) = self.kinds.get_mut(kind) {
                        index.remove(name, until);
                    }
                }
            }
        }
        self.keep_within(bytes_max);
    }

    fn keep_within(&mut self, bytes_max: usize) {
        let bytes = |index: &Option<KindIndex>| index.as_ref().map_or(0, KindIndex::bytes);
        while self.kinds.values().map(bytes).sum::<usize>() > bytes_max
            && let Some((kind, index)) = self.kinds.iter_mut().max_by_key(|(_, index)| bytes(index))
        {
            tracing::warn!(
                kind,
                bytes_max,
                "the index of this kind takes too much memory; lists of it by selectors scan"
            );
            *index = None;
        }
    }
}
