//! One object of the cache: its encoding, and what is read out of it when somebody asks.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::raw::ReceivedName;
use setpoint_client::{Parts, Shape};
use setpoint_types::{FieldProblem, Metadata, Revision, Uid};

use super::Key;

/// An object as it is kept: encoded. Cheap to clone. Holds still whatever the cache does.
///
/// **Guarantees**: it is a state that the store once held, at [`Entry::revision`], less what a transformation left out. **Does not promise**
/// to be current, nor that its bytes can be read: what reads them says so.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    key: Key,
    revision: Revision,
    encoded: Arc<[u8]>,
}

impl Entry {
    pub(crate) fn new(key: Key, revision: Revision, encoded: Arc<[u8]>) -> Self {
        Self { key, revision, encoded }
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Of its last change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How large its encoding is.
    pub fn encoded_len(&self) -> usize {
        self.encoded.len()
    }

    pub(crate) fn encoded(&self) -> &Arc<[u8]> {
        &self.encoded
    }

    fn bytes(&self) -> Bytes {
        Bytes::from_owner(self.encoded.clone())
    }

    /// Tells it from an earlier or later object of the same name. Empty if its bytes cannot be read.
    pub fn uid(&self) -> Uid {
        let name = ReceivedName::read(&self.bytes()).unwrap_or_default();
        Uid::new(String::from_utf8_lossy(&name.uid))
    }

    /// Metadata, and spec and status as text.
    pub fn parts(&self) -> Result<Parts, FieldProblem> {
        Parts::decode(self.bytes())
    }

    pub fn metadata(&self) -> Result<Metadata, FieldProblem> {
        Ok(self.parts()?.metadata)
    }

    pub fn read<K: Shape>(&self) -> Result<K::Object, FieldProblem> {
        K::read(self.parts()?)
    }

    /// For those who know what it is.
    pub fn typed<K: Shape>(self) -> Cached<K> {
        Cached { entry: self, shape: PhantomData }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.revision)
    }
}

/// An object in a cache, of a kind that is known. Holds still whatever the cache does. **Does not promise** to be current, nor that it
/// can be read as its kind: an object that was written under another definition may not be.
///
/// **Costs**: to hold it, nothing but its encoding; to [`Cached::read`] it, decoding, each time. Read once, and keep what was read.
pub struct Cached<K> {
    entry: Entry,
    shape: PhantomData<fn() -> K>,
}

impl<K: Shape> Cached<K> {
    /// The object. Fails if its JSON is not of the kind's type: it is of another version of the kind, or of another kind.
    pub fn read(&self) -> Result<K::Object, FieldProblem> {
        self.entry.read::<K>()
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), shape: PhantomData }
    }
}

impl<K> std::ops::Deref for Cached<K> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl<K> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}
