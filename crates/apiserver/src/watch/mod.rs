//! Watches: the changes of this node's own apply, handed to every stream that asked for them.
//!
//! - [`ring`]: the newest changes in memory, shared by all streams
//! - [`shelf`]: the values that changes replaced, likewise
//! - [`router`]: whom a changed key concerns
//! - [`hub`]: publishing, registering, handing over
//! - [`watcher`]: one watch of a stream: what it wants and how far it has come
//! - [`watches`]: all watches of a stream
//! - [`stream`]: one stream's task
//!
//! Streams pull. A stream that falls behind keeps a revision, not a queue: it reads the ring, and behind the ring the
//! store's history. So a slow client costs nobody memory, is never cut for being slow, and is cancelled only when a
//! compaction overtakes it.
//!
//! Not here: etcd's messages (`etcd::watch`), and watches of objects (`objects::watch`), which share the hub and the ring.

mod hub;
mod ring;
mod router;
mod shelf;
mod stream;
mod watcher;
mod watches;

pub use hub::{Counts, Hub, Load, Taken};
pub use ring::{PreviousMissing, Published};
pub use router::Slot;
pub use stream::{Command, Event, Output, StreamEnd, StreamOptions, WatchStream};
pub use watcher::{Filters, WatchId, WatchSpec};
