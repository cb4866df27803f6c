//! Access control of three nodes with TLS: certificates and tokens, roles given and withdrawn, and what is written down.
//!
//! Not here: that every request of etcd's protocol is asked about (`access_etcd`); and of the object API, which golden
//! scripts of `apiserver` show.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use setpoint_api::etcdserverpb as etcd;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::status::error_of;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::metrics::Scrape;
use setpoint_cluster_tests::testbed::{PATIENCE, patiently};
use setpoint_etcd_tests::cluster::{Cluster, ClusterConfig, setpointd};
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};
use tokio_stream::StreamExt;
use tonic::{Code, Request, Status, Streaming};

use crate::pki::Pki;

/// A cluster whose nodes share a token file, and those who talk to it.
pub struct Guarded {
    pub cluster: Cluster,
    pub pki: Pki,
    tokens: PathBuf,
    _folder: TempDir,
}

/// Somebody at one node.
#[derive(Clone)]
pub struct Who {
    pub client: Client,
    token: Option<String>,
}

impl Who {
    pub fn ask<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let value = format!("Bearer {token}").parse().expect("a header");
            request.metadata_mut().insert("authorization", value);
        }
        request
    }
}

impl Guarded {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clients = ["admin:setpoint:admins", "lea:leads", "joe", "hosts:setpoint:nodes"];
        let pki = Pki::make(folder.path().join("pki"), &clients);
        let tokens = folder.path().join("tokens");
        fs::write(&tokens, "# nobody yet\n").expect("written");
        let mut arguments = pki.flags();
        let file = tokens.display().to_string();
        let more = ["--access", "roles", "--token-file", &file, "--election-timeout", "3s"];
        arguments.extend(more.map(str::to_owned));
        let config = ClusterConfig { nodes: 3, arguments, in_memory: true, ..ClusterConfig::default() };
        let cluster = Cluster::start_with(config).await.expect("three nodes form a cluster");
        Self { cluster, pki, tokens, _folder: folder }
    }

    /// Somebody with a certificate.
    pub fn shown(&self, node: usize, certificate: &str) -> Who {
        let address = &self.cluster.nodes()[node].client;
        Who { client: self.pki.client(address, "ca.pem", Some((&self.pki, certificate))), token: None }
    }

    pub fn admin(&self, node: usize) -> Who {
        self.shown(node, "client-admin")
    }

    /// Somebody with a token, or with nothing.
    pub fn bearing(&self, node: usize, token: Option<&str>) -> Who {
        let address = &self.cluster.nodes()[node].client;
        Who { client: self.pki.client(address, "ca.pem", None), token: token.map(str::to_owned) }
    }

    /// A new token, as an operator makes it while the nodes run.
    pub fn token(&self, user: &str, group: &str) -> String {
        let mut command = Command::new(setpointd().expect("the program is built"));
        command.args(["token", "create", "--user", user, "--group", group, "--file"]).arg(&self.tokens);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    pub fn audit(&self, node: usize) -> String {
        fs::read_to_string(self.cluster.nodes()[node].directory.join("audit.log")).unwrap_or_default()
    }
}

/// Waits until the condition holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}: did not happen in time");
        sleep(Duration::from_millis(50)).await;
    }
}

pub async fn create(who: &Who, kind: &str, name: &str, spec: &str) -> Result<u64, Status> {
    let metadata = pb::Metadata { name: name.into(), ..Default::default() };
    let spec = spec.to_owned().into();
    let object = pb::Object { kind: kind.into(), metadata: Some(metadata), spec, ..Default::default() };
    // So that one whose answer was lost can be sent again.
    let options = pb::WriteOptions { operation: format!("{kind}-{name}"), ..Default::default() };
    let request = pb::CreateRequest { object: Some(object), options: Some(options) };
    Ok(who.client.objects().create(who.ask(request)).await?.into_inner().revision)
}

