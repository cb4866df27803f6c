//! Who asks, from what a connection and a request show.
//!
//! A token counts before a certificate: it was put into this very request, while a certificate may be that of a host or a
//! proxy that several share. A token that is not valid is refused and never passed over in favour of a certificate, or a
//! mistake would silently act as somebody else. Who shows nothing is anonymous; what the anonymous may do, roles say.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;
use quick_cache::sync::Cache;
use setpoint_types::Timestamp;

use crate::bearer::{self, BearerProblem};
use crate::certificate::{CertificateProblem, Identity};
use crate::proof::{By, Proof};
use crate::token::{TokenRefusal, TokenTable};

/// Certificates that are in use at a time and need not be read again. One takes about a kilobyte.
const CERTIFICATES_CACHED: usize = 4096;
/// Longer than any certificate in use; longer ones are read each time, so that the cache stays small.
const CACHED_BYTES_MAX: usize = 8 << 10;

/// Why nobody is identified. What a client is told; nothing in it helps to guess.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Header(#[from] BearerProblem),
    #[error(transparent)]
    Token(#[from] TokenRefusal),
    #[error("the client certificate is refused: {0}")]
    Certificate(CertificateProblem),
}

/// Shared by all requests. Reading takes no lock that a writer holds for longer than a pointer's exchange.
pub struct Authenticator {
    tokens: RwLock<Arc<TokenTable>>,
    certificates: Cache<Box<[u8]>, Identity>,
}

impl Authenticator {
    pub fn new(tokens: TokenTable) -> Self {
        Self { tokens: RwLock::new(Arc::new(tokens)), certificates: Cache::new(CERTIFICATES_CACHED) }
    }

    /// From now on these tokens are valid and no others.
    pub fn replace_tokens(&self, tokens: TokenTable) {
        *self.tokens.write() = Arc::new(tokens);
    }

    /// Who asks. `leaf` is the client's own certificate in DER, of a finished handshake.
    pub fn identify(
        &self,
        leaf: Option<&[u8]>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Proof, Refusal> {
        if let Some(token) = bearer::token(headers)? {
            let tokens = self.tokens.read().clone();
            let (id, principal) = tokens.identify(token, now)?;
            return Ok(Proof { principal, by: By::Token(id) });
        }
        match leaf {
            Some(leaf) => self.certificate(leaf, now).map_err(Refusal::Certificate),
            None => Ok(Proof::none()),
        }
    }

    /// Whether a proof is still good: its token was not revoked, and neither has expired.
    pub fn check(&self, proof: &Proof, now: Timestamp) -> Result<(), Refusal> {
        match proof.by {
            By::Nothing => Ok(()),
            By::Certificate { until } if now <= until => Ok(()),
            By::Certificate { .. } => Err(Refusal::Certificate(CertificateProblem::Expired)),
            By::Token(id) => Ok(self.tokens.read().check(id, &proof.principal, now)?),
        }
    }

    fn certificate(&self, leaf: &[u8], now: Timestamp) -> Result<Proof, CertificateProblem> {
        let identity = match self.certificates.get(leaf) {
            Some(identity) => identity,
            None => {
                let identity = Identity::read(leaf)?;
                if leaf.len() <= CACHED_BYTES_MAX {
                    self.certificates.insert(leaf.into(), identity.clone());
                }
                identity
            }
        };
        identity.check(now)?;
        Ok(Proof { by: By::Certificate { until: identity.not_after }, principal: identity.principal })
    }
}
