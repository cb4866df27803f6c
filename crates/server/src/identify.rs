//! Who sends a request, found out before anything of it is read: from its token or its connection's certificate.
//!
//! Every request that goes on has a `Principal` among its extensions; where access control is off it is anonymous, and
//! nothing is looked at. One whose proof is no good goes no further, and is written down. Health and reflection are for
//! everybody, with whatever proof.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::future::{Either, Ready, ready};
use http::{Request, Response};
use setpoint_access::{
    AuditEntry, AuditLog, Authenticator, Principal, Proof, TokenFile, TokenFileError, TokenTable,
};
use setpoint_api::setpoint::v1::Reason;
use setpoint_apiserver::objects::Refusal;
use setpoint_consensus::Clock;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tower::{Layer, Service};

/// Between two looks at the token file.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Asked by whoever checks on the node, or wants to know what it speaks.
const FOR_EVERYBODY: [&str; 2] = ["/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/"];

/// Finds out who asks. Clones share it.
#[derive(Clone)]
pub struct IdentifyLayer(Option<Arc<Identities>>);

struct Identities {
    authenticator: Arc<Authenticator>,
    audit: Option<AuditLog>,
    clock: Arc<dyn Clock>,
}

impl IdentifyLayer {
    /// Where nobody is asked.
    pub fn off() -> Self {
        Self(None)
    }

    pub fn new(authenticator: Arc<Authenticator>, audit: Option<AuditLog>, clock: Arc<dyn Clock>) -> Self {
        Self(Some(Arc::new(Identities { authenticator, audit, clock })))
    }
}

impl Identities {
    fn identify(&self, request: &Request<Body>) -> Result<Proof, Status> {
        let path = request.uri().path();
        if FOR_EVERYBODY.iter().any(|service| path.starts_with(service)) {
            return Ok(Proof::none());
        }
        let tls = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>();
        let certificates = tls.and_then(TlsConnectInfo::peer_certs);
        let leaf = certificates.as_ref().and_then(|chain| chain.first()).map(|leaf| leaf.as_ref());
        let now = self.clock.now();
        self.authenticator.identify(leaf, request.headers(), now).map_err(|refusal| {
            if let Some(audit) = &self.audit {
                let tcp = request.extensions().get::<TcpConnectInfo>();
                let source = tcp.or(tls.map(TlsConnectInfo::get_ref)).and_then(TcpConnectInfo::remote_addr);
                let entry = AuditEntry::unidentified(now, path, refusal.to_string());
                // One that finds no place is counted.
                audit.record_now(AuditEntry { source, ..entry });
            }
            let text = format!("{refusal}; ask for another one, or send none to be anonymous");
            Refusal::new(Reason::Unauthenticated, text).into()
        })
    }
}

impl<S> Layer<S> for IdentifyLayer {
    type Service = Identify<S>;

    fn layer(&self, inner: S) -> Identify<S> {
        Identify { inner, identities: self.0.clone() }
    }
}

#[derive(Clone)]
pub struct Identify<S> {
    inner: S,
    identities: Option<Arc<Identities>>,
}

impl<S> Service<Request<Body>> for Identify<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(identities) = &self.identities else {
            request.extensions_mut().insert(Principal::anonymous());
            return Either::Left(self.inner.call(request));
        };
        match identities.identify(&request) {
            Ok(proof) => {
                request.extensions_mut().insert(proof.principal.clone());
                // For what lasts: it may be good no longer than a stream does.
                request.extensions_mut().insert(proof);
                Either::Left(self.inner.call(request))
            }
            Err(status) => Either::Right(ready(Ok(status.into_http()))),
        }
    }
}

/// The token file, read again whenever it has changed.
pub struct TokenWatch {
    path: PathBuf,
    seen: Option<Seen>,
    authenticator: Arc<Authenticator>,
}

/// What a change of the file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    modified: SystemTime,
    bytes: u64,
    inode: u64,
}

impl Seen {
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(path).ok()?;
        Some(Self { modified: file.modified().ok()?, bytes: file.len(), inode: file.ino() })
    }
}

impl TokenWatch {
    /// Reads the file, which has to be there and in order.
    pub fn open(path: &Path) -> Result<(Arc<Authenticator>, Self), TokenFileError> {
        let seen = Seen::of(path);
        let authenticator = Arc::new(Authenticator::new(TokenFile::new(path).table()?));
        Ok((authenticator.clone(), Self { path: path.to_owned(), seen, authenticator }))
    }