async fn delete(who: &Who, kind: &str, name: &str) -> Result<u64, Status> {
    let key = pb::ObjectKey { kind: kind.into(), name: name.into(), ..Default::default() };
    let request = pb::DeleteRequest { key: Some(key), ..Default::default() };
    Ok(who.client.objects().delete(who.ask(request)).await?.into_inner().revision)
}

async fn list(who: &Who) -> Result<usize, Status> {
    let request = pb::ListRequest { kind: "Namespace".into(), ..Default::default() };
    Ok(who.client.objects().list(who.ask(request)).await?.into_inner().objects.len())
}

async fn keep(who: &Who) -> Result<bool, Status> {
    let request =
        pb::KeepAliveRequest { lease: "l".into(), holder: "h".into(), epoch: 1, ..Default::default() };
    let request = who.ask(tokio_stream::once(request));
    let mut answers = who.client.coordination().keep_alive(request).await?.into_inner();
    Ok(answers.message().await?.is_some_and(|answer| answer.held))
}

/// The sentence of a refusal that is for this reason, asked for until it is not about an election.
async fn refused<T, F>(reason: Reason, ask: impl Fn() -> F) -> String
where
    F: Future<Output = Result<T, Status>>,
{
    patiently(|| async {
        let Err(status) = ask().await else { panic!("it was allowed, and should be {reason:?}") };
        match error_of(&status) {
            Some(error) if error.reason() == reason => Ok(error.message),
            Some(error) if error.reason() == Reason::Forbidden => panic!("not {reason:?}: {status}"),
            _ => Err(status),
        }
    })
    .await
}

const ROLE: &str = r#"{"rules":[{"verbs":["create","get"],"kinds":["Namespace"],"names":["ci-*"]}]}"#;
const BINDING: &str = r#"{"role":"ci","subjects":["group:deployers"]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_is_what_its_holder_may_do_at_every_node_until_it_is_withdrawn() {
    let guarded = Guarded::start().await;
    let admin = guarded.admin(0);
    patiently(|| create(&admin, "Role", "ci", ROLE)).await;
    let bound = patiently(|| create(&admin, "RoleBinding", "ci", BINDING)).await;
    let token = guarded.token("ci", "deployers");

    for node in 0..3 {
        let ci = guarded.bearing(node, Some(&token));
        let own = format!("ci-{node}");
        // The token file is read once in a while, and the role comes with the log.
        until("the role counts", || async { create(&ci, "Namespace", &own, "{}").await.is_ok() }).await;
        let text = refused(Reason::Forbidden, || create(&ci, "Namespace", "other", "{}")).await;
        let sentence = "user:ci may not create Namespace other in the whole cluster: no role allows it; ask for a \
                        RoleBinding to one that does";
        assert_eq!(text, sentence);
        refused(Reason::Forbidden, || delete(&ci, "Namespace", &own)).await;
        refused(Reason::Forbidden, || list(&ci)).await;
        refused(Reason::Forbidden, || keep(&ci)).await;
        let nobody = guarded.bearing(node, None);
        let text = refused(Reason::Forbidden, || list(&nobody)).await;
        assert!(text.starts_with("anonymous may not list Namespace"), "{text}");
        // A certificate that has no role.
        let joe = guarded.shown(node, "client-joe");
        let text = refused(Reason::Forbidden, || list(&joe)).await;
        assert!(text.starts_with("user:joe may not list Namespace"), "{text}");
    }
    // The audit log of the node that was asked has both, with the revision and the reason.
    let done = format!(
        r#""verb":"create","kind":"RoleBinding","name":"ci","result":"done","revision":{bound},"operation":"RoleBinding-ci""#
    );
    for line in [done.as_str(), r#""principal":"user:admin""#, "may not create Namespace other"] {
        until(line, || async { guarded.audit(0).contains(line) }).await;
    }
    let denied = r#""verb":"list","kind":"Namespace","result":"denied","reason":"anonymous may not list"#;
    until("the denial is written down", || async { guarded.audit(2).contains(denied) }).await;
    let http = &guarded.cluster.nodes()[0].http;
    let records = Scrape::of(http).await.and_then(|it| it.get("setpoint_audit_records_total"));
    assert!(records.is_some_and(|count| count >= 2.0), "{records:?}");

    let other = guarded.admin(2);
    until("the binding is gone", || async {
        match delete(&other, "RoleBinding", "ci").await {
            Ok(_) => true,
            // The answer to an earlier try was lost.
            Err(status) => status.code() == Code::NotFound,
        }
    })
    .await;
    for node in 0..3 {
        let ci = guarded.bearing(node, Some(&token));
        until("the role is withdrawn", || async {
            let refused = create(&ci, "Namespace", "ci-0", "{}").await;
            refused.is_err_and(|status| status.code() == Code::PermissionDenied)
        })
        .await;
    }
}

