//! A Setpoint node: every setting at its default except addresses and names, so fsync is on.

use std::path::Path;
use std::process::Command;

use super::NodeSpec;

pub fn command(binary: &Path, node: &NodeSpec, cluster: &[NodeSpec]) -> Command {
    let members: Vec<String> = cluster.iter().map(|node| format!("{}={}", node.name, node.peer)).collect();
    let mut command = Command::new(binary);
    command
        .arg("--name")
        .arg(&node.name)
        .arg("--data-dir")
        .arg(&node.data)
        .args(["--listen-client", &node.client.to_string()])
        .args(["--listen-peer", &node.peer.to_string()])
        .args(["--listen-http", &node.http.to_string()])
        .args(["--initial-cluster", &members.join(",")]);
    // Settings from the environment would silently make it another node than the one described.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SETPOINT_")) {
        command.env_remove(name);
    }
    command
}
