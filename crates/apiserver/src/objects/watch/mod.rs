//! Watches of objects: the current state first if asked for, then changes, each stream at its own pace.
//!
//! - [`open`]: from a request to a stream
//! - [`initial`]: the state at one revision, in chunks
//! - [`stream`]: changes, bookmarks, deadlines, the end
//!
//! A stream is pulled by its client. It holds a revision and at most the answer that is being sent (while the initial
//! state lasts: one more, read ahead), so a client that reads slowly costs the server no memory and is not cut for it. What
//! ends it is compaction: `EXPIRED` when the changes it needs next are no longer kept, `TOO_SLOW` when it has not read its
//! initial state by then.
//!
//! Not here: how changes become events (`event`), and where they come from (`feed`).

mod initial;
mod open;
mod stream;

pub use stream::{Held, WatchAnswers};
