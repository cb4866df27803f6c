//! One object at a time, until there is a command line for it: apply a file, show an object, delete one.
//!
//! ```sh
//! cargo run -q -p setpoint-client --example object -- apply greeter.json
//! cargo run -q -p setpoint-client --example object -- get Greeter default/hello
//! cargo run -q -p setpoint-client --example object -- list Event default
//! cargo run -q -p setpoint-client --example object -- delete Greeter default/hello
//! ```
//!
//! Of a kind that belongs to the whole cluster, an object is named without a namespace: `get Namespace team-a`. With a `/` at its end,
//! `list Namespace /` lists such a kind. The cluster is that of the current context ([`setpoint_client::config`]).
#![allow(clippy::print_stdout, reason = "what is asked for goes to the standard output")]

use std::error::Error;

use serde_json::json;
use setpoint_client::{Api, Client, DeleteOptions, Dynamic, ListOptions, Scope, WriteOptions};
use setpoint_types::{Metadata, Object};

const USAGE: &str =
    "object apply FILE | get KIND [NAMESPACE/]NAME | list KIND NAMESPACE|/ | delete KIND [NAMESPACE/]NAME";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let client = Client::from_config()?.with_manager("me");
    match arguments[..] {
        ["apply", file] => {
            let object: Object = serde_json::from_str(&std::fs::read_to_string(file)?)?;
            let api = client.dynamic(&object.kind, scope(&object.metadata.namespace));
            show(&api.apply(&object, false, &WriteOptions::default()).await?.object)?;
        }
        ["get", kind, name] => {
            let (api, name) = named(&client, kind, name);
            show(&api.get(name).await?)?;
        }
        ["list", kind, namespace] => {
            let api = client.dynamic(kind, scope(namespace.trim_end_matches('/')));
            let (objects, _) = api.list_all(&ListOptions::default()).await?;
            objects.iter().try_for_each(show)?;
        }
        ["delete", kind, name] => {
            let (api, name) = named(&client, kind, name);
            let deleted = api.delete(name, &DeleteOptions::default()).await?;
            println!("{}", if deleted.gone { "gone" } else { "going" });
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn scope(namespace: &str) -> Scope {
    if namespace.is_empty() { Scope::Cluster } else { Scope::namespace(namespace) }
}

fn named<'a>(client: &Client, kind: &str, name: &'a str) -> (Api<Dynamic>, &'a str) {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    (client.dynamic(kind, scope(namespace)), name)
}

/// Without what only tools want to know.
fn show(object: &Object) -> Result<(), serde_json::Error> {
    let Metadata { namespace, name, labels, generation, finalizers, .. } = object.metadata.clone();
    let metadata = Metadata { namespace, name, labels, generation, finalizers, ..Metadata::default() };
    let shown =
        json!({"kind": object.kind, "metadata": metadata, "spec": object.spec, "status": object.status});
    println!("{}", serde_json::to_string_pretty(&shown)?);
    Ok(())
}
