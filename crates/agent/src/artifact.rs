//! Artifacts: files that have to be there, and to be the right ones, before a replica is started.
//!
//! What was fetched is kept by its digest and used by all replicas that want it, up to a size; the oldest goes first. A file is
//! only ever seen under its name when its digest was checked.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{StatusCode, Uri, header};
use http_body_util::BodyExt;
use setpoint_types::kinds::Artifact;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::http_get::{GetError, Getter};

/// How many places a source may send us to.
const REDIRECTS_MAX: u32 = 5;

/// Why a replica's files are not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{path}: the artifact cannot be read or stored")]
    Files {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("{url}: the artifact cannot be fetched")]
    Get {
        url: String,
        #[source]
        source: GetError,
    },
    #[error("{url}: the server answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url}: the answer broke off")]
    Broken {
        url: String,
        #[source]
        source: hyper::Error,
    },
    #[error(
        "{origin} has the SHA-256 {found}, not {wanted}: correct the digest in the template, or the file"
    )]
    Digest { origin: String, found: String, wanted: String },
    #[error("{origin} is larger than {max} bytes: raise --artifact-bytes-max, or make it smaller")]
    TooLarge { origin: String, max: u64 },
    #[error("{origin} took longer than {limit:?}")]
    TooSlow { origin: String, limit: Duration },
}

impl FetchError {
    /// The whole chain, for a status.
    pub fn sentence(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        text
    }
}

/// Fetches artifacts.
#[derive(Clone)]
pub struct Fetcher {
    /// What was fetched, by digest.
    pub cache: PathBuf,
    /// All of the cache, at most.
    pub cache_bytes_max: u64,
    /// One file, at most.
    pub bytes_max: u64,
    /// One file may take so long.
    pub limit: Duration,
    pub getter: Getter,
}

impl Fetcher {
    /// Puts all artifacts of a replica into its folder. What is there already is not fetched again.
    pub async fn fetch(&self, artifacts: &[Artifact], folder: &Path) -> Result<(), FetchError> {
        for artifact in artifacts {
            self.one(artifact, folder).await?;
        }
        Ok(())
    }

    async fn one(&self, artifact: &Artifact, folder: &Path) -> Result<(), FetchError> {
        let target = folder.join(&artifact.target);
        let cached = self.cache.join(&artifact.sha256);
        let failed = |path: &Path, source| FetchError::Files { path: path.display().to_string(), source };
        if digest_of(&target).is_ok_and(|digest| digest == artifact.sha256) {
            return permit(&target, artifact.executable).map_err(|source| failed(&target, source));
        }
        // A file that was damaged on disk is fetched anew.
        if !digest_of(&cached).is_ok_and(|digest| digest == artifact.sha256) {
            self.fill(artifact, &cached).await?;
        }
        place(&cached, &target, artifact.executable).map_err(|source| failed(&target, source))
    }

    /// Gets a file into the cache.
    async fn fill(&self, artifact: &Artifact, cached: &Path) -> Result<(), FetchError> {
        // Two that fetch the same do not share a file: what one has checked would be another's half.
        static FETCHES: AtomicU64 = AtomicU64::new(0);
        let aside = cached.with_extension(format!("part{}", FETCHES.fetch_add(1, Ordering::Relaxed)));
        let origin = &artifact.source;
        let io_failed = |source| FetchError::Files { path: aside.display().to_string(), source };
        fs::create_dir_all(&self.cache).map_err(io_failed)?;
        let mut file = fs::File::create(&aside).map_err(io_failed)?;
        let got = timeout(self.limit, self.get(origin, &mut file)).await;
        let got =
            got.unwrap_or_else(|_| Err(FetchError::TooSlow { origin: origin.clone(), limit: self.limit }));
        let found = match got {
            Ok(found) if found == artifact.sha256 => found,
            Ok(found) => {
                fs::remove_file(&aside).ok();
                let (origin, wanted) = (origin.clone(), artifact.sha256.clone());
                return Err(FetchError::Digest { origin, found, wanted });
            }
            Err(error) => {
                fs::remove_file(&aside).ok();
                return Err(error);
            }
        };
        self.make_room(&found);
        fs::rename(&aside, cached).map_err(io_failed)
    }