async fn watch(who: &Who) -> Result<Streaming<pb::WatchResponse>, Status> {
    let request = pb::WatchRequest { kind: "Namespace".into(), ..Default::default() };
    Ok(who.client.objects().watch(who.ask(request)).await?.into_inner())
}

async fn watch_keys(who: &Who) -> Result<Streaming<etcd::WatchResponse>, Status> {
    let create = etcd::WatchCreateRequest { key: "k".into(), ..Default::default() };
    let request = etcd::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut answers = who.client.watch().watch(who.ask(requests)).await?.into_inner();
    match answers.message().await? {
        Some(answer) if answer.created && !answer.canceled => Ok(answers),
        answer => Err(Status::permission_denied(format!("{answer:?}"))),
    }
}

/// What the end of a watch says, whatever comes before it.
async fn end_of(mut answers: Streaming<pb::WatchResponse>) -> pb::Error {
    let end = async {
        loop {
            let answer =
                answers.message().await.expect("it ends with an event").expect("it ends with an event");
            if let Some(error) = answer.events.into_iter().find_map(|event| event.error) {
                return error;
            }
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("the watch ends in time")
}

async fn end_of_keys(mut answers: Streaming<etcd::WatchResponse>) -> String {
    let answer = tokio::time::timeout(PATIENCE, answers.message()).await.expect("the watch ends in time");
    let answer = answer.expect("the stream goes on").expect("the stream goes on");
    assert!(answer.canceled, "{answer:?}");
    answer.cancel_reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_its_role_and_with_its_token() {
    let guarded = Guarded::start().await;
    let admin = guarded.admin(0);
    let rules = r#"{"rules":[{"verbs":["watch"],"kinds":["Namespace","keys"]}]}"#;
    patiently(|| create(&admin, "Role", "watch", rules)).await;
    let bind = r#"{"role":"watch","subjects":["user:given","user:known"]}"#;
    patiently(|| create(&admin, "RoleBinding", "watch", bind)).await;
    let (given, known) = (guarded.token("given", "none"), guarded.token("known", "none"));
    let (given, known) = (guarded.bearing(1, Some(&given)), guarded.bearing(1, Some(&known)));
    until("both may watch", || async { watch(&given).await.is_ok() && watch(&known).await.is_ok() }).await;

    // Nothing has to happen for it: this one has nothing to be sent.
    let objects = patiently(|| watch(&known)).await;
    let keys = patiently(|| watch_keys(&known)).await;
    let text = fs::read_to_string(&guarded.tokens).expect("the file");
    let kept = text.lines().filter(|line| !line.contains(r#""name":"known""#));
    fs::write(&guarded.tokens, kept.map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    let error = end_of(objects).await;
    assert_eq!(error.reason(), Reason::Unauthenticated, "{error:?}");
    assert!(end_of_keys(keys).await.contains("the token is not valid"));

    let objects = patiently(|| watch(&given)).await;
    let keys = patiently(|| watch_keys(&given)).await;
    until("the binding is gone", || async {
        delete(&admin, "RoleBinding", "watch").await.map_or_else(|it| it.code() == Code::NotFound, |_| true)
    })
    .await;
    let error = end_of(objects).await;
    assert_eq!(error.reason(), Reason::Forbidden, "{error:?}");
    assert!(error.message.starts_with("user:given may not watch Namespace"), "{error:?}");
    assert!(end_of_keys(keys).await.contains("user:given may not watch keys k"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_no_good_is_refused_and_nobody_gives_away_what_they_do_not_have() {
    let guarded = Guarded::start().await;
    let (token, old) = (guarded.token("ci", "setpoint:admins"), guarded.token("old", "setpoint:admins"));
    let text = fs::read_to_string(&guarded.tokens).expect("the file");
    let expired = |line: &str| match line.split_once(r#""expires":""#) {
        Some((start, _)) if line.contains(r#""name":"old""#) => {
            format!("{start}\"expires\":\"2020-01-01T00:00:00Z\"}}\n")
        }
        _ => format!("{line}\n"),
    };
    fs::write(&guarded.tokens, text.lines().map(expired).collect::<String>()).expect("written");
    let ci = guarded.bearing(0, Some(&token));
    until("the new token is valid", || async { list(&ci).await.is_ok() }).await;
    let old = guarded.bearing(0, Some(&old));
    until("the old one has expired", || async {
        let answer = list(&old).await;
        answer.is_err_and(|status| {
            status.code() == Code::Unauthenticated && status.message().starts_with("the token has expired")
        })
    })
    .await;
    let mut wrong = token.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    // Also together with a certificate that would do: a mistake must not act as somebody else.
    let mixed = Who { token: Some(wrong.clone()), ..guarded.admin(0) };
    for who in [guarded.bearing(0, Some(&wrong)), guarded.bearing(0, Some("nonsense")), mixed] {
        let text = refused(Reason::Unauthenticated, || list(&who)).await;
        assert!(text.starts_with("the token is not valid"), "{text}");
        let put = who.client.kv().put(who.ask(setpoint_api::etcdserverpb::PutRequest::default())).await;
        assert_eq!(put.expect_err("no proof").code(), Code::Unauthenticated);
    }
    let line = r#""kind":"/setpoint.v1.Objects/List","result":"denied","reason":"the token is not valid""#;
    until("that is written down", || async { guarded.audit(0).contains(line) }).await;

    // Who may write roles and bindings, and nothing else, cannot become more by it.
    let admin = guarded.admin(0);
    let lead = r#"{"rules":[{"verbs":["*"],"kinds":["Role","RoleBinding"]}]}"#;
    patiently(|| create(&admin, "Role", "lead", lead)).await;
    let bind = r#"{"role":"lead","subjects":["user:lea"]}"#;
    patiently(|| create(&admin, "RoleBinding", "lead", bind)).await;
    let lea = guarded.shown(1, "client-lea");
    until("lea may write roles", || async {
        create(&lea, "Role", "nothing", r#"{"rules":[]}"#).await.is_ok()
    })
    .await;
    let early = r#"{"role":"not-made-yet","subjects":["user:lea"]}"#;
    let text = refused(Reason::Forbidden, || create(&lea, "RoleBinding", "more", early)).await;
    assert!(text.starts_with("user:lea may not bind the Role not-made-yet, which does not exist"), "{text}");
    for (kind, spec) in [
        ("Role", r#"{"rules":[{"verbs":["*"],"kinds":["*"]}]}"#),
        ("RoleBinding", r#"{"role":"setpoint-admin","subjects":["user:lea"]}"#),
    ] {
        let text = refused(Reason::Forbidden, || create(&lea, kind, "more", spec)).await;
        assert!(text.starts_with("user:lea may not give away what they do not have themselves"), "{text}");
    }
}
