//! Around the plan: what is read before it, and how it is carried out. Nothing is decided here.

use std::time::Duration;

use setpoint_client::{Partial, Scope, Typed, WriteOptions};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::ensure::{Deletion, EnsureError, ensure_applied, ensure_deleted, ensure_status};
use setpoint_runtime::recorder::Note;
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::Namespace;
use setpoint_types::{KindType, Metadata, ObjectKey, Uid};

use crate::kind::{Config, ConfigSpec};
use crate::mark::SOURCE;
use crate::plan::{Observed, Plan, plan};

/// The index by which all configs of a name are found.
pub(crate) const BY_NAME: &str = "name";
/// Before a run goes on where the last one stopped.
const BREATH: Duration = Duration::from_millis(100);

/// Keeps the copies of every source as they should be.
pub struct Distributor {
    /// The namespace that sources are in.
    pub home: String,
    /// The configs of that namespace.
    pub sources: Cache<Config>,
    /// All configs, found by name.
    pub configs: Cache<Config>,
    pub namespaces: Cache<Partial<Namespace>>,
}

impl Reconciler for Distributor {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        let source = self.sources.read(run.key())?;
        let found = self.configs.find(BY_NAME, run.key().name());
        let elsewhere = found.iter().filter(|config| config.key().namespace() != self.home);
        let namesakes = elsewhere.map(|config| config.read()).collect::<Result<Vec<_>, _>>()?;
        if source.is_none() && namesakes.is_empty() {
            return Ok(None);
        }
        let snapshot = self.namespaces.snapshot();
        let namespaces = snapshot.iter().map(|namespace| namespace.read()).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Observed { home: self.home.clone(), source, namesakes, namespaces, now: run.now() }))
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        for copy in &plan.remove {
            self.remove(run, copy).await?;
        }
        for (namespace, uid) in &plan.repair {
            self.repair(run, self.copy(run, namespace, &plan), uid).await?;
        }
        for namespace in &plan.create {
            self.create(run, self.copy(run, namespace, &plan)).await?;
        }
        if let Some(message) = &plan.warn {
            run.event(Note::warning(run.reference(), "NameTaken").message(message)).await;
        }
        if let (Some(source), Some(status)) = (&seen.source, plan.status) {
            let api = run.client().api::<Config>().namespace(&self.home);
            let wanted = Typed { status: Some(status), ..source.clone() };
            ensure_status(&api, source, wanted).await?;
        }
        Ok(if plan.more { Action::RequeueAfter(BREATH) } else { Action::Done })
    }
}

impl Distributor {
    /// As it should be in a namespace.
    fn copy(&self, run: &Run, namespace: &str, plan: &Plan) -> Typed<Config> {
        let spec = ConfigSpec { data: plan.data.clone(), namespaces: String::new() };
        let mut copy = Typed::<Config>::new(run.key().name(), spec).in_namespace(namespace);
        copy.metadata.labels.insert(SOURCE.to_owned(), self.home.clone());
        copy
    }

    /// Only where there is nothing of this name, in the moment of the write: whatever came since it was looked at is not ours.
    async fn create(&self, run: &Run, copy: Typed<Config>) -> Result<(), ReconcileError> {
        let key = ObjectKey::new(Config::INFO.name, &copy.metadata.namespace, &copy.metadata.name);
        let creation = run.client().transaction().if_absent(&key).apply(&copy, false);
        creation.commit(&WriteOptions::default()).await?;
        Ok(())
    }

    /// Takes back what others changed, of the copy that was looked at and of no later object of its name.
    async fn repair(&self, run: &Run, mut copy: Typed<Config>, uid: &Uid) -> Result<(), EnsureError> {
        copy.metadata.uid = uid.clone();
        let api = run.client().api::<Config>().namespace(&copy.metadata.namespace);
        ensure_applied(&api, None, &copy, true).await.map(drop)
    }

    /// Only as it was seen: whoever takes the label off in this moment keeps the object.
    async fn remove(&self, run: &Run, copy: &Metadata) -> Result<(), EnsureError> {
        let scope = Scope::namespace(&copy.namespace);
        let api = run.client().shaped::<Partial<Config>>(Config::INFO.name, scope);
        let as_seen = Deletion { unchanged: true, ..Deletion::default() };
        ensure_deleted(&api, copy, as_seen).await.map(drop)
    }
}