    /// Writes the source's content to a file, and tells its digest.
    async fn get(&self, origin: &str, file: &mut fs::File) -> Result<String, FetchError> {
        let mut digest = Sha256::new();
        let mut left = self.bytes_max;
        let mut take = |bytes: &[u8]| {
            let too_large = || FetchError::TooLarge { origin: origin.to_owned(), max: self.bytes_max };
            left = left.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
            digest.update(bytes);
            file.write_all(bytes).map_err(|source| FetchError::Files { path: origin.to_owned(), source })
        };
        if origin.starts_with('/') {
            let failed = |source| FetchError::Files { path: origin.to_owned(), source };
            let mut source = fs::File::open(origin).map_err(failed)?;
            let mut bytes = vec![0; 256 << 10];
            loop {
                match source.read(&mut bytes).map_err(failed)? {
                    0 => break,
                    read => take(&bytes[..read])?,
                }
                // A large file is not to hold up others.
                tokio::task::yield_now().await;
            }
        } else {
            let mut body = self.answer(origin).await?;
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|source| FetchError::Broken { url: origin.to_owned(), source })?;
                if let Some(bytes) = frame.data_ref() {
                    take(bytes)?;
                }
            }
        }
        Ok(hex::encode(digest.finalize()))
    }

    /// The body at a URL, wherever it sends us.
    async fn answer(&self, origin: &str) -> Result<hyper::body::Incoming, FetchError> {
        let mut url = origin.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let uri: Uri = url.parse().map_err(|_| FetchError::Get {
                url: url.clone(),
                source: GetError::Url(Uri::from_static("/")),
            })?;
            let answer = self.getter.get(&uri).await;
            let answer = answer.map_err(|source| FetchError::Get { url: url.clone(), source })?;
            let status = answer.status();
            let next = answer.headers().get(header::LOCATION).and_then(|it| it.to_str().ok());
            match (status.is_redirection(), next) {
                (true, Some(next)) if next.starts_with('/') => {
                    let authority = uri.authority().map_or("", |it| it.as_str());
                    url = format!("{}://{authority}{next}", uri.scheme_str().unwrap_or("http"));
                }
                (true, Some(next)) => url = next.to_owned(),
                _ if status == StatusCode::OK => return Ok(answer.into_body()),
                _ => return Err(FetchError::Status { url, status }),
            }
        }
        Err(FetchError::Status { url, status: StatusCode::LOOP_DETECTED })
    }

    /// Removes the oldest files of the cache until it is small enough. `but` stays.
    fn make_room(&self, but: &str) {
        let mut files: Vec<(std::time::SystemTime, u64, PathBuf)> = fs::read_dir(&self.cache)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut size: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, bytes, path) in files {
            let is_kept = path.file_stem().is_some_and(|stem| stem == but);
            if size > self.cache_bytes_max && !is_kept && fs::remove_file(&path).is_ok() {
                size -= bytes;
            }
        }
    }
}

fn digest_of(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    Ok(hex::encode(digest.finalize()))
}

/// A copy, so that a replica which changes its file spoils nobody else's.
fn place(from: &Path, to: &Path, executable: bool) -> io::Result<()> {
    let aside = to.with_extension("part");
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, &aside)?;
    permit(&aside, executable)?;
    fs::rename(&aside, to)
}

