//! Around the plan: what is read before it, and how it is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_client::{Api, Dynamic, Scope, Typed};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::ensure::{Deletion, EnsureError, ensure_applied, ensure_deleted, ensure_status};
use setpoint_runtime::informer::{Informers, Selection};
use setpoint_runtime::recorder::Note;
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::KindDefinition;
use setpoint_types::object::{WriteOperation, find_condition};
use setpoint_types::{Metadata, Object, ObjectKey, registry};
use tokio::time::timeout;

use crate::folder::{self, Files};
use crate::kind::{Applied, Directory, DirectoryStatus, Item};
use crate::plan::{Observed, Plan, Wanted, plan};
use crate::report::Report;
use crate::scopes::Scopes;
use crate::{LABEL, Settings};

/// A kind that is new to this process is waited for so long.
const SYNC: Duration = Duration::from_secs(10);

/// Keeps the cluster as the files of a folder say.
pub struct Mirror {
    pub settings: Settings,
    pub directories: Cache<Directory>,
    pub definitions: Cache<KindDefinition>,
    /// For caches of kinds that turn up in the files.
    pub informers: Informers,
}

impl Reconciler for Mirror {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        let directory = self.directories.read(run.key())?;
        let Some(directory) = directory.filter(|it| !it.metadata.is_terminating()) else { return Ok(None) };
        let folder = self.settings.folder.clone();
        let files = tokio::task::spawn_blocking(move || folder::read(&folder)).await;
        let files = files.map_err(ReconcileError::retry)?.map_err(ReconcileError::retry)?;
        let (scopes, served) = self.scopes(&files)?;
        let mut seen = BTreeMap::new();
        for kind in kinds(&directory, &files).into_iter().filter(|kind| served.contains(kind)) {
            let namespaced = scopes.is_namespaced(&kind).unwrap_or_default();
            self.see(&kind, namespaced, &mut seen).await?;
        }
        let manager = run.client().manager().to_owned();
        Ok(Some(Observed { manager, directory, files, scopes, seen, now: run.now() }))
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let mut directory = seen.directory.clone();
        if let Some(inventory) = &plan.record {
            let before = directory.status.clone().unwrap_or_default();
            let status = DirectoryStatus { inventory: inventory.clone(), ..before };
            directory = show(run, directory, status).await?;
        }
        let mut report = Report::of(&plan);
        for wanted in &plan.apply {
            match self.apply(run, wanted).await {
                Ok(applied) => report.applied(wanted, applied),
                Err(error) => report.not_applied(wanted, &of_one_object(error)?),
            }
        }
        for item in &plan.prune {
            match self.prune(run, item).await {
                Ok(true) => {}
                Ok(false) => report.not_pruned(item, None),
                Err(error) => report.not_pruned(item, Some(&of_one_object(error)?)),
            }
        }
        let status = report.status(&directory, seen.now);
        if let Some(note) = note(run, &seen.directory, &status) {
            run.event(note).await;
        }
        show(run, directory, status).await?;
        Ok(Action::RequeueAfter(self.settings.poll))
    }
}

impl Mirror {
    /// What is known of kinds, and which of them the cluster serves now.
    fn scopes(&self, files: &Files) -> Result<(Scopes, BTreeSet<String>), ReconcileError> {
        let mut scopes = Scopes::default();
        let mut served: BTreeSet<String> =
            registry::kinds().iter().map(|it| it.info.name.to_owned()).collect();
        for definition in self.definitions.snapshot().iter() {
            let definition = definition.read()?;
            scopes.add(&definition.spec);
            if !definition.metadata.is_terminating() {
                served.insert(definition.spec.names.kind.clone());
            }
        }
        files.values().flatten().flatten().for_each(|manifest| scopes.add_manifest(manifest));
        Ok((scopes, served))
    }

