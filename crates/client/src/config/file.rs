//! The config file as it is written: nothing is checked here but its form.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ConfigError;

/// The whole file.
///
/// **Guarantees**: unknown names are refused, with the place; what is read and saved says the same; [`ConfigFile::save`] leaves either the
/// old file or the new one, for its owner's eyes only; what parsing says of a broken file shows no secret of it. **Does not promise** that
/// two programs that change the file at once both have their way: the later one has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfigFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_context: Option<String>,
    pub clusters: Vec<ClusterEntry>,
    pub users: Vec<UserEntry>,
    pub contexts: Vec<ContextEntry>,
}

/// How a cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClusterEntry {
    pub name: String,
    /// Nodes: `host`, `host:port` or a URL.
    pub endpoints: Vec<String>,
    /// A file with the certificate of who vouches for the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// The same, in the file itself, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// The name the nodes' certificates are for, if not their host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
}

/// Who one is.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UserEntry {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A file with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_data: Option<String>,
}

/// Secrets are not printed.
impl std::fmt::Debug for UserEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A cluster, a user and a namespace that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ContextEntry {
    pub name: String,
    pub cluster: String,
    /// None: anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// None: "default".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl ConfigFile {
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// `path` is for the error.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        // The parser's own words show the line, and with it perhaps a secret; so only the first of them are kept.
        let problem = |error: serde_saphyr::Error| {
            error.to_string().lines().next().unwrap_or("it cannot be read").to_owned()
        };
        serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Parse { path: path.to_owned(), problem: problem(error) })
    }

    /// Writes the file so that it is either the old one or the new one, readable by its owner only.
    pub fn save(&self, path: &Path) -> Result<(), ConfigError> {
        let failed = |source| ConfigError::Write { path: path.to_owned(), source };
        let text = serde_saphyr::to_string(self)
            .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let fresh = folder.join(format!(".{name}.{}", std::process::id()));
        let written = write_private(&fresh, &text).and_then(|()| fs::rename(&fresh, path));
        if written.is_err() {
            // What is left is of no use to anybody; that it stays is no further harm.
            let _ = fs::remove_file(&fresh);
        }
        written.map_err(failed)
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ConfigFile {
        let user = UserEntry { name: "jane".into(), token: Some("s3cret".into()), ..Default::default() };
        let cluster = ClusterEntry {
            name: "prod".into(),
            endpoints: vec!["a:1".into(), "b:2".into()],
            ..Default::default()
        };
        let context = ContextEntry {
            name: "prod".into(),
            cluster: "prod".into(),
            user: Some("jane".into()),
            namespace: None,
        };
        ConfigFile {
            current_context: Some("prod".into()),
            clusters: vec![cluster],
            users: vec![user],
            contexts: vec![context],
        }
    }

    #[test]
    fn a_saved_file_is_read_again_and_nobody_elses() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("config");
        example().save(&path).unwrap();
        example().save(&path).unwrap();
        assert_eq!(ConfigFile::read(&path).unwrap(), example());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        assert!(!format!("{:?}", example()).contains("s3cret"));
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let error = ConfigFile::parse(Path::new("f"), "current-contxt: a").unwrap_err().to_string();
        assert!(error.contains("current-contxt"), "{error}");
        for nonsense in ["[", "a", "clusters: 3", "contexts: [{name: a}]"] {
            assert!(ConfigFile::parse(Path::new("f"), nonsense).is_err(), "{nonsense}");
        }
    }
}
