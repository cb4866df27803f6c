//! How a failure of this replica's storage, wherever it shows, stops the node.
//!
//! A failed apply stops it through consensus. A read, a watch or the collector that finds damage stops it through here: a
//! replica that cannot trust its disk must not go on serving, voting, or passing its state on.

use std::error::Error;

use setpoint_store::EngineFailure;
use tokio_util::sync::CancellationToken;

/// Cheap to clone; all clones stop the same node.
#[derive(Clone, Debug)]
pub struct Halt {
    failed: CancellationToken,
}

impl Halt {
    /// `failed` is what the process watches: once it is cancelled, the node stops with an error.
    pub fn new(failed: CancellationToken) -> Self {
        Self { failed }
    }

    /// Logs the failure with its causes, which name the file, and stops the node. Once is enough.
    pub fn because(&self, failure: &EngineFailure) {
        if self.failed.is_cancelled() {
            return;
        }
        let mut text = failure.to_string();
        let mut cause = failure.source();
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        tracing::error!(
            error = text,
            "this node cannot read its storage and stops; the others serve without it"
        );
        self.failed.cancel();
    }
}
