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
//! Where there is no such file, and none is named, the cluster is the node that `make run` starts: `http://127.0.0.1:7400`.
//!
//! Files it names are relative to its own folder. Unknown keys are refused: a misspelt one would otherwise be a silent default.

mod context;
mod file;

use std::path::{Path, PathBuf};

pub use file::{ClusterEntry, ConfigFile, ContextEntry, UserEntry};

use crate::endpoint::{Endpoint, EndpointError};
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

/// The settings of a context, or of the current one; those of a node on this machine if there is no file and none is asked for.
///
/// **Guarantees** that a file or a context that somebody named is used or is an error, never passed over. Nothing is sent: whether a
/// server is there the first call tells.
pub fn load(context: Option<&str>) -> Result<Settings, ConfigError> {
    let is_named = std::env::var_os(CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
    load_or_local(&path()?, context, is_named)
}

/// A file or a context that is named has to be there.
fn load_or_local(path: &Path, context: Option<&str>, is_named: bool) -> Result<Settings, ConfigError> {
    match load_from(path, context) {
        Err(ConfigError::Read { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound && !is_named && context.is_none() =>
        {
            Ok(Settings::new(vec![Endpoint::local()]))
        }
        loaded_or_failed => loaded_or_failed,
    }
}

/// The same out of a certain file.
pub fn load_from(path: &Path, context: Option<&str>) -> Result<Settings, ConfigError> {
    ConfigFile::read(path)?.settings(path, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_the_node_on_this_machine_is_asked_unless_a_file_or_a_context_is_named() {
        let absent = Path::new("/nowhere/.setpoint/config");
        let settings = load_or_local(absent, None, false).unwrap();
        assert_eq!(settings.endpoints, ["127.0.0.1:7400".parse().unwrap()]);
        assert!(matches!(load_or_local(absent, None, true), Err(ConfigError::Read { .. })));
        assert!(matches!(load_or_local(absent, Some("prod"), false), Err(ConfigError::Read { .. })));
    }

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
