//! What `setpointd init-pki` makes: nodes and clients that use it, and whoever must not get in with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::patiently;
use setpoint_etcd_tests::cluster::{Cluster, ClusterConfig, setpointd};
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// A folder that the command has filled.
pub struct Pki(PathBuf);

impl Pki {
    pub fn make(folder: PathBuf, clients: &[&str]) -> Self {
        let mut command = Command::new(setpointd().expect("the program is built"));
        command.args(["init-pki", "--hosts", "localhost,127.0.0.1", "--dir"]).arg(&folder);
        clients.iter().for_each(|client| {
            command.args(["--client", client]);
        });
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).expect("the command made it")
    }

    /// A client that trusts our servers, or the nodes, and shows a pair of `whose`.
    pub fn client(&self, address: &str, trusts: &str, shows: Option<(&Pki, &str)>) -> Client {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self.read(trusts)));
        if let Some((whose, stem)) = shows {
            let (certificate, key) = (format!("{stem}.pem"), format!("{stem}.key.pem"));
            tls = tls.identity(Identity::from_pem(whose.read(&certificate), whose.read(&key)));
        }
        let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("a URL");
        let endpoint = endpoint.tls_config(tls).expect("settings that fit").timeout(Duration::from_secs(10));
        Client { channel: endpoint.connect_lazy() }
    }

    pub fn flags(&self) -> Vec<String> {
        let files = [
            ("--cert-file", "server.pem"),
            ("--key-file", "server.key.pem"),
            ("--client-ca-file", "ca.pem"),
            ("--peer-cert-file", "peer.pem"),
            ("--peer-key-file", "peer.key.pem"),
            ("--peer-ca-file", "peer-ca.pem"),
        ];
        files.iter().flat_map(|(flag, file)| [(*flag).to_owned(), self.path(file)]).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_clients_use_what_init_pki_makes_and_a_client_is_no_node() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| -> PathBuf { Path::new(folder.path()).join(name) };
    let ours = Pki::make(at("ours"), &["jane:deployers"]);
    let theirs = Pki::make(at("theirs"), &["jane:deployers"]);
    let config =
        ClusterConfig { nodes: 3, arguments: ours.flags(), in_memory: true, ..ClusterConfig::default() };
    let cluster = Cluster::start_with(config).await.expect("three nodes form a cluster");

    // One that is made while the nodes run is as good as the first.
    let ours = Pki::make(ours.0, &["joe"]);
    for (node, client) in cluster.nodes().iter().zip(["client-jane", "client-joe", "client-jane"]) {
        let client = ours.client(&node.client, "ca.pem", Some((&ours, client)));
        patiently(|| client.put("k", &node.client)).await;
    }
    let (address, peer) = (&cluster.nodes()[0].client, &cluster.nodes()[0].peer);
    for (why, refused) in [
        ("no certificate", ours.client(address, "ca.pem", None)),
        ("another authority's client", ours.client(address, "ca.pem", Some((&theirs, "client-jane")))),
        ("a server's certificate", ours.client(address, "ca.pem", Some((&ours, "server")))),
        ("a node's certificate", ours.client(address, "ca.pem", Some((&ours, "peer")))),
    ] {
        assert!(refused.put("k", why).await.is_err(), "{why}: was let in");
    }
    // The peer port serves no keys: how it says no shows whether the handshake was passed.
    for (shown, passes) in [("peer", true), ("client-jane", false), ("server", false)] {
        let refused = ours.client(peer, "peer-ca.pem", Some((&ours, shown))).put("k", shown).await;
        let status = refused.expect_err("not a service of this port");
        assert_eq!(status.code() == Code::Unimplemented, passes, "{shown} at the peer port: {status}");
    }
    let trusted = ours.client(address, "ca.pem", Some((&ours, "client-jane")));
    let value = trusted.get("k").await.expect("read");
    assert_eq!(value.as_deref(), Some(cluster.nodes()[2].client.as_str()), "nobody else has written");
}
