//! What replicas wrote, for those who ask: the last lines, from a time on, or as it comes.
//!
//! - [`reader`]: the files of processes; containers' logs come from their engine

mod docker;
mod reader;

pub use docker::stream as docker_stream;
pub use reader::Reader;
use serde::Deserialize;

/// Which lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LogQuery {
    /// Go on with what is written from now on, until the replica has ended or nobody reads.
    pub follow: bool,
    /// Only the last so many that are there.
    pub tail: Option<u64>,
    /// Only what was written since, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// With the time before each line, in milliseconds since 1970.
    pub timestamps: bool,
}
