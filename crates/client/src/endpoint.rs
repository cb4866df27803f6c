//! The address of a server: a scheme, a host and a port.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// Where a server listens: `http://127.0.0.1:7400`, `https://setpoint.example.com:7400`. Always with scheme and port, never with a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the address of a server: {problem}")]
pub struct EndpointError {
    text: String,
    problem: &'static str,
}

/// Where clients connect to by default.
const PORT: u16 = 7400;

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// `host`, `host:port` or a URL of them. Without a scheme it is `http`, without a port 7400.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let refuse = |problem| Err(EndpointError { text: text.to_owned(), problem });
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let Ok(uri) = full.parse::<Uri>() else { return refuse("it cannot be read") };
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return refuse("it names no host");
        };
        if !matches!(scheme, "http" | "https") {
            return refuse("the scheme must be http or https");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return refuse("it must end after the port");
        }
        if authority.as_str().contains('@') {
            return refuse("it must not contain a user");
        }
        let host = authority.host();
        if host.is_empty() {
            return refuse("it names no host");
        }
        if authority.port().is_none() && authority.as_str() != host {
            return refuse("its port is not a number");
        }
        let port = authority.port_u16().unwrap_or(PORT);
        Ok(Self(format!("{scheme}://{host}:{port}")))
    }
}

impl Endpoint {
    /// The node that runs on this machine with the default settings.
    pub fn local() -> Self {
        Self(format!("http://127.0.0.1:{PORT}"))
    }

    pub fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// As a URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_filled_in() {
        for (text, full) in [
            ("127.0.0.1", "http://127.0.0.1:7400"),
            ("localhost:80", "http://localhost:80"),
            ("https://a.example/", "https://a.example:7400"),
            ("http://[::1]:7410", "http://[::1]:7410"),
            ("[::1]", "http://[::1]:7400"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|it| it.to_string()), Ok(full.to_owned()), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_text() {
        for text in ["", "ftp://a", "http://", "http://a/b", "http://u@a:1", "a:b", "http://a:99999", "a b"] {
            let error = text.parse::<Endpoint>().expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
