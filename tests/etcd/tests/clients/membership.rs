//! Changing the members of a cluster with etcdctl.

use std::time::Duration;

use setpoint_etcd_tests::etcdctl::Etcdctl;

use crate::{cluster, id};

/// Learners catch up in the time that promoting one is tried again.
const CATCH_UP_TRIES: usize = 120;
const CATCH_UP_PAUSE: Duration = Duration::from_millis(500);

/// Runs a membership command, again while the cluster is too young for it: members must have been connected for five
/// seconds before etcd lets them be changed.
async fn change(etcdctl: &Etcdctl, arguments: &[&str]) -> String {
    for _ in 0..CATCH_UP_TRIES {
        let printed = etcdctl.run(arguments).await;
        if !printed.stderr.contains("etcdserver: unhealthy cluster") {
            assert!(printed.succeeded, "etcdctl {arguments:?} failed: {}", printed.stderr);
            return printed.stdout;
        }
        tokio::time::sleep(CATCH_UP_PAUSE).await;
    }
    panic!("the cluster stays unhealthy")
}

/// The text with single spaces: etcdctl pads short ids.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn learners(etcdctl: &Etcdctl) -> Vec<bool> {
    let list = etcdctl.json(&["member", "list"]).await;
    let members = list["members"].as_array().cloned().unwrap_or_default();
    members.iter().map(|member| member["isLearner"] == true).collect()
}

#[tokio::test]
async fn member_list() {
    let Some((cluster, etcdctl)) = cluster().await else { return };
    let list = etcdctl.json(&["member", "list"]).await;
    let members = list["members"].as_array().expect("a list of members");
    assert_eq!(members.len(), 3);
    for (index, endpoint) in cluster.endpoints().iter().enumerate() {
        let name = format!("n{}", index + 1);
        let member =
            members.iter().find(|member| member["name"] == name.as_str()).expect("every node is listed");
        assert_ne!(id(&member["ID"]), 0);
        assert_eq!(member["peerURLs"][0], format!("http://{}", cluster.peer_address(index)));
        assert_eq!(member["clientURLs"][0], endpoint.as_str());
        assert_ne!(member["isLearner"], true);
    }
    let simple = etcdctl.ok(&["member", "list"]).await;
    assert_eq!(simple.lines().filter(|line| line.contains(", started, ")).count(), 3, "{simple}");
}

#[tokio::test]
async fn a_learner_joins_is_promoted_and_removed() {
    let Some((mut cluster, etcdctl)) = cluster().await else { return };
    etcdctl.ok(&["put", "k", "before"]).await;

    let index = cluster.add_node().unwrap_or_else(|error| panic!("{error}"));
    let (name, url) =
        (format!("n{}", index + 1), format!("--peer-urls=http://{}", cluster.peer_address(index)));
    let added = change(&etcdctl, &["member", "add", &name, "--learner", &url]).await;
    assert!(added.contains("added to cluster"), "{added}");
    let member = added.split_whitespace().nth(1).unwrap_or_default().to_owned();
    assert_eq!(learners(&etcdctl).await.iter().filter(|learner| **learner).count(), 1);
    let early = etcdctl.fails(&["member", "promote", &member]).await;
    assert!(early.contains("can only promote a learner member which is in sync with leader"), "{early}");

    cluster.start_node(index).unwrap_or_else(|error| panic!("{error}"));
    let mut promoted = etcdctl.run(&["member", "promote", &member]).await;
    for _ in 0..CATCH_UP_TRIES {
        if promoted.succeeded {
            break;
        }
        tokio::time::sleep(CATCH_UP_PAUSE).await;
        promoted = etcdctl.run(&["member", "promote", &member]).await;
    }
    assert!(
        words(&promoted.stdout).starts_with(&format!("Member {member} promoted in cluster")),
        "{promoted:?}"
    );
    assert_eq!(learners(&etcdctl).await, [false; 4]);
    let again = etcdctl.fails(&["member", "promote", &member]).await;
    assert!(again.contains("etcdserver: can only promote a learner member"), "{again}");
    let newcomer = etcdctl.at(&cluster.endpoints()[index]);
    assert_eq!(newcomer.ok(&["get", "k"]).await, "k\nbefore\n");
    etcdctl.ok(&["put", "k", "with four"]).await;

    let removed = change(&etcdctl, &["member", "remove", &member]).await;
    assert!(words(&removed).starts_with(&format!("Member {member} removed from cluster")), "{removed}");
    assert_eq!(learners(&etcdctl).await.len(), 3);
    let gone = etcdctl.fails(&["member", "remove", &member]).await;
    assert!(gone.contains("etcdserver: member not found"), "{gone}");
    assert_eq!(etcdctl.ok(&["get", "k"]).await, "k\nwith four\n");
}
