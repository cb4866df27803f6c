//! What a context means: its cluster and its user put together into settings.

use std::fs;
use std::path::{Path, PathBuf};

use super::ConfigError;
use super::file::{ClusterEntry, ConfigFile, UserEntry};
use crate::endpoint::Endpoint;
use crate::settings::{Identity, Settings, Tls, Token};

impl ConfigFile {
    /// The settings of a context, or of the current one. `path` is that of the file: what it names lies beside it.
    pub fn settings(&self, path: &Path, context: Option<&str>) -> Result<Settings, ConfigError> {
        let Some(name) = context.or(self.current_context.as_deref()) else {
            let choices = list(self.contexts.iter().map(|it| &it.name));
            return Err(ConfigError::NoContext { path: path.to_owned(), choices });
        };
        let context = find(path, "context", name, &self.contexts, |it| &it.name)?;
        let cluster = find(path, "cluster", &context.cluster, &self.clusters, |it| &it.name)?;
        let user = match &context.user {
            Some(name) => Some(find(path, "user", name, &self.users, |it| &it.name)?),
            None => None,
        };
        let mut settings = Settings::new(endpoints(path, cluster)?);
        settings.tls = tls(path, cluster, user)?;
        settings.token = user.map(|user| token(path, user)).transpose()?.flatten();
        if let Some(namespace) = &context.namespace {
            settings.namespace.clone_from(namespace);
        }
        Ok(settings)
    }
}

fn find<'a, T>(
    path: &Path,
    what: &'static str,
    name: &str,
    all: &'a [T],
    name_of: impl Fn(&T) -> &String,
) -> Result<&'a T, ConfigError> {
    all.iter().find(|it| name_of(it) == name).ok_or_else(|| ConfigError::Unknown {
        path: path.to_owned(),
        what,
        name: name.to_owned(),
        choices: list(all.iter().map(name_of)),
    })
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn endpoints(path: &Path, cluster: &ClusterEntry) -> Result<Vec<Endpoint>, ConfigError> {
    let read = |text: &String| {
        text.parse().map_err(|source| ConfigError::Endpoint {
            path: path.to_owned(),
            cluster: cluster.name.clone(),
            source,
        })
    };
    cluster.endpoints.iter().map(read).collect()
}

fn tls(path: &Path, cluster: &ClusterEntry, user: Option<&UserEntry>) -> Result<Option<Tls>, ConfigError> {
    let authority = Given {
        path,
        key: "certificate-authority-data",
        file: cluster.certificate_authority.as_deref(),
        data: cluster.certificate_authority_data.as_deref(),
    };
    let Some(authority) = authority.read()? else { return Ok(None) };
    let identity = user.map(|user| identity(path, user)).transpose()?.flatten();
    Ok(Some(Tls { authority, identity, server_name: cluster.tls_server_name.clone() }))
}

fn identity(path: &Path, user: &UserEntry) -> Result<Option<Identity>, ConfigError> {
    let certificate = Given {
        path,
        key: "client-certificate-data",
        file: user.client_certificate.as_deref(),
        data: user.client_certificate_data.as_deref(),
    };
    let key = Given {
        path,
        key: "client-key-data",
        file: user.client_key.as_deref(),
        data: user.client_key_data.as_deref(),
    };
    match (certificate.read()?, key.read()?) {
        (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
        (None, None) => Ok(None),
        _ => Err(ConfigError::Contradiction {
            path: path.to_owned(),
            what: "user",
            name: user.name.clone(),
            problem: "has only one of client certificate and client key; it needs both",
        }),
    }
}

fn token(path: &Path, user: &UserEntry) -> Result<Option<Token>, ConfigError> {
    match (&user.token, &user.token_file) {
        (Some(_), Some(_)) => Err(ConfigError::Contradiction {
            path: path.to_owned(),
            what: "user",
            name: user.name.clone(),
            problem: "has both token and token-file; leave one out",
        }),
        (Some(token), None) => Ok(Some(Token::new(token))),
        (None, Some(file)) => {
            let file = beside(path, file);
            let text =
                fs::read_to_string(&file).map_err(|source| ConfigError::Read { path: file, source })?;
            Ok(Some(Token::new(text.trim())))
        }
        (None, None) => Ok(None),
    }
}

/// Something that is in a file of its own or in the config itself. If it is in both, the config's own wins, as with kubectl.
struct Given<'a> {
    path: &'a Path,
    key: &'static str,
    file: Option<&'a str>,
    data: Option<&'a str>,
}

impl Given<'_> {
    fn read(&self) -> Result<Option<Vec<u8>>, ConfigError> {
        if let Some(data) = self.data {
            let wrong = || ConfigError::Base64 { path: self.path.to_owned(), key: self.key };
            return from_base64(data).ok_or_else(wrong).map(Some);
        }
        let Some(file) = self.file else { return Ok(None) };
        let file = beside(self.path, file);
        fs::read(&file).map(Some).map_err(|source| ConfigError::Read { path: file, source })
    }
}

fn beside(path: &Path, file: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(file)
}

/// Standard base64 (RFC 4648), with or without padding and line breaks. Short enough not to need a dependency.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (held, bits) = (held << 6 | u32::from(six), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    // A single character left over is a piece of nothing.
    (bits < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
current-context: prod
clusters:
  - name: prod
    endpoints: ['https://a.example', 'https://b.example:7410']
    certificate-authority-data: Q0E=
  - name: dev
    endpoints: [localhost]
users:
  - {name: jane, token-file: jane.token}
  - {name: half, client-certificate-data: Q0E=}
  - {name: twice, token: a, token-file: b}
contexts:
  - {name: prod, cluster: prod, user: jane, namespace: web}
  - {name: dev, cluster: dev}
  - {name: lost, cluster: nowhere}
  - {name: half, cluster: prod, user: half}
  - {name: twice, cluster: dev, user: twice}
";

    fn settings(context: Option<&str>) -> Result<Settings, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, FILE).unwrap();
        fs::write(folder.path().join("jane.token"), "secret\n").unwrap();
        super::super::load_from(&path, context)
    }

    #[test]
    fn a_context_is_its_cluster_its_user_and_its_namespace() {
        let prod = settings(None).unwrap();
        let endpoints: Vec<String> = prod.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["https://a.example:7400", "https://b.example:7410"]);
        assert_eq!(prod.namespace, "web");
        assert_eq!(prod.token, Some(Token::new("secret")));
        assert_eq!(prod.tls.unwrap().authority, b"CA");
        let dev = settings(Some("dev")).unwrap();
        assert!(dev.tls.is_none() && dev.token.is_none());
        assert_eq!(dev.namespace, "default");
    }

    #[test]
    fn what_is_missing_is_named_with_what_there_is() {
        for (context, says) in [
            ("nothing", "no context \"nothing\"; it has: prod, dev"),
            ("lost", "no cluster \"nowhere\"; it has: prod, dev"),
            ("half", "only one of client certificate and client key"),
            ("twice", "both token and token-file"),
        ] {
            let error = settings(Some(context)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn base64_is_read_as_others_write_it() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v\nYmE=", b"fooba"),
            ("+/+/", b"\xfb\xff\xbf"),
        ] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(from_base64("a"), None);
        assert_eq!(from_base64("a?"), None);
    }
}
