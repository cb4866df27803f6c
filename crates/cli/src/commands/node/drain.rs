//! `setpoint drain`: a node is given nothing more, and what it has is moved away, as its workloads allow it.
//!
//! The node monitor does the moving, and goes on with it when nobody waits any more.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use setpoint_client::{Client, ListOptions, Scope};
use setpoint_types::object::Object;
use tokio::time::{Instant, sleep};

use super::{bare, change};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Drain {
    /// Nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Wait until nothing runs there; --wait=false does not
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    wait: bool,
    /// Wait no longer than this; 0 waits for ever
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

/// Between two looks at what is left.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Replicas that are named.
const NAMED: usize = 5;

impl Drain {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let api = client.dynamic("Node", Scope::Cluster);
        for node in &self.nodes {
            change(&api, bare(node), json!({"unschedulable": true, "drain": true})).await?;
            session.note(format!("node/{} is being emptied", bare(node)));
        }
        if !self.wait {
            return Ok(Exit::Done);
        }
        let deadline = (!self.timeout.is_zero()).then(|| Instant::now() + self.timeout);
        for node in &self.nodes {
            self.wait_for(session, &client, bare(node), deadline).await?;
        }
        Ok(Exit::Done)
    }

    async fn wait_for(
        &self,
        session: &mut Session,
        client: &Client,
        node: &str,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        let mut told = None;
        loop {
            let left = left(client, node).await?;
            if left.is_empty() {
                session.say(format!("node/{node} drained"))?;
                return session.flush();
            }
            if told != Some(left.len()) {
                session.note(format!("node/{node}: {} to go: {}", left.len(), names(&left)));
                told = Some(left.len());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let object = client.dynamic("Node", Scope::Cluster).get(node).await?;
                let text = format!(
                    "node/{node} still has {} after {}{}. The node monitor goes on; `setpoint uncordon {node}` stops it",
                    names(&left),
                    humantime::format_duration(self.timeout),
                    blocked(&object)
                );
                return Err(Failure::new(Exit::Timeout, text));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// What has not ended on a node.
async fn left(client: &Client, node: &str) -> Result<Vec<Object>, Failure> {
    let options = ListOptions { fields: format!("status.node={node}"), ..ListOptions::default() };
    let (mut found, _) = client.dynamic("Replica", Scope::AllNamespaces).list_all(&options).await?;
    found.retain(|replica| !matches!(replica.status["stage"].as_str(), Some("succeeded" | "failed")));
    Ok(found)
}

fn names(left: &[Object]) -> String {
    let named = left.iter().take(NAMED).map(|it| format!("{}/{}", it.metadata.namespace, it.metadata.name));
    let more = if left.len() > NAMED { ", …" } else { "" };
    named.collect::<Vec<_>>().join(", ") + more
}

/// What the node monitor says that holds it up.
fn blocked(node: &Object) -> String {
    let conditions = node.status["conditions"].as_array().cloned().unwrap_or_default();
    let drained = conditions.iter().find(|it| it["type"] == "Drained" && it["status"] != "True");
    let message = drained.and_then(|it| it.get("message")).and_then(Value::as_str).unwrap_or_default();
    if message.is_empty() { String::new() } else { format!(" ({message})") }
}