    /// The objects of a kind that carry our label.
    async fn see(
        &self,
        kind: &str,
        namespaced: bool,
        seen: &mut BTreeMap<ObjectKey, Metadata>,
    ) -> Result<(), ReconcileError> {
        let ours = Selection::everywhere().labels(format!("{LABEL}={}", self.settings.name));
        let cache = self.informers.dynamic(kind, namespaced, ours);
        let synced = timeout(SYNC, cache.synced()).await;
        synced.map_err(ReconcileError::retry)?.map_err(ReconcileError::retry)?;
        for cached in cache.snapshot().iter() {
            seen.insert(cached.key().of_kind(kind), cached.metadata()?);
        }
        Ok(())
    }

    async fn apply(&self, run: &Run, wanted: &Wanted) -> Result<Applied, EnsureError> {
        let api = api(run, &wanted.item);
        let applied = ensure_applied(&api, None, &wanted.object, wanted.force).await?;
        let metadata = applied.object.map(|object| object.metadata).unwrap_or_default();
        let (uid, generation) = (metadata.uid, metadata.generation);
        Ok(Applied { uid, generation, digest: wanted.digest.clone() })
    }

    /// Deletes what this controller has applied, as it is now, and nothing else. False while it goes.
    async fn prune(&self, run: &Run, item: &Item) -> Result<bool, EnsureError> {
        let api = api(run, item);
        let Some(object) = api.find(&item.name).await? else { return Ok(true) };
        if !is_applied_by(&object, run.client().manager()) {
            return Ok(true);
        }
        let as_seen = Deletion { unchanged: true, ..Deletion::default() };
        Ok(ensure_deleted(&api, &object, as_seen).await?.is_gone())
    }
}

fn api(run: &Run, item: &Item) -> Api<Dynamic> {
    let scope = if item.namespace.is_empty() { Scope::Cluster } else { Scope::namespace(&item.namespace) };
    run.client().dynamic(&item.kind, scope)
}

fn is_applied_by(object: &Object, manager: &str) -> bool {
    object.metadata.managed_fields.iter().any(|entry| {
        entry.manager == manager && entry.operation == WriteOperation::Apply && entry.subresource.is_empty()
    })
}

/// Every kind in the files or the inventory.
fn kinds(directory: &Typed<Directory>, files: &Files) -> BTreeSet<String> {
    let applied = directory.status.iter().flat_map(|status| &status.inventory).map(|item| &item.kind);
    let wanted = files.values().flatten().flatten().map(|manifest| &manifest.kind);
    applied.chain(wanted).cloned().collect()
}

/// An error about one object does not stop the others. One about the cluster, or about who may write, ends the run.
fn of_one_object(error: EnsureError) -> Result<EnsureError, ReconcileError> {
    let ends_run = match error.call() {
        Some(call) => call.is_transient() || call.is_fenced() || call.is_ambiguous(),
        None => false,
    };
    if ends_run { Err(error.into()) } else { Ok(error) }
}

/// Shows a status, and answers with the Directory as it is then.
async fn show(
    run: &Run,
    directory: Typed<Directory>,
    status: DirectoryStatus,
) -> Result<Typed<Directory>, ReconcileError> {
    let wanted = Typed { status: Some(status), ..directory.clone() };
    let shown = ensure_status(&run.client().api::<Directory>(), &directory, wanted).await?;
    Ok(shown.object.unwrap_or(directory))
}

/// Told once: when the Directory begins to show it.
fn note(run: &Run, before: &Typed<Directory>, status: &DirectoryStatus) -> Option<Note> {
    let ready = find_condition(&status.conditions, "Ready")?;
    let shown = before.status.as_ref().and_then(|status| find_condition(&status.conditions, "Ready"));
    let is_news = shown.is_none_or(|shown| shown.reason != ready.reason || shown.message != ready.message);
    let is_bad = !status.problems.is_empty();
    let note = || Note::warning(run.reference(), ready.reason.clone()).message(ready.message.clone());
    (is_news && is_bad).then(note)
}
