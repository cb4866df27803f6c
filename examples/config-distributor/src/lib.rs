//! Config distributor: a `Config` in one namespace, labelled for it, is copied into every other namespace and kept equal there.
//!
//! | file | what |
//! |---|---|
//! | `kind` | the kind `Config`, as Rust types |
//! | `mark` | how a copy is recognised as one of ours |
//! | `plan` | what is there → what is to be done; pure |
//! | `reconciler` | reading before the plan, and writing after it |
//!
//! The key of a run is the source. A run sees the source, the namespaces, and every `Config` of the source's name; so one rule covers new
//! namespaces, edited copies, a source that went, and whatever happened while no distributor was running.

pub mod kind;
pub mod mark;
pub mod plan;
mod reconciler;

use kind::Config;
pub use reconciler::Distributor;
use setpoint_client::Client;
use setpoint_runtime::cache::{Index, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Controller, Manager, ManagerError, ManagerSettings, Predicate};
use setpoint_types::kinds::{KindDefinitionSpec, Namespace};

/// The controller's name: that of its lease, and of the manager of every field it writes.
pub const NAME: &str = "config-distributor";

/// Distributes the configs of the namespace `home`, until `shutdown` ends.
pub async fn run(client: Client, home: &str, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
    let manager = Manager::new(client, ManagerSettings::named(NAME))?;
    manager.add(controller(&manager, home))?;
    manager.run(shutdown).await
}

/// What the controller looks at, and what wakes which key.
pub fn controller(manager: &Manager, home: &str) -> Controller {
    let sources = manager.informers().cache::<Config>(Selection::namespace(home));
    let configs = manager.informers().cache::<Config>(Selection::everywhere());
    let namespaces = manager.informers().metadata::<Namespace>(Selection::everywhere());
    configs.add_index(Index::new(reconciler::BY_NAME, |entry| Ok(vec![entry.key().name().to_owned()])));
    let distributor = Distributor {
        home: home.to_owned(),
        sources: sources.clone(),
        configs: configs.clone(),
        namespaces: namespaces.clone(),
    };
    let (of_copy, of_namespace) = (home.to_owned(), sources.clone());
    Controller::new(NAME, distributor)
        .defines(KindDefinitionSpec::of::<Config>())
        .for_kind(&sources)
        // Its own status is no news to it.
        .only_if(Predicate::generation_changed().or(Predicate::labels_changed()))
        // A copy, or whatever stands in its place, is called like its source.
        .watches(&configs, move |delta, wake| wake(Key::new(&of_copy, delta.key.name())))
        .only_if({
            let home = home.to_owned();
            move |delta: &setpoint_runtime::cache::Delta| delta.key.namespace() != home
        })
        // A namespace concerns every source. One that is not in the cache yet wakes by itself when it comes.
        .watches(&namespaces, move |_, wake| {
            of_namespace.snapshot().iter().for_each(|source| wake(source.key().clone()));
        })
        .only_if(Predicate::labels_changed().or(Predicate::changed(|namespace| namespace.deleted)))
}
