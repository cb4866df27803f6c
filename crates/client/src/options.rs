//! What a call can be told, and what a write answers.

use std::sync::Arc;

use setpoint_types::object::Fence;
use setpoint_types::{ObjectKey, Revision, Timestamp, Uid};

use crate::refusal::FieldConflict;

/// How fresh a read must be. **Guarantees** are those of each; all answer with the revision that they are of. **Does not promise** that what was
/// read is so when the answer arrives: let the write prove it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAt {
    /// It sees every write that was acknowledged before.
    #[default]
    Latest,
    /// This revision or a newer one; the node waits until it has it.
    NotOlderThan(Revision),
    /// Exactly the state of this revision, if it is still kept.
    Exact(Revision),
    /// Whatever the node has that is asked.
    Cached,
    /// The state at the end of the second of this time.
    Time(Timestamp),
}

/// Where an `Api` looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// For kinds that belong to the whole cluster.
    Cluster,
    Namespace(Arc<str>),
    /// For lists and watches only: an object has one namespace.
    AllNamespaces,
}

impl Scope {
    pub fn namespace(name: impl AsRef<str>) -> Self {
        Self::Namespace(name.as_ref().into())
    }

    /// As requests name it.
    pub fn name(&self) -> &str {
        match self {
            Self::Cluster | Self::AllNamespaces => "",
            Self::Namespace(name) => name,
        }
    }
}

/// Which objects, and how many at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `app=web,tier in (a,b),!legacy`
    pub labels: String,
    /// `spec.node=n1`
    pub fields: String,
    pub at: ReadAt,
    /// Objects in a page; 0 leaves it to the server.
    pub page: u32,
}

/// What a write carries beside the object. What is not set here is taken from the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whose decision it is.
    pub manager: Option<String>,
    pub operation: OperationId,
    /// In place of the client's.
    pub fence: Option<Fence>,
    pub dry_run: bool,
    pub field_validation: FieldValidation,
}

/// By what a write is recognised when it is sent again.
///
/// **Guarantees**: a write with an id is done once, however often it is sent, and each time answered with the first verdict, for as long as
/// the server remembers ids. **Does not promise** that for a request of another content under the same id: that is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OperationId {
    /// One that nobody else has, drawn for each call.
    #[default]
    Drawn,
    /// One of your choice, at most 128 bytes: calls with the same are done once between them.
    Chosen(String),
    /// None. The write is then not tried again unless it was surely not done.
    None,
}

/// What becomes of fields the kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are refused.
    #[default]
    Strict,
    /// They are dropped, and named in the warnings.
    Warn,
    Ignore,
}

/// The result of a write. **Guarantees**: the write is durable, and every later read that is not older than `revision` sees it. **Does not
/// promise** that caches have it: [`OnWrite`](crate::OnWrite) is for who has to wait for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    pub object: T,
    /// Of the write; that of the object if there was nothing to change.
    pub revision: Revision,
    /// False if the object already was as asked: nothing was written.
    pub changed: bool,
    /// The operation had been done before: this is its first answer. So it is when an answer was lost and the write was
    /// sent again.
    pub repeated: bool,
    /// Sentences for people.
    pub warnings: Vec<String>,
    /// With a forced apply: what was taken, and from whom.
    pub taken: Vec<FieldConflict>,
}

/// A change to an object, whatever it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7396: what is there replaces, null removes.
    Merge(serde_json::Value),
    /// RFC 6902: a list of operations, `test` among them.
    Json(serde_json::Value),
}

/// Conditions of a patch, and what it is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Only the object with this uid.
    pub uid: Option<Uid>,
    /// Only at this revision.
    pub revision: Option<Revision>,
    /// Of the status instead of the rest.
    pub status: bool,
    pub write: WriteOptions,
}

/// Conditions of a deletion, and what becomes of the object's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Only the object with this uid.
    pub uid: Option<Uid>,
    /// Only at this revision.
    pub revision: Option<Revision>,
    pub propagation: Propagation,
    pub write: WriteOptions,
}

/// What becomes of the parts of an object that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The object goes now, its parts are collected afterwards.
    #[default]
    Background,
    /// Its parts go first.
    Foreground,
    /// Its parts stay, without an owner.
    Orphan,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Deleted<T> {
    /// Its last state.
    pub object: T,
    pub revision: Revision,
    /// False: it waits for what `blockers` names.
    pub gone: bool,
    pub blockers: Vec<Blocker>,
    pub repeated: bool,
}

/// What a deletion waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The finalizer that must be removed first.
    pub finalizer: String,
    /// For foreground deletion, the parts that must go.
    pub dependents: Vec<ObjectKey>,
}
