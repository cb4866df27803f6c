//! `setpointd init-pki`: makes authorities and certificates for trying a cluster with TLS, and writes them into a folder.
//!
//! A file that is there is never written to: run again, the command adds what is missing, so that another client is one
//! more `--client`. A key is readable by its owner only.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use setpoint_access::pki::{Authority, Pair, PkiError, Usage};
use setpoint_access::{ADMINS, NameProblem, Principal};
use setpoint_types::Timestamp;

use crate::options::InitPkiArgs;

#[derive(Debug, thiserror::Error)]
pub enum InitPkiError {
    #[error("--client {client}: {problem}")]
    Client { client: String, problem: String },
    #[error("--client {client}")]
    Name {
        client: String,
        #[source]
        source: NameProblem,
    },
    #[error("{path} cannot be read or written")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{present} is there but {missing} is not; a pair is made whole: remove the one that is left, or restore the other"
    )]
    HalfAPair { present: PathBuf, missing: PathBuf },
    #[error("{}", path.display())]
    Pki {
        path: PathBuf,
        #[source]
        source: PkiError,
    },
}

/// A client to make a certificate for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    name: String,
    group: Option<String>,
}

impl Client {
    /// `NAME` or `NAME:GROUP`; a group may itself have colons.
    fn parse(text: &str) -> Result<Self, InitPkiError> {
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '@');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
            let problem = "the name becomes part of a file's: letters, digits, - _ . @, no dot in front";
            return Err(InitPkiError::Client { client: text.to_owned(), problem: problem.to_owned() });
        }
        Principal::new(name, group)
            .map_err(|source| InitPkiError::Name { client: text.to_owned(), source })?;
        Ok(Self { name: name.to_owned(), group: group.map(str::to_owned) })
    }
}

pub fn run(args: &InitPkiArgs, now: Timestamp) -> Result<String, InitPkiError> {
    let clients: Vec<Client> = if args.client.is_empty() {
        vec![Client { name: "admin".to_owned(), group: Some(ADMINS.to_owned()) }]
    } else {
        args.client.iter().map(|client| Client::parse(client)).collect::<Result<_, _>>()?
    };
    let mut folder = Folder::open(&args.dir, now)?;
    let hosts = &args.hosts[..];
    let clients_authority = folder.authority("ca", "Setpoint clients and servers")?;
    let peers_authority = folder.authority("peer-ca", "Setpoint nodes")?;
    folder.issue(&clients_authority, "server", "setpointd", Usage::Server { hosts })?;
    folder.issue(&peers_authority, "peer", "setpointd", Usage::Peer { hosts })?;
    for client in &clients {
        let usage = Usage::Client { group: client.group.as_deref() };
        folder.issue(&clients_authority, &format!("client-{}", client.name), &client.name, usage)?;
    }
    Ok(folder.report(&clients))
}

/// Where the files are, and what was done with each.
struct Folder {
    path: PathBuf,
    now: Timestamp,
    report: String,
}

