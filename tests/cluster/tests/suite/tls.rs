//! TLS for clients, mutual TLS between nodes, and whoever has neither.

use std::time::Duration;

use setpoint_cluster_tests::certificates::{Authority, Identity};
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::{PATIENCE, patiently};
use setpoint_etcd_tests::cluster::{Cluster, ClusterConfig};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]).collect()
}

fn peer_flags(identity: &Identity, authority: &str) -> Vec<String> {
    flags(&[
        ("--peer-cert-file", &identity.cert),
        ("--peer-key-file", &identity.key),
        ("--peer-ca-file", authority),
    ])
}

/// A client over TLS that trusts `authority`, and shows a certificate if it has one.
fn client(address: &str, authority: &Authority, identity: Option<&Identity>) -> Client {
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
    if let Some(identity) = identity {
        let read = |path: &str| std::fs::read(path).expect("the file was written");
        tls = tls.identity(tonic::transport::Identity::from_pem(read(&identity.cert), read(&identity.key)));
    }
    let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("a URL");
    let endpoint = endpoint.tls_config(tls).expect("settings that fit").timeout(Duration::from_secs(10));
    Client { channel: endpoint.connect_lazy() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_and_nodes_use_tls_and_refuse_strangers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new(&folder.path().join("ours"));
    let stranger = Authority::new(&folder.path().join("theirs"));
    let node = authority.identity("node");
    let mut arguments = flags(&[
        ("--cert-file", &node.cert),
        ("--key-file", &node.key),
        ("--client-ca-file", &authority.file()),
    ]);
    arguments.extend(peer_flags(&node, &authority.file()));
    let config = ClusterConfig { nodes: 3, arguments, in_memory: true, ..ClusterConfig::default() };
    let cluster = Cluster::start_with(config).await.expect("three nodes with mutual TLS form a cluster");

    let known = authority.identity("client");
    let address = |node: usize| cluster.nodes()[node].client.as_str();
    for node in 0..3 {
        let client = client(address(node), &authority, Some(&known));
        let value = node.to_string();
        patiently(|| client.put("k", &value)).await;
        let members = patiently(|| client.members()).await;
        let urls = members.iter().flat_map(|member| member.client_urls.iter().chain(&member.peer_urls));
        assert!(urls.into_iter().all(|url| url.starts_with("https://")), "{members:?}");
    }
    let unknown = stranger.identity("client");
    for (why, refused) in [
        ("no certificate", client(address(0), &authority, None)),
        ("a stranger's certificate", client(address(0), &authority, Some(&unknown))),
        ("the node is not trusted", client(address(0), &stranger, Some(&known))),
        ("no TLS", Client::new(address(0))),
        ("peer port, no TLS", Client::new(&cluster.nodes()[0].peer)),
        ("peer port, no certificate", client(&cluster.nodes()[0].peer, &authority, None)),
    ] {
        assert!(refused.put("k", "v").await.is_err(), "{why}: was let in");
    }
    let trusted = client(address(0), &authority, Some(&known));
    assert_eq!(trusted.get("k").await.expect("read").as_deref(), Some("2"), "nobody else has written");
}

/// Whether the node's log has a warning about the third that speaks of TLS.
fn says_why(cluster: &Cluster, node: usize) -> bool {
    let log = std::fs::read_to_string(&cluster.nodes()[node].log).expect("a log");
    log.lines().any(|line| {
        let line = line.to_lowercase();
        line.contains("node 3") && ["certificate", "tls"].iter().any(|word| line.contains(word))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_authority_and_one_without_tls_stay_outside() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ours = Authority::new(&folder.path().join("ours"));
    let theirs = Authority::new(&folder.path().join("theirs"));
    let arguments = peer_flags(&ours.identity("node"), &ours.file());
    for (why, outsider) in
        [("another authority", peer_flags(&theirs.identity("node"), &theirs.file())), ("no TLS", Vec::new())]
    {
        let config = ClusterConfig { nodes: 3, in_memory: true, ..ClusterConfig::default() };
        let mut cluster = Cluster::prepare(config).expect("prepared");
        for node in 0..3 {
            cluster.node_mut(node).arguments = if node == 2 { outsider.clone() } else { arguments.clone() };
            cluster.start_node(node).expect("started");
        }
        let clients: Vec<Client> = cluster.nodes().iter().map(|node| Client::new(&node.client)).collect();
        let begun = std::time::Instant::now();
        while clients[0].put("k", "v").await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "{why}: the two that trust each other do not go on");
        }
        assert!(clients[2].get("k").await.is_err(), "{why}: the outsider takes part");
        assert!(cluster.is_running(2), "{why}: it waits for the others to accept it");
        let begun = std::time::Instant::now();
        while !says_why(&cluster, 0) && !says_why(&cluster, 1) {
            let log = cluster.log_tail(0, 10);
            assert!(begun.elapsed() < PATIENCE, "{why}: no member says what is wrong\n{log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_certificates_that_cannot_be_used_does_not_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new(folder.path());
    let (node, other) = (authority.identity("node"), authority.identity("other"));
    let garbage = folder.path().join("garbage.pem").display().to_string();
    std::fs::write(&garbage, "no certificate").expect("written");
    let clients = |cert: &str, key: &str, ca: &str| {
        flags(&[("--cert-file", cert), ("--key-file", key), ("--client-ca-file", ca)])
    };
    let peers = |identity: &Identity, ca: &str| peer_flags(identity, ca);
    let mismatch = Identity { cert: node.cert.clone(), key: other.key.clone() };
    for (named, arguments) in [
        (&garbage, clients(&garbage, &node.key, &authority.file())),
        (&garbage, clients(&node.cert, &garbage, &authority.file())),
        (&garbage, clients(&node.cert, &node.key, &garbage)),
        (&other.key, clients(&node.cert, &other.key, &authority.file())),
        (&garbage, peers(&node, &garbage)),
        (&other.key, peers(&mismatch, &authority.file())),
    ] {
        let config = ClusterConfig { nodes: 1, arguments, in_memory: true, ..ClusterConfig::default() };
        let mut cluster = Cluster::prepare(config).expect("prepared");
        cluster.start_node(0).expect("started");
        let status = cluster.ended(0).await.expect("it does not run without the port");
        assert!(!status.success());
        let log = cluster.log_tail(0, 10);
        assert!(log.contains(named) && !log.contains("serving"), "{named} in {log}");
    }
}