    pub async fn run(mut self, stop: CancellationToken) {
        let follow = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                self = match tokio::task::spawn_blocking(move || self.looked()).await {
                    Ok(looked) => looked,
                    Err(_) => return,
                };
            }
        };
        stop.run_until_cancelled(follow).await;
    }

    /// A file that cannot be used changes nothing: the tokens before it are valid until it can. It is said once for each
    /// change.
    fn looked(mut self) -> Self {
        let seen = Seen::of(&self.path);
        if seen == self.seen {
            return self;
        }
        self.seen = seen;
        match TokenFile::new(&self.path).table() {
            Ok(table) => {
                tracing::info!(path = %self.path.display(), tokens = table.len(), "the token file was read again");
                self.authenticator.replace_tokens(table);
            }
            Err(error) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                tracing::error!(%error, cause, "the tokens stay as they were");
            }
        }
        self
    }
}

/// Without a token file, certificates are the only proof.
pub fn certificates_only() -> Arc<Authenticator> {
    Arc::new(Authenticator::new(TokenTable::default()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use setpoint_access::{Minted, TOKEN_ENTROPY_BYTES};
    use setpoint_types::Timestamp;
    use tower::ServiceExt;

    use super::*;

    struct At(u64);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp(self.0)
        }
    }

    fn token(entropy: u8, name: &str) -> Minted {
        Minted::new(&[entropy; TOKEN_ENTROPY_BYTES], name, &[], Timestamp(1_000_000)).expect("a name")
    }

    /// Who the services behind the layer take the sender for, or why they do not see the request.
    async fn asked(layer: &IdentifyLayer, path: &str, header: Option<&str>) -> Result<String, Status> {
        let echo = tower::service_fn(|request: Request<Body>| async move {
            let who = request.extensions().get::<Principal>().map(ToString::to_string);
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(who.unwrap_or_default());
            Ok::<_, Infallible>(response)
        });
        let mut request = Request::builder().uri(path);
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let request = request.body(Body::empty()).expect("a request");
        let answer = layer.layer(echo).oneshot(request).await.expect("it cannot fail");
        match Status::from_header_map(answer.headers()) {
            Some(status) => Err(status),
            None => Ok(answer.extensions().get::<String>().cloned().unwrap_or_default()),
        }
    }

    #[tokio::test]
    async fn whoever_shows_a_token_is_its_owner_and_a_bad_one_goes_no_further() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens");
        let (jane, joe) = (token(1, "jane"), token(2, "joe"));
        TokenFile::new(&path).add(&jane.record).expect("written");
        let (authenticator, watch) = TokenWatch::open(&path).expect("read");
        let layer = |now| IdentifyLayer::new(authenticator.clone(), None, Arc::new(At(now)));
        let bearer = |token: &Minted| format!("Bearer {}", token.text());
        const PUT: &str = "/etcdserverpb.KV/Put";

        assert_eq!(asked(&layer(0), PUT, Some(&bearer(&jane))).await.expect("valid"), "user:jane");
        assert_eq!(asked(&layer(0), PUT, None).await.expect("nothing shown"), "anonymous");
        for (now, header) in [(0, bearer(&joe)), (1_000_000, bearer(&jane)), (0, "Basic x".to_owned())] {
            let refused = asked(&layer(now), PUT, Some(&header)).await.expect_err("no proof");
            assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
            for open in ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/X"] {
                let answered = asked(&layer(now), open, Some(&header)).await;
                assert_eq!(answered.expect("for everybody"), "anonymous");
            }
        }
        let off = asked(&IdentifyLayer::off(), PUT, Some("Basic x")).await;
        assert_eq!(off.expect("nobody is asked"), "anonymous");

        TokenFile::new(&path).add(&joe.record).expect("written");
        TokenFile::new(&path).remove(jane.record.id).expect("removed");
        let watch = watch.looked();
        assert_eq!(asked(&layer(0), PUT, Some(&bearer(&joe))).await.expect("valid by now"), "user:joe");
        asked(&layer(0), PUT, Some(&bearer(&jane))).await.expect_err("revoked");

        std::fs::write(&path, "not a record\n").expect("written");
        let _ = watch.looked();
        assert_eq!(asked(&layer(0), PUT, Some(&bearer(&joe))).await.expect("as before"), "user:joe");
    }
}
