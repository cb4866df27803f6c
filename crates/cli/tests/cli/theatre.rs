//! A stage over a world: streams are kept, time and the server are the test's own.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_cli::{Stage, Terminal, run};
use setpoint_client::{Client, Connector, Entropy, Patch, PatchOptions, Scope, WriteOptions};
use setpoint_testkit::World;
use setpoint_types::object::Object;
use tempfile::TempDir;

use crate::ring::Ring;

/// A world, a folder, and whoever sits at the keyboard.
pub struct Theatre {
    pub world: World,
    pub folder: TempDir,
    /// Name and groups.
    pub user: (String, Vec<String>),
    pub colour: bool,
    /// In place of the world, for the commands about a cluster's nodes.
    pub ring: Option<Ring>,
    variables: BTreeMap<String, String>,
    /// How many commands were played: each draws other ids.
    played: AtomicU64,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    pub out: String,
    pub err: String,
    /// None if it was stopped before its end.
    pub exit: Option<u8>,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Kept {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Theatre {
    pub fn new(world: World) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().display().to_string();
        let variables = BTreeMap::from([("HOME".to_owned(), home)]);
        Self {
            world,
            folder,
            user: ("tester".to_owned(), Vec::new()),
            colour: false,
            ring: None,
            variables,
            played: AtomicU64::new(0),
        }
    }

    pub fn set(&mut self, name: &str, value: String) {
        self.variables.insert(name.to_owned(), value);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command line, program name first, for at most so long.
    pub async fn play(&self, words: &[String], input: &str, limit: Duration) -> Played {
        let (out, err) = (Kept::default(), Kept::default());
        let world = self.world.clone();
        let groups: Vec<&str> = self.user.1.iter().map(String::as_str).collect();
        let connector: Arc<dyn Connector> = match &self.ring {
            Some(ring) => Arc::new(ring.clone()),
            None => Arc::new(self.world.connector_as(&self.user.0, &groups)),
        };
        let stage = Stage {
            input: Box::new(Cursor::new(input.as_bytes().to_vec())),
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            terminal: Terminal { out: self.colour, err: self.colour, input: false, colour: self.colour },
            variables: self.variables.clone(),
            clock: Arc::new(move || world.now()),
            connector: Some(connector),
            entropy: Entropy::seeded(7_000 + self.played.fetch_add(1, Ordering::Relaxed) * 1_000_003),
        };
        let exit = tokio::time::timeout(limit, run(words.iter().map(Into::into), stage)).await;
        Played { out: out.text(), err: err.text(), exit: exit.ok().map(|exit| exit.code()) }
    }
}

/// What happens in a world beside the commands: controllers, agents.
pub async fn act(client: &Client, words: &[String]) -> Result<(), String> {
    let word = |index: usize| words.get(index).map(String::as_str).unwrap_or_default();
    let failed = |error: setpoint_client::Error| error.to_string();
    match word(0) {
        // status KIND NAMESPACE/NAME JSON
        "status" => {
            let (api, name) = named(client, word(1), word(2));
            let patch: serde_json::Value =
                serde_json::from_str(word(3)).map_err(|error| error.to_string())?;
            let options = PatchOptions { status: true, ..PatchOptions::default() };
            api.patch(name, &Patch::Merge(serde_json::json!({ "status": patch })), &options)
                .await
                .map_err(failed)?;
        }
        // patch KIND NAMESPACE/NAME JSON
        "patch" => {
            let (api, name) = named(client, word(1), word(2));
            let patch = serde_json::from_str(word(3)).map_err(|error| error.to_string())?;
            api.patch(name, &Patch::Merge(patch), &PatchOptions::default()).await.map_err(failed)?;
        }
        // create JSON
        "create" => {
            let object: Object = serde_json::from_str(word(1)).map_err(|error| error.to_string())?;
            let scope = match object.metadata.namespace.as_str() {
                "" => Scope::Cluster,
                namespace => Scope::namespace(namespace),
            };
            let api = client.dynamic(&object.kind, scope);
            let status = object.status.clone();
            let written = api.create(&object, &WriteOptions::default()).await.map_err(failed)?;
            if !status.is_null() {
                let object = Object { status, ..written.object };
                api.update_status(&object, &WriteOptions::default()).await.map_err(failed)?;
            }
        }
        // delete KIND NAMESPACE/NAME
        "delete" => {
            let (api, name) = named(client, word(1), word(2));
            api.delete(name, &Default::default()).await.map_err(failed)?;
        }
        other => return Err(format!("nobody knows how to {other:?}")),
    }
    Ok(())
}

fn named<'w>(
    client: &Client,
    kind: &str,
    key: &'w str,
) -> (setpoint_client::Api<setpoint_client::Dynamic>, &'w str) {
    match key.split_once('/') {
        Some((namespace, name)) => (client.dynamic(kind, Scope::namespace(namespace)), name),
        None => (client.dynamic(kind, Scope::Cluster), key),
    }
}