fn permit(path: &Path, executable: bool) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server;

    fn fetcher(folder: &Path) -> Fetcher {
        Fetcher {
            cache: folder.join("cache"),
            cache_bytes_max: 100,
            bytes_max: 60,
            limit: Duration::from_secs(10),
            getter: Getter::default(),
        }
    }

    fn artifact(source: &Path, content: &str) -> Artifact {
        let sha256 = hex::encode(Sha256::digest(content));
        Artifact { source: source.display().to_string(), sha256, target: "bin/tool".into(), executable: true }
    }

    #[tokio::test]
    async fn a_file_comes_by_its_digest_and_another_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("source");
        fs::write(&source, "right").expect("written");
        let (fetcher, work) = (fetcher(folder.path()), folder.path().join("work"));
        let wanted = artifact(&source, "right");
        fetcher.fetch(std::slice::from_ref(&wanted), &work).await.expect("fetched");
        let mode = fs::metadata(work.join("bin/tool")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        // From the cache, although the source is another one now; a spoilt file is put right.
        fs::write(&source, "wrong").expect("written");
        fs::write(work.join("bin/tool"), "spoilt").expect("written");
        fetcher.fetch(&[wanted], &work).await.expect("fetched again");
        assert_eq!(fs::read_to_string(work.join("bin/tool")).expect("there"), "right");
        let error = fetcher.fetch(&[artifact(&source, "third")], &work).await.expect_err("another content");
        assert!(error.to_string().contains("correct the digest"), "{error}");
        assert_eq!(fs::read_to_string(work.join("bin/tool")).expect("there"), "right");
    }

    #[tokio::test]
    async fn what_is_too_large_or_not_there_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("source");
        let fetcher = fetcher(folder.path());
        let error = fetcher.fetch(&[artifact(&source, "x")], folder.path()).await.expect_err("not there");
        assert!(error.sentence().contains("No such file"), "{}", error.sentence());
        fs::write(&source, "x".repeat(61)).expect("written");
        let error = fetcher.fetch(&[artifact(&source, "x")], folder.path()).await.expect_err("too large");
        assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let (fetcher, source) = (fetcher(folder.path()), folder.path().join("source"));
        for letter in ["a", "b", "c", "d"] {
            let content = letter.repeat(40);
            fs::write(&source, &content).expect("written");
            fetcher.fetch(&[artifact(&source, &content)], folder.path()).await.expect("fetched");
        }
        let sizes = fs::read_dir(folder.path().join("cache")).expect("a listing").flatten();
        let size: u64 = sizes.map(|entry| entry.metadata().map_or(0, |it| it.len())).sum();
        assert!(size <= 120, "{size} bytes are kept");
    }

    /// An artifact at a URL.
    fn at(url: String, content: &str) -> Artifact {
        Artifact { source: url, ..artifact(Path::new(""), content) }
    }

    #[tokio::test]
    async fn a_url_is_followed_to_its_end_and_what_goes_wrong_is_told() {
        let other = test_server::serve(None, |_| test_server::ok("right")).await;
        let server = test_server::serve(None, move |path| match path {
            "/tool" => test_server::ok("right"),
            "/here" => test_server::status("302 Found\r\nLocation: /tool"),
            "/there" => test_server::status(&format!("307 Temporary Redirect\r\nLocation: http://{other}/")),
            "/round" => test_server::status("302 Found\r\nLocation: /round"),
            "/half" => Some("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nri".to_owned()),
            "/large" => test_server::ok(&"x".repeat(61)),
            "/mute" => None,
            _ => test_server::status("404 Not Found"),
        });
        let server = server.await;
        let folder = tempfile::tempdir().expect("a folder");
        let mut fetcher = fetcher(folder.path());
        for path in ["tool", "here", "there"] {
            let wanted = at(format!("http://{server}/{path}"), "right");
            let work = folder.path().join(path);
            fs::remove_dir_all(folder.path().join("cache")).ok();
            fetcher.fetch(&[wanted], &work).await.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(fs::read_to_string(work.join("bin/tool")).expect("there"), "right", "{path}");
        }
        fs::remove_dir_all(folder.path().join("cache")).expect("removed");
        fetcher.limit = Duration::from_millis(300);
        for (path, says) in [
            ("nothing", "answered 404"),
            ("round", "508"),
            ("half", "broke off"),
            ("large", "--artifact-bytes-max"),
            ("mute", "took longer"),
        ] {
            let wanted = at(format!("http://{server}/{path}"), "right");
            let error = fetcher.fetch(&[wanted], &folder.path().join(path)).await.expect_err(path);
            assert!(error.sentence().contains(says), "{path}: {}", error.sentence());
        }
        let wrong = at(format!("http://{server}/tool"), "left");
        let error = fetcher.fetch(&[wrong], &folder.path().join("wrong")).await.expect_err("another content");
        assert!(matches!(error, FetchError::Digest { .. }), "{error}");
        let left: Vec<_> = fs::read_dir(folder.path().join("cache")).expect("a listing").flatten().collect();
        assert!(left.is_empty(), "nothing of what failed is kept: {left:?}");
    }

    #[tokio::test]
    async fn over_https_only_who_is_vouched_for_is_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let key =
            rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).expect("they fit");
        let tls = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let server = test_server::serve(Some(tls), |_| test_server::ok("right")).await;
        let wanted = [at(format!("https://localhost:{}/tool", server.port()), "right")];
        let authorities = folder.path().join("authorities");
        let mut fetcher = fetcher(folder.path());
        let error = fetcher.fetch(&wanted, folder.path()).await.expect_err("nobody is trusted");
        assert!(error.sentence().contains("--artifact-authorities"), "{}", error.sentence());
        let stranger =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        for (pem, is_trusted) in [(stranger.cert.pem(), false), (made.cert.pem(), true)] {
            fs::write(&authorities, pem).expect("written");
            fetcher.getter = Getter::trusting(&authorities);
            let fetched = fetcher.fetch(&wanted, folder.path()).await;
            assert_eq!(fetched.is_ok(), is_trusted, "{:?}", fetched.map_err(|error| error.sentence()));
        }
    }
}
