//! Labels and selectable fields of all objects, in memory, so that a list by a selector looks only at what it returns.
//!
//! - [`postings`]: the objects of one kind, by label and by field
//! - [`live`]: all kinds at one revision, and waiting for one
//! - [`follow`]: the task that keeps it at the newest revision
//!
//! It follows the same feed as watches do and decodes only labels and selectable fields. What it finds is true at one
//! revision, its own: objects are then read at that revision, even if they change meanwhile.
//!
//! Not here: objects. They are fetched from the store once it is known which.

mod follow;
mod live;
mod postings;

pub use live::{Index, IndexSize, Selected};
pub use postings::Wanted;
