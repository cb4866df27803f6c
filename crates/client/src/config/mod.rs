//! The config file: clusters, users and contexts, as users of kubectl know them.
//!
//! - [`file`]: the file as it is written
//! - [`context`]: what one context of it means
//!
//! It is `~/.setpoint/config`, or what `SETPOINT_CONFIG` names, in YAML ([ADR 10](../../../docs/adr/0010-client.md)):
//!
//! ```yaml
//! current-context: prod
//! clusters:
//!   - name: prod
//!     endpoints: [https://a.example:7400, https://b.example:7400]
//!     certificate-authority: ca.pem        # or certificate-authority-data
//! users:
//!   - name: jane
//!     token-file: jane.token               # or token, or client-certificate and client-key
//! contexts:
//!   - name: prod
//!     cluster: prod
//!     user: jane
//!     namespace: web
//! ```
//!
//! Files it names are relative to its own folder. Unknown keys are refused: a misspelt one would otherwise be a silent default.

mod context;
mod file;

use std::path::{Path, PathBuf};

pub use file::{ClusterEntry, ConfigFile, ContextEntry, UserEntry};

use crate::endpoint::EndpointError;
use crate::settings::Settings;

/// Names the config file, in place of `~/.setpoint/config`.
pub const CONFIG_VARIABLE: &str = "SETPOINT_CONFIG";

/// A config that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("there is no home folder to look for .setpoint/config in; set {CONFIG_VARIABLE}")]
    NoHome,
    #[error("{path} cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} cannot be written")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not a config file: {problem}")]
    Parse { path: PathBuf, problem: String },
    #[error("{path} names no current-context; set one, or choose one of: {choices}")]
    NoContext { path: PathBuf, choices: String },
    #[error("{path} has no {what} {name:?}; it has: {choices}")]
    Unknown { path: PathBuf, what: &'static str, name: String, choices: String },
    #[error("{path}: the {what} {name:?} {problem}")]
    Contradiction { path: PathBuf, what: &'static str, name: String, problem: &'static str },
    #[error("{path}: cluster {cluster:?}")]
    Endpoint {
        path: PathBuf,
        cluster: String,
        #[source]
        source: EndpointError,
    },
    #[error("{path}: {key} is not base64")]
    Base64 { path: PathBuf, key: &'static str },
}

/// Where the config file is, by the environment.
pub fn path() -> Result<PathBuf, ConfigError> {
    path_in(std::env::var_os(CONFIG_VARIABLE), std::env::var_os("HOME"))
}

fn path_in(
    variable: Option<std::ffi::OsString>,
    home: Option<std::ffi::OsString>,
) -> Result<PathBuf, ConfigError> {
    if let Some(path) = variable.filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let home = home.filter(|home| !home.is_empty()).ok_or(ConfigError::NoHome)?;
    Ok(Path::new(&home).join(".setpoint").join("config"))
}

/// The settings of a context, or of the current one.
pub fn load(context: Option<&str>) -> Result<Settings, ConfigError> {
    load_from(&path()?, context)
}

/// The same out of a certain file.
pub fn load_from(path: &Path, context: Option<&str>) -> Result<Settings, ConfigError> {
    ConfigFile::read(path)?.settings(path, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_the_home_folder() {
        let found = |variable: Option<&str>, home: Option<&str>| {
            path_in(variable.map(Into::into), home.map(Into::into)).map(|path| path.display().to_string())
        };
        assert_eq!(found(Some("/a"), Some("/h")).unwrap(), "/a");
        assert_eq!(found(Some(""), Some("/h")).unwrap(), "/h/.setpoint/config");
        assert!(matches!(found(None, None), Err(ConfigError::NoHome)));
    }
}
