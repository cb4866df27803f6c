//! Access control of a node, put together from its settings: who is asked, who decides, what is written down.

use std::sync::Arc;

use setpoint_access::{
    AuditFailure, AuditLog, AuditWriter, Authorizer, Policy, TokenFileError, builtin_roles,
};
use setpoint_apiserver::access::Gate;
use setpoint_consensus::SystemClock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::ServerConfig;
use crate::identify::{IdentifyLayer, TokenWatch, certificates_only};

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error(transparent)]
    Audit(#[from] AuditFailure),
}

pub struct Access {
    pub gate: Gate,
    pub authorizer: Arc<Authorizer>,
    pub identify: IdentifyLayer,
    pub audit: Option<AuditLog>,
    tokens: Option<TokenWatch>,
    audit_writer: Option<AuditWriter>,
}

impl Access {
    /// Reads and opens the files. Until the stored roles are read, only administrators may do anything.
    pub fn open(config: &ServerConfig) -> Result<Self, AccessError> {
        let (audit, audit_writer) = match &config.access.audit {
            Some(options) => {
                let (log, writer) = AuditLog::open(options)?;
                (Some(log), Some(writer))
            }
            None => (None, None),
        };
        let clock = Arc::new(SystemClock);
        if !config.access.roles {
            let authorizer = Arc::new(Authorizer::off());
            let gate = Gate::new(authorizer.clone(), None, audit.clone(), clock);
            let identify = IdentifyLayer::off();
            return Ok(Self { gate, authorizer, identify, tokens: None, audit, audit_writer });
        }
        let (authenticator, tokens) = match &config.access.token_file {
            Some(path) => {
                let (authenticator, watch) = TokenWatch::open(path)?;
                (authenticator, Some(watch))
            }
            None => (certificates_only(), None),
        };
        warn_of_doors(config);
        let authorizer = Arc::new(Authorizer::on(Policy::compile(&builtin_roles(), &[])));
        let proofs = Some(authenticator.clone());
        let gate = Gate::new(authorizer.clone(), proofs, audit.clone(), clock.clone());
        let identify = IdentifyLayer::new(authenticator, audit.clone(), clock);
        Ok(Self { gate, authorizer, identify, tokens, audit, audit_writer })
    }

    /// Starts looking at the token file.
    pub fn start(&mut self, tasks: &TaskTracker, stop: CancellationToken) {
        if let Some(tokens) = self.tokens.take() {
            tasks.spawn(tokens.run(stop));
        }
    }

    /// Writes what is left of the audit log.
    pub async fn close(self) {
        if let Some(writer) = self.audit_writer {
            writer.close().await;
        }
    }
}

/// What stays open beside the door that is guarded.
fn warn_of_doors(config: &ServerConfig) {
    if config.client_tls.is_none() {
        tracing::warn!(
            "access is controlled without TLS: whoever sees the traffic sees the tokens (--cert-file)"
        );
    }
    if config.peer_tls.is_none() {
        tracing::warn!(
            "access is controlled, but whoever reaches --listen-peer may do everything (--peer-cert-file)"
        );
    }
}
