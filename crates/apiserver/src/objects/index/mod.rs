//! Labels and selectable fields of all objects, in memory, so that a list by a selector looks only at what it returns.
//!
//! - [`postings`]: the objects of one kind, by label and by field
//! - [`moved`]: what changed of late, for lists of a little while ago
//! - [`live`]: all kinds at one revision, and waiting for one
//! - [`follow`]: the task that keeps it at the newest revision
//!
//! It follows the same feed as watches do and decodes only labels and selectable fields. What it finds is true at one
//! revision, its own: objects are then read at that revision, even if they change meanwhile. For a revision of a little while
//! ago it names what may have been selected then, and whoever reads it looks.
//!
//! Not here: objects. They are fetched from the store once it is known which.

mod follow;
mod live;
mod moved;
mod postings;

pub use live::{Index, IndexSize, Selected};
pub use postings::Wanted;
