//! Logs and commands under access control: what an agent's role has to give, who may run commands, what is written down of it, and that
//! it ends with its role. The agent only pretends; what a real one does is in the workloads' tests.

use std::time::Duration;

use serde_json::json;
use setpoint_client::{
    AcquireOptions, Client, DeleteOptions, Dynamic, Error, ExecEvent, HostLine, Identity, Reason, Said,
    Scope, Served, Settings, Tls, WriteOptions,
};
use setpoint_cluster_tests::testbed::PATIENCE;
use setpoint_types::object::Object;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::access::{Guarded, until};

/// Somebody with a certificate, at the first node.
fn client(guarded: &Guarded, name: &str) -> Client {
    let address = &guarded.cluster.nodes()[0].client;
    let mut settings = Settings::new(vec![format!("https://{address}").parse().expect("an address")]);
    let pki = &guarded.pki;
    let certificate = pki.read(&format!("client-{name}.pem"));
    let identity = Identity { certificate, key: pki.read(&format!("client-{name}.key.pem")) };
    settings.tls = Some(Tls { authority: pki.read("ca.pem"), identity: Some(identity), server_name: None });
    settings.attempts_max = 1000;
    Client::new(settings).expect("settings that fit")
}

async fn make(client: &Client, object: serde_json::Value) {
    let object: Object = serde_json::from_value(object).expect("an object");
    let scope = match object.metadata.namespace.as_str() {
        "" => Scope::Cluster,
        namespace => Scope::namespace(namespace),
    };
    let api: setpoint_client::Api<Dynamic> = client.dynamic(&object.kind, scope);
    let made = api.create(&object, &WriteOptions::default()).await.expect("made").object;
    if !object.status.is_null() {
        let told = Object { status: object.status, ..made };
        api.update_status(&told, &WriteOptions::default()).await.expect("told");
    }
}

async fn bind(client: &Client, name: &str, rules: serde_json::Value, subject: &str) {
    make(client, json!({"kind": "Role", "metadata": {"name": name}, "spec": {"rules": rules}})).await;
    let spec = json!({"role": name, "subjects": [subject]});
    make(client, json!({"kind": "RoleBinding", "metadata": {"name": name}, "spec": spec})).await;
}

/// Serves a session: says what it was told to run, and ends once its input does. Tells when it is over.
async fn serve(line: HostLine, word: String, over: mpsc::UnboundedSender<bool>) {
    let Served { mut input, output, .. } = line.serve(word).await.expect("a session");
    output.ready().await.expect("somebody waits");
    let Some(Said::Run { command, .. }) = input.next().await else { return };
    output.output(format!("{command:?}").into()).await.expect("somebody reads");
    let ended = input.next().await;
    if ended == Some(Said::InputEnd) {
        output.end(0, input).await.expect("somebody reads");
    }
    // Nobody may be left to hear it.
    let _ = over.send(ended.is_some());
}

async fn attach(guarded: &Guarded, over: mpsc::UnboundedSender<bool>) {
    let agent = client(guarded, "hosts");
    let lease = AcquireOptions {
        namespace: "setpoint-system".into(),
        lease: "node-a1".into(),
        holder: "a1".into(),
        ttl: Some(Duration::from_secs(600)),
        ..AcquireOptions::default()
    };
    let epoch = agent.leases().acquire(&lease).await.expect("the lease").fence.epoch;
    let line = agent.sessions().lines().remove(0);
    let mut attached = line.attach("a1", epoch).await.expect("attached");
    let refused = line.attach("a2", epoch).await.err().expect("not its node");
    assert_eq!(refused.reason(), Some(Reason::Forbidden), "{refused}");
    tokio::spawn(async move {
        while let Ok(word) = attached.next().await {
            tokio::spawn(serve(line.clone(), word, over.clone()));
        }
    });
}

async fn refused(client: &Client) -> Error {
    client.sessions().exec("web-0").await.err().expect("it is refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_run_for_whom_a_role_names_it_is_written_down_and_ends_with_the_role() {
    let guarded = Guarded::start().await;
    let (admin, lea, joe) = (client(&guarded, "admin"), client(&guarded, "lea"), client(&guarded, "joe"));
    make(&admin, json!({"kind": "Namespace", "metadata": {"name": "setpoint-system"}})).await;
    let agent = json!([
        {"verbs": ["get", "create", "update"], "kinds": ["Lease"]},
        {"verbs": ["update"], "kinds": ["Node/status"], "names": ["a1"]},
    ]);
    bind(&admin, "agent", agent, "group:setpoint:nodes").await;
    let runs = json!([{"verbs": ["create"], "kinds": ["Replica/exec"], "names": ["web-*"]}]);
    bind(&admin, "runs", runs, "user:lea").await;
    let everything = json!([{"verbs": ["*"], "kinds": ["*"]}]);
    bind(&admin, "everything", everything, "user:joe").await;
    make(
        &admin,
        json!({
            "kind": "Replica", "metadata": {"namespace": "default", "name": "web-0"},
            "spec": {"workload": "web", "template": {"image": "x"}}, "status": {"node": "a1"},
        }),
    )
    .await;
    let (over, mut ended) = mpsc::unbounded_channel();
    attach(&guarded, over).await;

    let command = ["sh", "-c", "date -u"].map(str::to_owned);
    let exec = lea.sessions().exec("web-0").await.expect("opened");
    let (input, mut output) = exec.run(&command, true).await;
    let said = timeout(PATIENCE, output.next()).await.expect("in time").expect("an answer");
    assert_eq!(said, ExecEvent::Output(format!("{command:?}").into()));
    // It is there before the command's end, and before anybody asks.
    let line = r#""verb":"create","kind":"Replica/exec","namespace":"default","name":"web-0","command":"sh -c \"date -u\"","result":"begun""#;
    until("the command is written down", || async {
        guarded.audit(0).lines().any(|it| it.contains(line) && it.contains(r#""principal":"user:lea""#))
    })
    .await;
    input.end().await;
    assert_eq!(output.next().await.expect("an end"), ExecEvent::End(0));
    assert_eq!(ended.recv().await, Some(true));

    // Everything, given by a star, is not this; and what is denied is written down, too.
    let denied = refused(&joe).await;
    assert_eq!(denied.reason(), Some(Reason::Forbidden));
    assert!(
        denied.to_string().contains("user:joe may not create Replica/exec web-0 in namespace default"),
        "{denied}"
    );
    let line = r#""kind":"Replica/exec","namespace":"default","name":"web-0","result":"denied""#;
    until("the denial is written down", || async { guarded.audit(0).contains(line) }).await;

    // One that goes on ends with the role: for its client, and for the agent.
    let exec = lea.sessions().exec("web-0").await.expect("opened");
    let (_input, mut output) = exec.run(&command, true).await;
    timeout(PATIENCE, output.next()).await.expect("in time").expect("an answer");
    let bindings = admin.dynamic("RoleBinding", Scope::Cluster);
    bindings.delete("runs", &DeleteOptions::default()).await.expect("withdrawn");
    let lost = timeout(PATIENCE, output.next()).await.expect("in time").expect_err("it may not go on");
    assert_eq!(lost.reason(), Some(Reason::Forbidden), "{lost}");
    assert_eq!(timeout(PATIENCE, ended.recv()).await.expect("in time"), Some(false), "it ends at the agent");
    assert_eq!(refused(&lea).await.reason(), Some(Reason::Forbidden));
}
