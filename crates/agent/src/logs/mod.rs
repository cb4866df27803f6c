//! What replicas wrote, for those who ask: the last lines, from a time on, or as it comes.
//!
//! - [`reader`]: the files of processes
//! - [`follow`]: reading them as fast as somebody takes it
//! - [`docker`]: containers' logs come from their engine

mod docker;
mod follow;
mod reader;

pub use docker::stream as docker_stream;
pub use follow::follow;
pub use reader::Reader;
