//! Verbs that are safe to run twice, and to run again after a crash at any point: each brings about a state, and finds out what of
//! it is there already.
//!
//! - [`ensure_child`]: a part of an object is there, under its name, controlled by its owner
//! - [`ensure_applied`]: an object has the fields that this manager wants
//! - [`ensure_deleted`]: this object, and no later one of its name, goes
//! - [`ensure_status`]: the status says what is to be said
//! - [`ensure_kind`]: a kind of the program's own is served
//! - [`name_for`]: what a part is called, so that every run calls it the same
//!
//! They write with the client of the `Api` they are given: its manager, its fence, its trace. Whoever hands them a run's client gets
//! writes that nobody makes who no longer may. They take what a cache has shown (`seen`) to spare requests, and let the server prove
//! the rest by uid and revision, so that a stale cache costs a refused request and never a wrong write.
//!
//! Not here: what should be there (the plan), and when to try again (the loop).

mod applied;
mod apply;
mod child;
mod delete;
mod error;
mod kind;
mod name;
mod status;

pub use apply::ensure_applied;
pub(crate) use child::of_this;
pub use child::{Adopt, Owner, ensure_child};
pub use delete::{Deletion, Gone, ensure_deleted};
pub use error::EnsureError;
pub use kind::ensure_kind;
pub(crate) use name::digest;
pub use name::{NAME_CHARS_MAX, name_for};
use setpoint_types::Revision;
pub use status::{Ignored, ensure_status, ensure_status_ignoring};

/// What was done to bring a state about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was so already: nothing was written.
    Unchanged,
    Created,
    /// It was there without a controller, and has one now.
    Adopted,
    Changed,
}

/// What was done, and what is there now. **Guarantees**: at `revision` the state was as wanted. **Does not promise** that it still is.
#[derive(Clone, Debug, PartialEq)]
pub struct Ensured<T> {
    pub done: Done,
    /// Of the write, or of the object where nothing was written.
    pub revision: Revision,
    /// As the server answered; none where what was seen sufficed, and nothing was asked.
    pub object: Option<T>,
}

impl<T> Ensured<T> {
    fn unchanged(revision: Revision) -> Self {
        Self { done: Done::Unchanged, revision, object: None }
    }

    /// Something was written.
    pub fn wrote(&self) -> bool {
        self.done != Done::Unchanged
    }
}
