//! An etcd member: every setting at its default except addresses and names, so fsync is on.

use std::path::Path;
use std::process::Command;

use super::NodeSpec;

pub fn command(binary: &Path, node: &NodeSpec, cluster: &[NodeSpec]) -> Command {
    let members: Vec<String> =
        cluster.iter().map(|node| format!("{}=http://{}", node.name, node.peer)).collect();
    let client = format!("http://{}", node.client);
    let peer = format!("http://{}", node.peer);
    let mut command = Command::new(binary);
    command
        .arg("--name")
        .arg(&node.name)
        .arg("--data-dir")
        .arg(&node.data)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &members.join(","), "--initial-cluster-state", "new"]);
    // Settings from the environment would silently make it another etcd than the one described.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_")) {
        command.env_remove(name);
    }
    command
}