impl Folder {
    fn open(path: &Path, now: Timestamp) -> Result<Self, InitPkiError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| InitPkiError::File { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), now, report: String::new() })
    }

    fn files(&self, stem: &str) -> (PathBuf, PathBuf) {
        (self.path.join(format!("{stem}.pem")), self.path.join(format!("{stem}.key.pem")))
    }

    /// The pair that is there, if there is one.
    fn load(&mut self, stem: &str) -> Result<Option<Pair>, InitPkiError> {
        let (certificate, key) = self.files(stem);
        let pair = match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => Pair { certificate, key },
            (None, None) => return Ok(None),
            (Some(_), None) => {
                return Err(InitPkiError::HalfAPair { present: certificate, missing: key });
            }
            (None, Some(_)) => {
                return Err(InitPkiError::HalfAPair { present: key, missing: certificate });
            }
        };
        let _ = writeln!(self.report, "kept  {}", certificate.display());
        Ok(Some(pair))
    }

    fn save(&mut self, stem: &str, pair: &Pair) -> Result<(), InitPkiError> {
        let (certificate, key) = self.files(stem);
        write_new(&key, &pair.key, 0o600)?;
        write_new(&certificate, &pair.certificate, 0o644)?;
        let _ = writeln!(self.report, "made  {}", certificate.display());
        Ok(())
    }

    fn authority(&mut self, stem: &str, name: &str) -> Result<Authority, InitPkiError> {
        let failed = |path| move |source| InitPkiError::Pki { path, source };
        let path = self.files(stem).0;
        if let Some(pair) = self.load(stem)? {
            return Authority::load(&pair).map_err(failed(path));
        }
        let (authority, pair) = Authority::create(name, self.now).map_err(failed(path))?;
        self.save(stem, &pair)?;
        Ok(authority)
    }

    fn issue(
        &mut self,
        authority: &Authority,
        stem: &str,
        name: &str,
        usage: Usage<'_>,
    ) -> Result<(), InitPkiError> {
        if self.load(stem)?.is_some() {
            return Ok(());
        }
        let path = self.files(stem).0;
        let pair =
            authority.issue(name, usage, self.now).map_err(|source| InitPkiError::Pki { path, source })?;
        self.save(stem, &pair)
    }

    /// What there is, and what to do with it.
    fn report(mut self, clients: &[Client]) -> String {
        let dir = self.path.display();
        let client = clients.last().map_or("admin", |client| client.name.as_str());
        let _ = write!(
            self.report,
            "
Start every node with
  --cert-file {dir}/server.pem --key-file {dir}/server.key.pem --client-ca-file {dir}/ca.pem \\
  --peer-cert-file {dir}/peer.pem --peer-key-file {dir}/peer.key.pem --peer-ca-file {dir}/peer-ca.pem
and talk to it with
  etcdctl --cacert {dir}/ca.pem --cert {dir}/client-{client}.pem --key {dir}/client-{client}.key.pem
Nodes need server.* and peer.*, a client its own pair and ca.pem. Keep ca.key.pem and peer-ca.key.pem away from both:
whoever has them can be anybody. Certificates are good for a year; to renew one, remove its two files and run this again."
        );
        self.report
    }
}

fn read(path: &Path) -> Result<Option<String>, InitPkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(InitPkiError::File { path: path.to_owned(), source }),
    }
}

/// Writes a file that must not exist, and leaves none behind that is not whole.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), InitPkiError> {
    let failed = |source| InitPkiError::File { path: path.to_owned(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|source| {
        // Ours, and useless.
        let _ = fs::remove_file(path);
        failed(source)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn args(dir: &Path, clients: &[&str]) -> InitPkiArgs {
        InitPkiArgs {
            dir: dir.to_owned(),
            hosts: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            client: clients.iter().map(|client| (*client).to_owned()).collect(),
        }
    }

    fn contents(dir: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(dir).expect("the folder").map(|entry| entry.expect("a file").path());
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        entries.map(|path| (name(&path), fs::read_to_string(&path).expect("text"))).collect()
    }

    #[test]
    fn nothing_that_is_there_is_overwritten_and_what_is_missing_is_added() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("pki");
        run(&args(&dir, &[]), NOW).expect("made");
        let before = contents(&dir);
        assert_eq!(before.len(), 10, "{:?}", before.keys());
        let said = run(&args(&dir, &["jane:deployers"]), NOW).expect("added");
        assert!(said.contains("kept") && said.contains("client-jane.pem"), "{said}");
        let after = contents(&dir);
        assert_eq!(after.len(), 12);
        assert!(before.iter().all(|(name, text)| after.get(name) == Some(text)), "a file has changed");
    }

    #[test]
    fn keys_are_for_their_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        run(&args(folder.path(), &["a", "b:g"]), NOW).expect("made");
        for name in contents(folder.path()).keys().filter(|name| name.contains(".key.")) {
            let mode = fs::metadata(folder.path().join(name)).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn half_a_pair_and_names_that_do_not_fit_are_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("pki");
        for client in ["", "../x", "a b", ".x", "a:setpoint:admin", "a:"] {
            let refused = run(&args(&dir, &["good", client]), NOW);
            assert!(refused.is_err() && !dir.exists(), "{client:?}");
        }
        run(&args(&dir, &[]), NOW).expect("made");
        fs::remove_file(dir.join("ca.key.pem")).expect("removed");
        let before = contents(&dir);
        let refused = run(&args(&dir, &["jane"]), NOW).expect_err("no authority without its key");
        assert!(matches!(refused, InitPkiError::HalfAPair { .. }), "{refused}");
        assert_eq!(contents(&dir), before);
    }
}
