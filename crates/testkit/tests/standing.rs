//! What a controller shows on the objects of a user's own kind, while the server is away just when there is something to show.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_client::{Dynamic, Scope, WriteOptions};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run};
use setpoint_testkit::{Fault, Faults, Plan, World};
use setpoint_types::kinds::KindDefinitionSpec;
use setpoint_types::object::Object;

/// Finds nothing good enough, and while it says so for the first time the server goes away.
struct Fussy {
    gadgets: Cache<Dynamic>,
    faults: Faults,
    gone: AtomicBool,
}

impl Reconciler for Fussy {
    type Observed = Object;
    type Plan = Value;

    async fn observe(&self, run: &Run) -> Result<Option<Object>, ReconcileError> {
        Ok(self.gadgets.read(run.key())?)
    }

    fn plan(&self, gadget: &Object) -> Value {
        gadget.spec.clone()
    }

    async fn execute(&self, _: &Run, _: &Object, spec: Value) -> Result<Action, ReconcileError> {
        if spec["size"] != 1 {
            return Ok(Action::Done);
        }
        if !self.gone.swap(true, Ordering::Relaxed) {
            self.faults.inject(Fault::Gone(Duration::from_secs(120)));
        }
        // As somebody writes it who has not read what a reason is.
        Err(ReconcileError::terminal("too small!", "one is too small"))
    }
}

fn definition() -> KindDefinitionSpec {
    let condition = json!({"type": "object", "x-setpoint-preserve-unknown": true, "required": ["type"],
        "properties": {"type": {"type": "string"}}});
    let conditions = json!({"type": "array", "items": condition,
        "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["type"]});
    let definition = json!({
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"conditions": conditions}},
        }},
    });
    serde_json::from_value(definition).expect("a definition")
}

fn gadget(size: u32) -> Object {
    Object::new("Gadget", "default", "g").with_spec(&json!({"size": size}))
}

/// The conditions of the gadget, as `reason: message`.
async fn shown(world: &World) -> Vec<String> {
    let api = world.client().dynamic("Gadget", Scope::namespace("default"));
    let gadget = api.get("g").await.expect("it is there");
    let conditions = gadget.status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value| [&it["reason"], &it["message"]].map(|it| it.as_str().unwrap_or("?").to_owned());
    conditions.iter().map(|it| text(it).join(": ")).collect()
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_shown_while_the_server_was_away_is_shown_once_it_is_back() {
    let world = World::new();
    let faults = Faults::new(&world, &Plan::default());
    let client = faults.process("controller").client();
    let manager = Manager::new(client, ManagerSettings::named("fussy")).expect("good settings");
    let gadgets = manager.informers().dynamic("Gadget", true, Selection::everywhere());
    let fussy = Fussy { gadgets: gadgets.clone(), faults, gone: AtomicBool::default() };
    let controller = Controller::new("fussy", fussy).defines(definition()).for_kind(&gadgets);
    manager.add(controller).expect("a good controller");
    let mut ready = manager.ready();
    tokio::spawn(async move { manager.run(std::future::pending()).await });
    ready.wait_for(|ready| *ready).await.expect("it starts");

    let api = world.client().dynamic("Gadget", Scope::namespace("default"));
    let made = api.create(&gadget(1), &WriteOptions::default()).await.expect("a gadget");
    world.pass(Duration::from_secs(60)).await;
    assert!(shown(&world).await.is_empty(), "nobody could be asked");
    // Long before the resync, which is every hour.
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(shown(&world).await, ["Terminal: too small!: one is too small"]);

    let revision = api.get("g").await.expect("it is there").metadata.revision;
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(api.get("g").await.expect("it is there").metadata.revision, revision, "said once");
    let mut mended = gadget(2);
    mended.metadata.uid = made.object.metadata.uid;
    api.update(&mended, &WriteOptions::default()).await.expect("larger");
    world.pass(Duration::from_secs(60)).await;
    assert!(shown(&world).await.is_empty(), "and taken back");
}
