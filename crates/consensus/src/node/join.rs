//! Asking to become a member, by a machine that has no id and no node yet.

use std::time::Duration;

use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::peer_client::PeerClient;
use tokio::time::timeout;
use tracing::debug;

use crate::forward::admission;
use crate::host::{Admission, Newcomer};
use crate::transport::{Connector, Lane};

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("the cluster refused the new member: {0}")]
    Refused(String),
    #[error("the cluster cannot take in a new member at the moment: {0}")]
    NotNow(String),
    #[error("none of {asked} known members could answer; the last problem was: {problem}")]
    Unavailable { asked: usize, problem: String },
}

impl JoinError {
    /// True if it may be otherwise in a moment.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::NotNow(_) | Self::Unavailable { .. } => true,
        }
    }
}

/// Asks the members at `seeds`, one after the other, until one of them can answer. Whoever asks a second time, because it
/// does not know what became of the first, is given the same place.
pub async fn join(
    connector: &dyn Connector,
    seeds: &[String],
    newcomer: &Newcomer,
    patience: Duration,
) -> Result<Admission, JoinError> {
    let mut problem = "no address was given".to_owned();
    for seed in seeds {
        let channel = match connector.connect(seed, Lane::Control) {
            Ok(channel) => channel,
            Err(error) => {
                problem = error.to_string();
                continue;
            }
        };
        let request = proto::JoinRequest { name: newcomer.name.clone(), address: newcomer.address.clone() };
        match timeout(patience, PeerClient::new(channel).join(request)).await {
            Ok(Ok(reply)) => return Ok(admission(reply.into_inner())),
            Ok(Err(status)) if status.code() == tonic::Code::PermissionDenied => {
                return Err(JoinError::Refused(status.message().to_owned()));
            }
            Ok(Err(status)) if status.code() == tonic::Code::Aborted => {
                return Err(JoinError::NotNow(status.message().to_owned()));
            }
            Ok(Err(status)) => problem = format!("{seed}: {}", status.message()),
            Err(_) => problem = format!("{seed}: no answer in time"),
        }
        debug!(problem, "a member could not answer a request to join");
    }
    Err(JoinError::Unavailable { asked: seeds.len(), problem })
}
