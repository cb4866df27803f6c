//! The node's lease: taken, kept, and until when this agent may count on it.
//!
//! Keep-alives reach the leader's memory and are no writes. Time counts from when a keep-alive was *sent*, on a clock that goes on
//! while the host sleeps, and a part of it is never used: clocks of two hosts do not run equally fast.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{AcquireOptions, Acquired, Client, Error, KeepAlive, Typed, WriteOptions};
use setpoint_types::Revision;
use setpoint_types::kinds::{Namespace, NamespaceSpec};
use setpoint_types::object::Fence;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{NAMESPACE, lease_name};
use crate::clock::Clock;
use crate::machine::BootTime;
use crate::runtime::process::run_folder::write_deadline;

/// A hold on the node's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// For every write of the agent.
    pub fence: Fence,
    /// From then on nobody may count on it, unless it is renewed.
    pub until: BootTime,
}

/// Tells up to where the agent has seen each kind.
pub type Observed = Arc<dyn Fn() -> BTreeMap<String, Revision> + Send + Sync>;

/// Keeps one lease.
pub struct Holder {
    pub client: Client,
    pub node: String,
    pub holder: String,
    pub ttl: Duration,
    pub clock: Clock,
    pub observed: Observed,
    /// Where the shims look; none where there are none.
    pub deadline: Option<PathBuf>,
}

/// What is kept back of a lease's time, as its tenth part.
const MARGIN_PARTS: u32 = 10;

/// A lease is renewed so often in its time.
const RENEWALS: u32 = 3;

/// How long it is waited for a lease that somebody else holds, each time.
const WAIT: Duration = Duration::from_secs(10);

/// Between attempts that got no answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Holder {
    /// Takes the lease and keeps it, until it is told to stop. It is not given back then: what runs goes on, and the next agent of
    /// this folder takes up the same hold.
    pub async fn run(self, told: watch::Sender<Option<Held>>, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                let Some((acquired, until)) = self.acquire().await else {
                    sleep(TRY_AGAIN).await;
                    continue;
                };
                tracing::info!(node = self.node, epoch = acquired.fence.epoch.0, "the node's lease is held");
                self.tell(&told, &acquired.fence, until);
                self.keep(&acquired, &told).await;
                tracing::warn!(node = self.node, epoch = acquired.fence.epoch.0, "the node's lease is lost");
                told.send_replace(None);
            }
        })
        .await;
    }

    fn tell(&self, told: &watch::Sender<Option<Held>>, fence: &Fence, until: BootTime) {
        // The shims first: who counts on it here has no use for it if they do not know.
        if let Some(path) = &self.deadline
            && let Err(error) = write_deadline(path, until)
        {
            tracing::error!(%error, "it cannot be written down until when the lease is good: exclusive replicas will stop");
        }
        told.send_replace(Some(Held { fence: fence.clone(), until }));
    }

    /// The end of a time that began when the request was sent.
    fn until(&self, sent: BootTime, ttl: Duration) -> BootTime {
        sent.after(ttl - ttl / MARGIN_PARTS)
    }

    async fn acquire(&self) -> Option<(Acquired, BootTime)> {
        let options = AcquireOptions {
            namespace: NAMESPACE.to_owned(),
            lease: lease_name(&self.node),
            holder: self.holder.clone(),
            ttl: Some(self.ttl),
            wait: WAIT,
            ..AcquireOptions::default()
        };
        // As long as it may wait, from before it was sent: a late answer is of less use, and never of more.
        let sent = self.clock.now().boot;
        match self.client.leases().acquire(&options).await {
            Ok(acquired) if acquired.acquired => {
                // The server may have given it at the end of the wait, but counts from then.
                let until = self.until(sent, acquired.ttl);
                Some((acquired, until))
            }
            Ok(acquired) => {
                tracing::warn!(
                    node = self.node,
                    holder = acquired.holder,
                    "another agent holds the lease of this node: waiting. Two hosts must not have one name"
                );
                None
            }
            Err(error) if error.is_not_found() => {
                self.make_namespace().await;
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the node's lease cannot be taken");
                None
            }
        }
    }

    async fn make_namespace(&self) {
        let namespace = Typed::<Namespace>::new(NAMESPACE, NamespaceSpec::default());
        let made = self.client.api::<Namespace>().create(&namespace, &WriteOptions::default()).await;
        if let Err(error) = made
            && !error.is_already_exists()
        {
            tracing::warn!(%error, "the namespace of the leases cannot be made");
        }
    }

    /// Until the server says that it is lost. While it says nothing, it is asked again: nobody else can have it meanwhile without
    /// the server saying so.
    async fn keep(&self, acquired: &Acquired, told: &watch::Sender<Option<Held>>) {
        let mut stream: Option<KeepAlive> = None;
        loop {
            sleep(self.ttl / RENEWALS).await;
            loop {
                let sent = self.clock.now().boot;
                match self.renew(&mut stream, &acquired.fence).await {
                    Ok(Some(ttl)) => {
                        self.tell(told, &acquired.fence, self.until(sent, ttl));
                        break;
                    }
                    Ok(None) => return,
                    Err(error) => {
                        tracing::warn!(node = self.node, %error, "the node's lease cannot be renewed");
                        stream = None;
                        sleep(TRY_AGAIN.min(self.ttl / RENEWALS)).await;
                    }
                }
            }
        }
    }

    /// How long it lasts from now; none if it is lost.
    async fn renew(&self, stream: &mut Option<KeepAlive>, fence: &Fence) -> Result<Option<Duration>, Error> {
        let patience = self.ttl / RENEWALS;
        let stream = match stream {
            Some(stream) => stream,
            none => {
                let opened = self.client.with_timeout(patience).leases().keep_alive().await?;
                none.insert(opened.with_patience(patience))
            }
        };
        let kept = stream.keep(fence, &self.holder, &(self.observed)()).await?;
        Ok((kept.held && kept.epoch == fence.epoch).then_some(kept.ttl))
    }
}
