//! `setpoint cordon`, `uncordon` and `drain`: what a node may be given, and moving away what it has.

mod drain;

use clap::Args;
use serde_json::{Value, json};
use setpoint_client::{Api, Dynamic, Patch, PatchOptions, Scope};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{Done, Session};

pub use drain::Drain;

#[derive(Args)]
pub struct Cordon {
    /// Nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
}

impl Cordon {
    /// `unschedulable`: the scheduler gives it no more replicas.
    pub async fn run(self, session: &mut Session, unschedulable: bool) -> Done {
        let api = session.client()?.dynamic("Node", Scope::Cluster);
        let done = if unschedulable { "cordoned" } else { "uncordoned" };
        for node in &self.nodes {
            let name = bare(node);
            let object = api.get(name).await?;
            let is = |field: &str| object.spec.get(field).and_then(Value::as_bool).unwrap_or(false);
            if is("unschedulable") == unschedulable && (unschedulable || !is("drain")) {
                session.say(format!("node/{name} already {done}"))?;
                continue;
            }
            let spec = match unschedulable {
                true => json!({"unschedulable": true}),
                // What is given back is no longer emptied.
                false => json!({"unschedulable": false, "drain": false}),
            };
            change(&api, name, spec).await?;
            session.say(format!("node/{name} {done}"))?;
        }
        Ok(Exit::Done)
    }
}

/// `node/a1` is `a1`, too.
fn bare(word: &str) -> &str {
    ["node/", "nodes/", "no/"].iter().find_map(|prefix| word.strip_prefix(prefix)).unwrap_or(word)
}

async fn change(api: &Api<Dynamic>, name: &str, spec: Value) -> Result<(), Failure> {
    api.patch(name, &Patch::Merge(json!({ "spec": spec })), &PatchOptions::default()).await?;
    Ok(())
}
