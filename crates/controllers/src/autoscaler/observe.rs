//! What is read before an autoscaler decides: its target, what was reported, and when that last changed which reasons depend on.

use serde_json::Value;
use setpoint_client::{Client, Scope, Typed};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::{
    Autoscaler, Metric, PendingCount, PlacementPolicy, Quota, Replica, Stage, Workload,
};
use setpoint_types::object::Object;
use setpoint_types::{FieldProblem, Generation, KindType, Metadata, Revision, Timestamp};

use super::hold::{Dependencies, Waiting};
use super::plan::{Observed, Target};
use super::proposal::{Measured, Part};
use super::report::{METRIC, USAGE, sample, unit_of_metric, unit_of_usage};
use super::{BY_WORKLOAD, NAME};

/// The path of the field that is decided here.
pub const REPLICAS: &str = ".spec.replicas";

/// What is looked at.
pub struct Views {
    pub autoscalers: Cache<Autoscaler>,
    pub workloads: Cache<Workload>,
    pub replicas: Cache<Replica>,
    pub quotas: Cache<Quota>,
    pub policies: Cache<PlacementPolicy>,
}

impl Views {
    pub async fn observe(
        &self,
        client: &Client,
        key: &Key,
        now: Timestamp,
    ) -> Result<Option<Observed>, ReconcileError> {
        let Some(autoscaler) = self.autoscalers.read(key)? else { return Ok(None) };
        let spec = &autoscaler.spec;
        let is_workload = spec.target.kind == Workload::INFO.name;
        let target = match is_workload {
            true => self.workload(key.namespace(), &spec.target.name)?,
            false => other(client, key.namespace(), &spec.target.kind, &spec.target.name).await?,
        };
        let serving =
            if is_workload { self.serving(key.namespace(), &spec.target.name)? } else { Vec::new() };
        let measured =
            spec.metrics.iter().map(|metric| measured(&autoscaler, metric, &serving, now)).collect();
        let depends = self.depends(key.namespace());
        Ok(Some(Observed { target, measured, depends, now, autoscaler }))
    }

    fn workload(&self, namespace: &str, name: &str) -> Result<Option<Target>, FieldProblem> {
        let Some(workload) = self.workloads.read(&Key::new(namespace, name))? else { return Ok(None) };
        let status = workload.status.unwrap_or_default();
        let counts = &status.replicas;
        Ok(Some(Target {
            uid: workload.metadata.uid.clone(),
            replicas: workload.spec.replicas,
            present: counts.admitted,
            serving: counts.ready + counts.serving,
            waiting: Waiting {
                generation: workload.metadata.generation,
                observed_generation: Some(status.observed_generation),
                reasons: status.pending_reasons,
            },
            decided_by: decided_by(&workload.metadata),
        }))
    }

    fn serving(&self, namespace: &str, workload: &str) -> Result<Vec<Typed<Replica>>, FieldProblem> {
        let found = self.replicas.find(BY_WORKLOAD, workload);
        let own = found.into_iter().filter(|replica| replica.key().namespace() == namespace);
        let read: Vec<Typed<Replica>> = own.map(|replica| replica.read()).collect::<Result<_, _>>()?;
        let serves = |it: &Typed<Replica>| {
            let stage = it.status.as_ref().map(|status| status.stage);
            !it.metadata.is_terminating() && matches!(stage, Some(Stage::Ready | Stage::Serving))
        };
        Ok(read.into_iter().filter(serves).collect())
    }

    /// When that last changed which reasons depend on.
    fn depends(&self, namespace: &str) -> Dependencies {
        let quotas = self.quotas.snapshot();
        let policies = self.policies.snapshot();
        Dependencies {
            quotas: quotas.namespace(namespace).map(|it| it.revision()).max().unwrap_or(Revision::NONE),
            policies: policies.iter().map(|it| it.revision()).max().unwrap_or(Revision::NONE),
        }
    }
}

/// As a whole if somebody reported that, else by parts if replicas did.
fn measured(
    autoscaler: &Typed<Autoscaler>,
    metric: &Metric,
    serving: &[Typed<Replica>],
    now: Timestamp,
) -> Measured {
    let text = |metadata: &Metadata, prefix: &str| {
        metadata.annotations.get(&format!("{prefix}{}", metric.name)).cloned()
    };
    let whole = text(&autoscaler.metadata, METRIC);
    match sample(whole.as_deref(), unit_of_metric(metric), metric, now) {
        Ok(sample) => Measured::Whole(sample),
        Err(why) => {
            let part = |replica: &Typed<Replica>| Part {
                reserved: replica.spec.template.resources.get(&metric.name).unwrap_or(0),
                sample: sample(text(&replica.metadata, USAGE).as_deref(), unit_of_usage(metric), metric, now)
                    .ok(),
            };
            let parts: Vec<Part> = serving.iter().map(part).collect();
            if parts.iter().any(|part| part.sample.is_some()) {
                Measured::Parts(parts)
            } else {
                Measured::Missing(why)
            }
        }
    }
}

/// A kind of a user's own. What it does not say of its replicas is not known.
async fn other(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<Option<Target>, ReconcileError> {
    let Some(object) = client.dynamic(kind, Scope::namespace(namespace)).find(name).await? else {
        return Ok(None);
    };
    Ok(Some(target_of(&object)))
}

fn target_of(object: &Object) -> Target {
    let number = |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok());
    let counts = object.status.get("replicas");
    let count = |name: &str| number(counts.and_then(|counts| counts.get(name))).unwrap_or(0);
    let observed = object.status.get("observedGeneration").and_then(Value::as_u64);
    let reasons: Vec<PendingCount> = object
        .status
        .get("pendingReasons")
        .and_then(|reasons| serde_json::from_value(reasons.clone()).ok())
        .unwrap_or_default();
    Target {
        uid: object.metadata.uid.clone(),
        replicas: number(object.spec.get("replicas")).unwrap_or(0),
        present: count("admitted"),
        serving: count("ready") + count("serving"),
        waiting: Waiting {
            generation: object.metadata.generation,
            observed_generation: observed.map(Generation),
            reasons,
        },
        decided_by: decided_by(&object.metadata),
    }
}

/// Who else decides the number, unless it is decided here.
fn decided_by(metadata: &Metadata) -> Option<String> {
    let owners =
        metadata.managed_fields.iter().filter(|entry| entry.fields.iter().any(|path| path == REPLICAS));
    let managers: Vec<&str> = owners.map(|entry| entry.manager.as_str()).collect();
    managers.iter().find(|manager| **manager != NAME).map(|manager| (*manager).to_owned())
}
