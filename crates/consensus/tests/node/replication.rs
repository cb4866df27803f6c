//! The ordinary case: three nodes elect, replicate, take commands anywhere and read what was written.

use std::time::Duration;

use setpoint_consensus::{CallError, Role, ServiceRefusal, SubmitError};
use setpoint_types::NodeId;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use super::support::{Cluster, Options, bytes, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_elect_and_replicate() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    for number in 0..50 {
        leader.put(format!("command {number}")).await;
    }
    cluster.agree_on(&bytes("command 49")).await;
    assert_eq!(leader.machine.len(), 50);
    let status = leader.status();
    assert_eq!((status.role, status.leader), (Role::Leader, Some(leader.id)));
    assert_eq!(status.voters().collect::<Vec<_>>(), [NodeId(1), NodeId(2), NodeId(3)]);
    eventually("the leader knows that everybody has everything", || {
        let status = leader.status();
        status.members.values().all(|member| member.matched == status.last_index)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_takes_commands() {
    let cluster = Cluster::start(3, Options::default()).await;
    for round in 0..20 {
        for node in cluster.nodes.values() {
            node.put(format!("{} says {round}", node.id)).await;
        }
    }
    cluster.agree_on(&bytes("3 says 19")).await;
    let leader = cluster.leader().await;
    for follower in cluster.followers(leader) {
        assert_eq!(follower.node.counts().commands_forwarded, 20);
        assert_eq!(follower.node.counts().entries_proposed, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_one_submitter_keep_their_order_and_share_entries() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    for node in cluster.nodes.values() {
        for number in 0..2000 {
            node.node.submit(bytes(format!("{}/{number:05}", node.id))).expect("there is room for all");
        }
    }
    for node in cluster.nodes.values() {
        leader.applied(&bytes(format!("{}/01999", node.id))).await;
    }
    let commands = leader.machine.commands();
    for node in cluster.nodes.values() {
        let prefix = format!("{}/", node.id);
        let own: Vec<_> = commands.iter().filter(|command| command.starts_with(prefix.as_bytes())).collect();
        assert!(own.len() == 2000 && own.is_sorted(), "commands of node {} were reordered or lost", node.id);
    }
    let counts = leader.node.counts();
    assert_eq!(counts.commands_proposed, 6000);
    assert!(counts.entries_proposed < 1500, "{counts:?}: commands that wait together travel together");
    assert!(leader.machine.stamps().is_sorted(), "time went backwards");
    assert!(leader.machine.stamps()[0] > 1_600_000_000_000, "stamps are milliseconds since 1970");
}

/// S13.
#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_anywhere_sees_what_was_acknowledged_anywhere() {
    let cluster = Cluster::start(3, Options::default()).await;
    for round in 0..30 {
        for writer in cluster.nodes.values() {
            let text = format!("{} wrote {round}", writer.id);
            writer.put(text.clone()).await;
            for reader in cluster.nodes.values() {
                reader.node.read_barrier().await.expect("a healthy cluster");
                assert!(reader.machine.contains(&bytes(text.clone())), "node {} read too little", reader.id);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn barriers_share_rounds() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    for node in cluster.nodes.values() {
        let before = node.node.counts();
        let barriers = (0..500).map(|_| node.node.read_barrier());
        for outcome in futures::future::join_all(barriers).await {
            outcome.expect("a healthy cluster");
        }
        let after = node.node.counts();
        assert_eq!(after.barriers - before.barriers, 500);
        let rounds = after.read_rounds - before.read_rounds;
        assert!(rounds <= 20, "{rounds} rounds for 500 concurrent readers on node {}", node.id);
    }
    assert!(leader.node.counts().read_rounds <= 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_by_the_leader_wherever_they_are_made() {
    let cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await;
    for node in cluster.nodes.values() {
        let reply = node.node.call_leader(bytes("hello")).await.expect("the leader answers");
        assert_eq!(reply, bytes(format!("{}:hello", leader.id)));
        let refusal = node.node.call_leader(bytes("no")).await.expect_err("the leader says no");
        assert_eq!(refusal, CallError::Refused(ServiceRefusal::Final("the answer is no".to_owned())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_is_a_cluster() {
    let mut cluster = Cluster::start(1, Options::default()).await;
    let only = cluster.node(1);
    only.put("alone").await;
    only.node.read_barrier().await.expect("a quorum of one");
    only.node.shutdown().await;
    assert_eq!(only.node.submit(bytes("late")), Err(SubmitError::ShuttingDown));
    assert!(only.node.read_barrier().await.is_err());
    cluster.kill(1).await;
    let only = cluster.start_node(1).await;
    only.put("alone again").await;
    assert_eq!(only.machine.commands(), [bytes("alone"), bytes("alone again")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_talk_over_tls() {
    let certified = rcgen::generate_simple_self_signed(vec!["peers.test".to_owned()]).expect("a certificate");
    let certificate = certified.cert.pem();
    let identity = Identity::from_pem(&certificate, certified.signing_key.serialize_pem());
    let server = ServerTlsConfig::new().identity(identity);
    let client =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&certificate)).domain_name("peers.test");
    let cluster = Cluster::start(3, Options { tls: Some((server, client)), ..Options::default() }).await;
    for node in cluster.nodes.values() {
        node.put(format!("secret of {}", node.id)).await;
    }
    cluster.agree_on(&bytes("secret of 3")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_leader_writes_are_refused_at_once_and_reads_when_their_patience_ends() {
    let mut cluster = Cluster::empty(Options::default());
    let lonely = cluster.start_node(1).await;
    assert_eq!(lonely.node.submit(bytes("anybody?")), Err(SubmitError::NoLeader));
    let patience = Duration::from_millis(500);
    let call =
        tokio::time::timeout(patience, lonely.node.call_leader(bytes("x"))).await.expect("an answer at once");
    assert_eq!(call, Err(CallError::NoLeader));
    assert_eq!(lonely.node.read_barrier().await, Err(setpoint_consensus::ReadError::NoLeader));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_out_an_election() {
    let mut cluster = Cluster::start(3, Options::default()).await;
    let leader = cluster.leader().await.id;
    cluster.node(leader.0).put("before").await;
    cluster.kill(leader.0).await;
    for node in cluster.nodes.values() {
        node.node.read_barrier().await.expect("the others elect a leader while the read waits");
        assert!(node.machine.contains(&bytes("before")));
    }
}
