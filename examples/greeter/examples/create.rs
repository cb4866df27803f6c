//! Creates what is in `greeter.json`, or changes what is there to it.
//!
//! `cargo run --example create [FILE]`

use std::error::Error;

use setpoint_client::{Client, Scope};
use setpoint_types::object::Object;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "greeter.json".to_owned());
    let object: Object = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let client = Client::from_config()?.with_manager("create");
    let objects = client.dynamic(&object.kind, Scope::namespace(&object.metadata.namespace));
    let written = objects.apply(&object, false, &Default::default()).await?;
    println!("{} at revision {}", written.object.key(), written.revision.get());
    Ok(())
}
