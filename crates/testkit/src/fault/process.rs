//! One life of a controller, as far as the server can tell: its requests, until it ends.

use std::time::Duration;

use setpoint_client::{Client, ConnectError, Connector, Endpoint, Wire};
use tokio_util::sync::CancellationToken;

/// What is left of the life of a process that has seen its last answer: nothing it asks for meanwhile is heard.
const LAST_BREATH: Duration = Duration::from_millis(1);

/// A process that can end at any moment. **Guarantees**: nothing it sends afterwards arrives, and nothing reaches it. **Does not promise**
/// that its tasks end: that is for whoever started them.
#[derive(Clone)]
pub struct Process {
    client: Client,
    wire: Wire,
    life: Life,
}

impl Process {
    pub(super) fn new(client: Client, wire: Wire, life: Life) -> Self {
        Self { client, wire, life }
    }

    /// Its connection to the server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ends it.
    pub fn kill(&self) {
        self.life.end();
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        self.life.ended().await;
    }
}

/// For clients with other settings.
impl Connector for Process {
    fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
        Ok(self.wire.clone())
    }
}

#[derive(Clone, Default)]
pub(super) struct Life {
    /// Nothing is heard of it any more.
    silent: CancellationToken,
    over: CancellationToken,
}

impl Life {
    pub fn end(&self) {
        self.silent.cancel();
        self.over.cancel();
    }

    /// It sees the answer that is being given, and ends before it does anything else.
    pub fn end_after_answer(&self) {
        let life = self.clone();
        life.silent.cancel();
        tokio::spawn(async move {
            tokio::time::sleep(LAST_BREATH).await;
            life.over.cancel();
        });
    }

    pub fn is_silent(&self) -> bool {
        self.silent.is_cancelled()
    }

    pub async fn ended(&self) {
        self.over.cancelled().await;
    }
}
