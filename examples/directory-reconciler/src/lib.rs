//! Directory reconciler: the manifests of a folder are applied, kept so, and pruned when their files go (GitOps).
//!
//! | file | what |
//! |---|---|
//! | `kind` | the kind `Directory`: what is asked of one folder, and the inventory of what was made of it |
//! | `folder`, `manifest` | the files, and the objects in them |
//! | `scopes` | which kinds have namespaces |
//! | `plan` | files, inventory and cluster → what is to be done; pure |
//! | `report` | what came of it → what the Directory shows; pure |
//! | `reconciler` | reading before the plan, and writing after it |
//!
//! A folder tells nobody that it has changed, so a run looks again after a while, and the cluster is looked at in the same run, in caches:
//! while nothing changes, nothing is asked of the server.
//!
//! The inventory makes pruning exact. An object is written into it *before* it is applied and taken out *after* it is gone, so that no crash
//! loses sight of one; and what is pruned has to show, by its managed fields, that it was this controller that applied it.

pub mod folder;
pub mod kind;
pub mod manifest;
pub mod plan;
mod reconciler;
pub mod report;
mod scopes;

use std::path::PathBuf;
use std::time::Duration;

use kind::{Directory, DirectorySpec};
pub use reconciler::Mirror;
use setpoint_client::{Client, Error, Typed, WriteOptions};
use setpoint_runtime::ensure::{EnsureError, ensure_kind};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Controller, Manager, ManagerError, ManagerSettings, Predicate};
use setpoint_types::kinds::{KindDefinition, KindDefinitionSpec};

/// On everything that is applied: the Directory it comes from.
pub const LABEL: &str = "directory-reconciler.example.com/directory";

/// What is reconciled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Directory's. One process, or several replicas of it, is responsible for one.
    pub name: String,
    pub folder: PathBuf,
    /// Between two looks.
    pub poll: Duration,
}

impl Settings {
    /// The controller's name: that of its lease, and of the manager of every field it applies.
    pub fn controller(&self) -> String {
        format!("directory-{}", self.name)
    }
}

/// Why the program ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the kind Directory could not be defined")]
    Kind(#[from] EnsureError),
    #[error("the Directory could not be created")]
    Directory(#[from] Error),
    #[error("the controller ended")]
    Manager(#[from] ManagerError),
}

/// Reconciles a folder, until `shutdown` ends.
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    tokio::pin!(shutdown);
    let definer = client.with_manager(settings.controller());
    tokio::select! {
        prepared = prepare(&definer, &settings.name) => prepared?,
        () = &mut shutdown => return Ok(()),
    }
    let manager = Manager::new(client, ManagerSettings::named(&settings.controller()))?;
    manager.add(controller(&manager, settings))?;
    Ok(manager.run(shutdown).await?)
}

/// The kind is defined, and the Directory is there.
async fn prepare(client: &Client, name: &str) -> Result<(), RunError> {
    ensure_kind(client, KindDefinitionSpec::of::<Directory>()).await?;
    let directory = Typed::<Directory>::new(name, DirectorySpec::default());
    loop {
        match client.api::<Directory>().create(&directory, &WriteOptions::default()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_already_exists() => return Ok(()),
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_secs(1)).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// What the controller looks at, and what wakes it.
pub fn controller(manager: &Manager, settings: Settings) -> Controller {
    let this = Selection::everywhere().fields(format!("metadata.name={}", settings.name));
    let directories = manager.informers().cache::<Directory>(this);
    let definitions = manager.informers().cache::<KindDefinition>(Selection::everywhere());
    let name = settings.controller();
    let informers = manager.informers().clone();
    Controller::new(&name, Mirror { settings, directories: directories.clone(), definitions, informers })
        .for_kind(&directories)
        // Its own status is no news to it.
        .only_if(Predicate::generation_changed())
}
