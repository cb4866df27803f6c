//! Everything a client can be told, as types that cannot be wrong.

use std::fmt;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::breaker::BreakerSettings;
use crate::endpoint::Endpoint;

/// How a client reaches a cluster, and how patient it is.
///
/// Only what a person chose: nothing here is changed by a client that works with it. Settings that cannot work are refused when a
/// client is made of them ([`SettingsError`]), before anything is sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Nodes of one cluster; any of them answers any request.
    pub endpoints: Vec<Endpoint>,
    pub tls: Option<Tls>,
    /// Sent with every request, as `authorization: Bearer`.
    pub token: Option<Token>,
    /// Of objects that name none, and of `Api`s that are given none.
    pub namespace: String,
    pub timeouts: Timeouts,
    pub backoff: Backoff,
    pub breaker: BreakerSettings,
    /// How often one call is tried, at most.
    pub attempts_max: u32,
    /// While nobody has ever answered this client, a call also ends once every endpoint has refused the connection outright and so many
    /// attempts were made: nobody listens there, and a person who waits should be told. Afterwards a server that is gone is one that
    /// comes back. A program that may start before its servers has `u32::MAX`, which is the default.
    pub refusals_max: u32,
    /// Of one answer. The server sends lists in pages far below it.
    pub answer_bytes_max: usize,
}

impl Settings {
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self {
            endpoints,
            tls: None,
            token: None,
            namespace: "default".to_owned(),
            timeouts: Timeouts::default(),
            backoff: Backoff::default(),
            breaker: BreakerSettings::default(),
            attempts_max: 10,
            refusals_max: u32::MAX,
            answer_bytes_max: 64 << 20,
        }
    }

    /// What makes these settings unusable.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if self.endpoints.is_empty() {
            return Err(SettingsError::NoEndpoint);
        }
        if let Some(plain) = self.endpoints.iter().find(|it| !it.is_secure())
            && self.token.is_some()
            && self.endpoints.iter().any(Endpoint::is_secure)
        {
            return Err(SettingsError::Mixed { plain: plain.clone() });
        }
        if let Some(secure) = self.endpoints.iter().find(|it| it.is_secure())
            && self.tls.is_none()
        {
            return Err(SettingsError::NoAuthority { endpoint: secure.clone() });
        }
        Ok(())
    }
}

/// Settings no client can work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("there is no server to talk to: name at least one endpoint")]
    NoEndpoint,
    #[error(
        "{plain} is not encrypted while others are: a token would be sent in the clear; use https for all"
    )]
    Mixed { plain: Endpoint },
    #[error(
        "{endpoint} is encrypted, but no authority is named that vouches for it: set the certificate authority"
    )]
    NoAuthority { endpoint: Endpoint },
    #[error("the token cannot be sent: it must be plain text without line breaks")]
    Token,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A whole call with all its attempts and the waits between them.
    pub call: Duration,
    /// One attempt. The server is told, and gives up by then.
    pub attempt: Duration,
    /// Making a connection.
    pub connect: Duration,
}

impl Default for Timeouts {
    /// An attempt outlasts an election; a call outlasts a few of them.
    fn default() -> Self {
        Self {
            call: Duration::from_secs(30),
            attempt: Duration::from_secs(10),
            connect: Duration::from_secs(3),
        }
    }
}

/// Certificates, as PEM.
#[derive(Clone)]
pub struct Tls {
    /// Who vouches for the servers.
    pub authority: Vec<u8>,
    /// What the client shows of itself.
    pub identity: Option<Identity>,
    /// The name the servers' certificates are for, if not the host of the endpoint.
    pub server_name: Option<String>,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// Keys are not printed.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// A bearer token. Not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn header(&self) -> Result<http::HeaderValue, SettingsError> {
        let mut value =
            http::HeaderValue::from_str(&format!("Bearer {}", self.0)).map_err(|_| SettingsError::Token)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoints: &[&str]) -> Settings {
        Settings::new(endpoints.iter().map(|it| it.parse().expect("an endpoint")).collect())
    }

    #[test]
    fn what_cannot_work_is_refused_with_what_to_do() {
        assert_eq!(settings(&[]).check(), Err(SettingsError::NoEndpoint));
        assert!(matches!(settings(&["https://a"]).check(), Err(SettingsError::NoAuthority { .. })));
        let mut mixed = settings(&["https://a", "http://b"]);
        mixed.token = Some(Token::new("t"));
        assert!(matches!(mixed.check(), Err(SettingsError::Mixed { .. })));
        assert_eq!(settings(&["a", "b"]).check(), Ok(()));
        assert_eq!(Token::new("a\nb").header(), Err(SettingsError::Token));
    }

    #[test]
    fn secrets_are_not_printed() {
        let identity = Some(Identity { certificate: b"cert".to_vec(), key: b"secret".to_vec() });
        let tls = Tls { authority: Vec::new(), identity, server_name: None };
        let printed = format!("{tls:?} {:?} {:?}", Token::new("secret"), Token::new("secret").header());
        assert!(!printed.contains("secret"), "{printed}");
    }
}
