//! What is done about a Greeter: observe, plan, execute.

use serde::Serialize;
use serde_json::json;
use setpoint_client::{Dynamic, Scope, Typed};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_runtime::ensure::{Owner, ensure_applied, ensure_status};
use setpoint_runtime::{Action, ReconcileError, Reconciler, Run};
use setpoint_types::Timestamp;
use setpoint_types::object::Object;

use crate::kind::{Greeter, GreeterStatus};

/// Decides by what its caches have. It remembers nothing between runs.
pub struct GreeterReconciler {
    pub greeters: Cache<Greeter>,
    pub workloads: Cache<Dynamic>,
}

/// All that the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub greeter: Typed<Greeter>,
    pub workload: Option<Object>,
    pub now: Timestamp,
}

/// What is to be done: so exact that doing it needs no further choice.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub workload: Object,
    pub status: GreeterStatus,
}

impl Reconciler for GreeterReconciler {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        let Some(greeter) = self.greeters.read(run.key())? else { return Ok(None) };
        if greeter.metadata.is_terminating() {
            return Ok(None);
        }
        // The workload has the greeter's name, so it is found under the greeter's key.
        let workload = self.workloads.read(run.key())?;
        Ok(Some(Observed { greeter, workload, now: run.now() }))
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, seen: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        let namespace = run.key().namespace();
        let workloads = run.client().dynamic("Workload", Scope::namespace(namespace));
        ensure_applied(&workloads, seen.workload.as_ref(), &plan.workload, false).await?;

        let greeters = run.client().api::<Greeter>().namespace(namespace);
        let wanted = Typed { status: Some(plan.status), ..seen.greeter.clone() };
        ensure_status(&greeters, &seen.greeter, wanted).await?;
        Ok(Action::Done)
    }
}

/// Pure: the same observation always gives the same plan.
pub fn plan(observed: &Observed) -> Plan {
    let Observed { greeter, workload, now } = observed;
    let (metadata, spec) = (&greeter.metadata, &greeter.spec);

    let mut wanted = Object::new("Workload", &metadata.namespace, &metadata.name).with_spec(&json!({
        "replicas": spec.replicas,
        "template": {
            "command": ["sh", "-c", "while true; do echo \"$0\"; sleep 60; done", spec.message],
        },
    }));
    wanted.metadata.owners.push(Owner::of(greeter).as_controller());

    let ready = workload.as_ref().and_then(|it| it.status["replicas"]["serving"].as_u64()).unwrap_or(0);
    let mut status = greeter.status.clone().unwrap_or_default();
    status.observed_generation = metadata.generation;
    status.ready_replicas = u32::try_from(ready).unwrap_or(u32::MAX);
    let statement = if status.ready_replicas >= spec.replicas {
        Statement::holds("Ready", "AllServe")
    } else {
        let message = format!("{ready} of {} serve", spec.replicas);
        Statement::fails("Ready", "TooFewServe").message(message)
    };
    Conditions::of(&mut status.conditions, metadata.generation, *now).set(statement);
    Plan { workload: wanted, status }
}

#[cfg(test)]
mod tests {
    use setpoint_types::object::ConditionStatus;

    use super::*;
    use crate::kind::GreeterSpec;

    fn observed(serving: Option<u32>) -> Observed {
        let spec = GreeterSpec { message: "Hello!".into(), replicas: 2 };
        let mut greeter = Typed::<Greeter>::new("hello", spec);
        greeter.metadata.namespace = "default".into();
        let workload = serving.map(|serving| {
            Object::new("Workload", "default", "hello")
                .with_status(&json!({"replicas": {"serving": serving}}))
        });
        Observed { greeter, workload, now: Timestamp(1) }
    }

    #[test]
    fn the_workload_says_the_message() {
        let plan = plan(&observed(None));
        assert_eq!(plan.workload.spec["replicas"], 2);
        assert_eq!(plan.workload.spec["template"]["command"][3], "Hello!");
        assert!(plan.workload.metadata.owners[0].controller);
    }

    #[test]
    fn it_is_ready_when_all_serve() {
        let ready = |serving| plan(&observed(serving)).status.conditions[0].status;
        assert_eq!(ready(None), ConditionStatus::False);
        assert_eq!(ready(Some(1)), ConditionStatus::False);
        assert_eq!(ready(Some(2)), ConditionStatus::True);
    }
}
