//! What is wrong is refused, at the field that is wrong. Each case is an example with one change.

mod settle;

use std::path::PathBuf;

use serde_json::{Value, json};
use setpoint_objects::{immutable, lists};
use setpoint_types::{Object, registry};
use settle::{fill, topology};

fn example(kind: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/examples/{kind}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Sets a place in an object, or takes it away with null. `/spec/ports/0/name`
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    match object.pointer_mut(parent).unwrap_or_else(|| panic!("{parent} is not in the example")) {
        Value::Object(fields) if value.is_null() => drop(fields.remove(name)),
        Value::Object(fields) => drop(fields.insert(name.to_owned(), value)),
        Value::Array(elements) if name == "-" => elements.push(value),
        Value::Array(elements) => elements[name.parse::<usize>().expect("an index")] = value,
        _ => panic!("{parent} has no parts"),
    }
}

fn read(json: Value) -> Object {
    let mut object: Object = serde_json::from_value(json).expect("an object");
    fill(&topology(registry::kind(&object.kind).expect("a kind")), &mut object.spec);
    object
}

fn paths(old: Option<&Object>, new: &Object) -> Vec<String> {
    let kind = registry::kind(&new.kind).expect("a kind");
    let topology = topology(kind);
    let mut problems = kind.validate(old, new);
    problems.extend(lists::check(&topology, topology.spec(), &new.spec, ".spec"));
    problems.extend(lists::check(&topology, topology.status(), &new.status, ".status"));
    if let Some(old) = old {
        problems.extend(immutable::check(&topology, topology.spec(), &old.spec, &new.spec, ".spec"));
    }
    problems.into_iter().map(|problem| problem.path).collect()
}

/// An example with this change has exactly this problem.
fn refuse(kind: &str, cases: &[(&str, Value, &str)]) {
    for (pointer, value, path) in cases {
        let mut json = example(kind);
        set(&mut json, pointer, value.clone());
        assert_eq!(paths(None, &read(json)), [*path], "{kind} with {pointer} = {value}");
    }
}

/// The example cannot be changed so.
fn refuse_change(kind: &str, cases: &[(&str, Value, &str)]) {
    let old = read(example(kind));
    for (pointer, value, path) in cases {
        let mut json = example(kind);
        set(&mut json, pointer, value.clone());
        assert_eq!(paths(Some(&old), &read(json)), [*path], "{kind} changed to {pointer} = {value}");
    }
}

#[test]
fn every_problem_of_an_object_is_reported_at_once() {
    let workload = read(json!({
        "kind": "Workload",
        "metadata": {"namespace": "Risk", "name": "web_1", "labels": {"a b": "c"}},
        "spec": {
            "replicas": -1,
            "template": {"resources": {"cpu": "half", "gpu": "1.5"}, "ports": [{"port": 70000}], "onDisconnect": "drop"},
            "rollout": {"maxSurge": "x%"},
        },
        "status": {"observedGeneration": "new"},
    }));
    assert_eq!(
        paths(None, &workload),
        [
            ".metadata.namespace",
            ".metadata.name",
            ".metadata.labels.\"a b\"",
            ".spec.replicas",
            ".spec.rollout.maxSurge",
            ".spec.template.onDisconnect",
            ".spec.template.ports[0].name",
            ".spec.template.ports[0].port",
            ".spec.template.resources.cpu",
            ".spec.template.resources.gpu",
            ".status.observedGeneration",
            ".spec.template.ports[0]",
        ]
    );
}

#[test]
fn an_object_without_a_spec_lacks_what_is_required() {
    let required = [
        ("AdmissionPolicy", vec![".spec.match"]),
        ("Autoscaler", vec![".spec.target", ".spec.maxReplicas", ".spec.metrics"]),
        ("Decision", vec![".spec.object", ".spec.action", ".spec.component", ".spec.verdict"]),
        ("Event", vec![".spec.object", ".spec.reason", ".spec.component"]),
        ("KindDefinition", vec![".spec.names", ".spec.schema"]),
        ("Lease", vec![]),
        ("Namespace", vec![]),
        ("Node", vec![".spec.zone"]),
        ("Quota", vec![".spec.limits"]),
        ("Workload", vec![".spec.template"]),
    ];
    for (kind, expected) in required {
        let mut json = example(kind);
        set(&mut json, "/spec", Value::Null);
        assert_eq!(paths(None, &read(json)), expected, "{kind}");
    }
}

#[test]
fn workloads() {
    let template = "/spec/template";
    refuse(
        "Workload",
        &[
            ("/metadata/namespace", Value::Null, ".metadata.namespace"),
            ("/spec/replicas", json!(100_001), ".spec.replicas"),
            ("/spec/deadlineSeconds", json!(0), ".spec.deadlineSeconds"),
            ("/spec/rollout", json!({"maxSurge": 0, "maxUnavailable": "0%"}), ".spec.rollout.maxUnavailable"),
            ("/spec/rollout", json!({"maxUnavailable": "101%"}), ".spec.rollout.maxUnavailable"),
            ("/spec/rollout", json!({"maxSurge": -1}), ".spec.rollout.maxSurge"),
            ("/spec/rollout", json!({"minReadySeconds": 600}), ".spec.rollout.progressDeadlineSeconds"),
            ("/spec/rollout", json!({"strategy": "Canary"}), ".spec.rollout.strategy"),
            ("/spec/template/labels", json!({"a": "-"}), ".spec.template.labels.a"),
            ("/spec/template/labels", json!({"a/b/c": ""}), ".spec.template.labels.\"a/b/c\""),
            ("/spec/template/image", json!(""), ".spec.template.image"),
            ("/spec/template/env/-", json!({"name": "A-B"}), ".spec.template.env[2].name"),
            ("/spec/template/env/-", json!({"name": "MODE"}), ".spec.template.env[name=\"MODE\"]"),
            (
                "/spec/template/ports/-",
                json!({"name": "other", "port": 8080}),
                ".spec.template.ports[2].port",
            ),
            (
                "/spec/template/ports/-",
                json!({"name": "http", "port": 1}),
                ".spec.template.ports[name=\"http\"]",
            ),
            (
                "/spec/template/ports/-",
                json!({"name": "x", "protocol": "tcp"}),
                ".spec.template.ports[2].protocol",
            ),
            ("/spec/template/resources/memory", json!("2GB"), ".spec.template.resources.memory"),
            ("/spec/template/resources/cpu", json!(-1), ".spec.template.resources.cpu"),
            ("/spec/template/resources", json!({"a b": 1}), ".spec.template.resources.\"a b\""),
            ("/spec/template/limits/cpu", json!("400m"), ".spec.template.limits.cpu"),
            ("/spec/template/limits/gpu", json!(2), ".spec.template.limits.gpu"),
            ("/spec/template/priorityClass", json!("High!"), ".spec.template.priorityClass"),
            ("/spec/template/restartPolicy", json!("Sometimes"), ".spec.template.restartPolicy"),
            (
                "/spec/template/restartBackoff",
                json!({"initialSeconds": 9, "maxSeconds": 8}),
                ".spec.template.restartBackoff.initialSeconds",
            ),
            ("/spec/template/preStop", json!({"command": []}), ".spec.template.preStop.command"),
            (
                "/spec/template/terminationGraceSeconds",
                json!(86401),
                ".spec.template.terminationGraceSeconds",
            ),
            ("/spec/template/unknownGraceSeconds", json!("60"), ".spec.template.unknownGraceSeconds"),
        ],
    );
    let mut json = example("Workload");
    set(&mut json, &format!("{template}/image"), Value::Null);
    set(&mut json, &format!("{template}/command"), Value::Null);
    assert_eq!(paths(None, &read(json)), [".spec.template.command"]);
}

#[test]
fn probes() {
    let at = "/spec/template/readinessProbe";
    refuse(
        "Workload",
        &[
            (at, json!({}), ".spec.template.readinessProbe"),
            (
                at,
                json!({"tcp": {"port": "http"}, "exec": {"command": ["a"]}}),
                ".spec.template.readinessProbe",
            ),
            (at, json!({"tcp": {"port": "web"}}), ".spec.template.readinessProbe.tcp.port"),
            (at, json!({"grpc": {"port": "web"}}), ".spec.template.readinessProbe.grpc.port"),
            (at, json!({"http": {"port": "web"}}), ".spec.template.readinessProbe.http.port"),
            (at, json!({"http": {"port": "http", "path": "x"}}), ".spec.template.readinessProbe.http.path"),
            (
                at,
                json!({"tcp": {"port": "http"}, "timeoutSeconds": 11}),
                ".spec.template.readinessProbe.timeoutSeconds",
            ),
            (
                at,
                json!({"tcp": {"port": "http"}, "failureThreshold": 0}),
                ".spec.template.readinessProbe.failureThreshold",
            ),
            (
                "/spec/template/livenessProbe/successThreshold",
                json!(2),
                ".spec.template.livenessProbe.successThreshold",
            ),
        ],
    );
}

#[test]
fn placements() {
    let zone = "zone";
    refuse(
        "Workload",
        &[
            ("/spec/template/placement/zones/-", json!("EU"), ".spec.template.placement.zones[2]"),
            (
                "/spec/template/placement/zones/-",
                json!("eu-west"),
                ".spec.template.placement.zones[\"eu-west\"]",
            ),
            (
                "/spec/template/placement/nodeSelector",
                json!("a ~ b"),
                ".spec.template.placement.nodeSelector",
            ),
            (
                "/spec/template/placement/preferences/0/weight",
                json!(101),
                ".spec.template.placement.preferences[0].weight",
            ),
            (
                "/spec/template/placement/tolerations/0",
                json!({"value": "x"}),
                ".spec.template.placement.tolerations[0].value",
            ),
            (
                "/spec/template/placement/tolerations/0",
                json!({"key": "a b"}),
                ".spec.template.placement.tolerations[0].key",
            ),
            (
                "/spec/template/placement/tolerations/0",
                json!({"key": "a", "seconds": 1}),
                ".spec.template.placement.tolerations[0].seconds",
            ),
            (
                "/spec/template/placement/spread/-",
                json!({"topologyKey": zone, "maxSkew": 3}),
                ".spec.template.placement.spread[topologyKey=\"zone\"]",
            ),
            (
                "/spec/template/placement/spread/0/maxSkew",
                json!(0),
                ".spec.template.placement.spread[0].maxSkew",
            ),
            (
                "/spec/template/placement/spread/0/topologyKey",
                json!("a b"),
                ".spec.template.placement.spread[0].topologyKey",
            ),
            (
                "/spec/template/placement/near/0/selector",
                json!(""),
                ".spec.template.placement.near[0].selector",
            ),
            (
                "/spec/template/placement/near/-",
                json!({"selector": "app=risk-api", "topologyKey": "node", "required": true}),
                ".spec.template.placement.apart[0]",
            ),
        ],
    );
}

#[test]
fn batches() {
    let mut json = example("Workload");
    set(&mut json, "/spec/batch", json!({"completions": 0}));
    assert_eq!(
        paths(None, &read(json.clone())),
        [".spec.batch.completions", ".spec.template.restartPolicy", ".spec.replicas"]
    );
    set(&mut json, "/spec/batch", json!({"completions": 5}));
    set(&mut json, "/spec/replicas", Value::Null);
    set(&mut json, "/spec/template/restartPolicy", json!("OnFailure"));
    let batch = read(json.clone());
    assert_eq!(paths(None, &batch), [""; 0]);
    set(&mut json, "/spec/batch/completions", json!(6));
    assert_eq!(paths(Some(&batch), &read(json.clone())), [".spec.batch.completions"]);
    set(&mut json, "/spec/batch", Value::Null);
    assert_eq!(paths(Some(&batch), &read(json)), [".spec.batch", ".spec.batch.completions"]);
}

#[test]
fn tenancy_and_priorities() {
    refuse(
        "Namespace",
        &[
            ("/metadata/name", json!("a.b"), ".metadata.name"),
            ("/metadata/namespace", json!("a"), ".metadata.namespace"),
            ("/spec/weight", json!(0), ".spec.weight"),
            ("/status/phase", json!("Gone"), ".status.phase"),
            ("/status/conditions/0/reason", Value::Null, ".status.conditions[0].reason"),
            ("/status/conditions/0/reason", json!("two words"), ".status.conditions[0].reason"),
            ("/status/conditions/0/status", json!(true), ".status.conditions[0].status"),
            (
                "/status/conditions/-",
                json!({"type": "Ready", "status": "False", "reason": "X"}),
                ".status.conditions[type=\"Ready\"]",
            ),
        ],
    );
    refuse(
        "Quota",
        &[
            ("/spec", json!({}), ".spec.limits"),
            ("/spec/limits/gpu", json!("2Gi"), ".spec.limits.gpu"),
            ("/spec/zones/0/limits", json!({"gpu": 9}), ".spec.zones[0].limits.gpu"),
            ("/spec/zones/0/zone", json!("eu-central"), ".spec.zones[zone=\"eu-central\"]"),
            ("/spec/zones/0/zone", json!("EU"), ".spec.zones[0].zone"),
            ("/status/used/cpu", json!("many"), ".status.used.cpu"),
        ],
    );
    refuse("PriorityClass", &[("/spec/value", json!(2_000_000_000), ".spec.value")]);
    refuse_change("PriorityClass", &[("/spec/value", json!(5), ".spec.value")]);
}

#[test]
fn access() {
    refuse(
        "Role",
        &[
            ("/spec/rules/0/verbs", json!([]), ".spec.rules[0].verbs"),
            ("/spec/rules/0/verbs/-", json!("fly"), ".spec.rules[0].verbs[3]"),
            ("/spec/rules/0/verbs/-", json!("get"), ".spec.rules[0].verbs[\"get\"]"),
            ("/spec/rules/0/kinds/0", json!("Work*"), ".spec.rules[0].kinds[0]"),
            ("/spec/rules/0/kinds/0", json!("Workload/scale"), ".spec.rules[0].kinds[0]"),
            ("/spec/rules/2/names/0", json!("a*b"), ".spec.rules[2].names[0]"),
            ("/spec/rules/2/names/0", json!(""), ".spec.rules[2].names[0]"),
            ("/spec/rules/2/names/0", json!("a**"), ".spec.rules[2].names[0]"),
        ],
    );
    refuse(
        "RoleBinding",
        &[
            ("/spec/subjects/0", json!("jane"), ".spec.subjects[0]"),
            ("/spec/subjects/0", json!("user:"), ".spec.subjects[0]"),
            ("/spec/subjects/0", json!("robot:r2"), ".spec.subjects[0]"),
            ("/spec/namespaces/0", json!("a.b"), ".spec.namespaces[0]"),
        ],
    );
    refuse_change("RoleBinding", &[("/spec/role", json!("admin"), ".spec.role")]);
}

#[test]
fn definitions_and_policies() {
    refuse(
        "KindDefinition",
        &[
            ("/metadata/name", json!("database"), ".metadata.name"),
            ("/spec/names/kind", json!("Workload"), ".spec.names.kind"),
            ("/spec/names/kind", json!("data-base"), ".spec.names.kind"),
            ("/spec/names/singular", json!("wl"), ".spec.names.singular"),
            ("/spec/names/shortNames/0", json!("pods/x"), ".spec.names.shortNames[0]"),
            ("/spec/names/shortNames/0", json!("no"), ".spec.names.shortNames[0]"),
            ("/spec/schema", json!("{}"), ".spec.schema"),
            ("/spec/rules/0/rule", json!(""), ".spec.rules[0].rule"),
            ("/spec/columns/0/path", json!("spec.size"), ".spec.columns[0].path"),
            ("/spec/columns/0/type", json!("date"), ".spec.columns[0].type"),
            ("/spec/columns/1/name", json!("Size"), ".spec.columns[name=\"Size\"]"),
            ("/spec/selectableFields/0", json!("metadata.labels"), ".spec.selectableFields[0]"),
            ("/spec/unknownFields", json!("Refuse"), ".spec.unknownFields"),
        ],
    );
    refuse_change(
        "KindDefinition",
        &[
            ("/spec/scope", json!("Cluster"), ".spec.scope"),
            ("/spec/names/kind", json!("Databases"), ".spec.names.kind"),
        ],
    );
    refuse(
        "AdmissionPolicy",
        &[
            ("/spec/match/kinds", json!([]), ".spec.match.kinds"),
            ("/spec/match/kinds/0", json!("workload"), ".spec.match.kinds[0]"),
            ("/spec/match/operations", json!(["Delete"]), ".spec.match.operations"),
            ("/spec/match/operations", json!(["Patch"]), ".spec.match.operations[0]"),
            ("/spec/match/namespaces/0", json!("A"), ".spec.match.namespaces[0]"),
            ("/spec/match/labels", json!("!"), ".spec.match.labels"),
            ("/spec/matchConditions/0/name", json!("a b"), ".spec.matchConditions[0].name"),
            ("/spec/validations/0/expression", json!("x".repeat(4097)), ".spec.validations[0].expression"),
            ("/spec/mutations/0/type", json!("Replace"), ".spec.mutations[0].type"),
            ("/spec/actions", json!(["Deny", "Warn"]), ".spec.actions"),
            ("/spec/actions", json!(["Ignore"]), ".spec.actions[0]"),
        ],
    );
    let mut json = example("AdmissionPolicy");
    set(&mut json, "/spec/validations", Value::Null);
    set(&mut json, "/spec/mutations", Value::Null);
    assert_eq!(paths(None, &read(json)), [".spec.validations"]);
    refuse(
        "PlacementPolicy",
        &[
            ("/spec/version", json!("v 5"), ".spec.version"),
            ("/spec/weight", json!(101), ".spec.weight"),
            ("/spec/scope/namespaces/0", json!("A"), ".spec.scope.namespaces[0]"),
            ("/spec/scope/replicas", json!("="), ".spec.scope.replicas"),
            ("/spec/rules/scores", json!({"a b": 1}), ".spec.rules.scores.\"a b\""),
            ("/spec/rules/maxZoneSkew", json!(0), ".spec.rules.maxZoneSkew"),
            ("/spec/gate/signalMaxAgeSeconds", json!(0), ".spec.gate.signalMaxAgeSeconds"),
        ],
    );
    refuse_change(
        "PlacementPolicy",
        &[
            ("/spec/version", json!("v6"), ".spec.version"),
            ("/spec/rules/maxZoneSkew", json!(2), ".spec.rules"),
        ],
    );
}

#[test]
fn replicas_and_bindings() {
    refuse("ReplicaSet", &[("/spec/template/command", Value::Null, ".spec.template.command")]);
    refuse_change(
        "ReplicaSet",
        &[
            ("/spec/template/args", json!(["x"]), ".spec.template"),
            ("/spec/revision", json!(8), ".spec.revision"),
        ],
    );
    refuse(
        "Replica",
        &[
            ("/spec/template/command", Value::Null, ".spec.template.command"),
            ("/status/stage", json!("Ready"), ".status.stage"),
            ("/status/blocked/reason", json!("Bored"), ".status.blocked.reason"),
            ("/status/endpoints/0/port", json!(70000), ".status.endpoints[0].port"),
        ],
    );
    refuse_change("Replica", &[("/spec/priority", json!(5), ".spec.priority")]);
    refuse(
        "Binding",
        &[
            ("/spec/replicaUid", json!(""), ".spec.replicaUid"),
            ("/spec/nodeUid", json!(""), ".spec.nodeUid"),
            ("/spec/reservations/1/ledger", json!("node/b7"), ".spec.reservations[ledger=\"node/b7\"]"),
            ("/spec/reservations/0/amounts/cpu", json!("x"), ".spec.reservations[0].amounts.cpu"),
        ],
    );
    refuse_change("Binding", &[("/spec/node", json!("b8"), ".spec.node")]);
}

#[test]
fn a_binding_never_comes_back_from_a_release() {
    let at = |state: &str| {
        let mut json = example("Binding");
        set(&mut json, "/status/state", json!(state));
        read(json)
    };
    let states = ["Bound", "Unknown", "ReleaseRequested", "Released"];
    for (from, old) in states.iter().enumerate() {
        for (to, new) in states.iter().enumerate() {
            let allowed = from < 2 || to >= from;
            let expected: &[&str] = if allowed { &[] } else { &[".status.state"] };
            assert_eq!(paths(Some(&at(old)), &at(new)), expected, "{old} to {new}");
        }
    }
}

#[test]
fn nodes_and_leases() {
    refuse(
        "Node",
        &[
            ("/spec/zone", json!("eu.west"), ".spec.zone"),
            (
                "/spec/capacity",
                json!({"cpu": 1, "memory": "2Gi", "e.com/x": "y"}),
                ".spec.capacity.\"e.com/x\"",
            ),
            ("/spec/reserved/memory", json!("385Gi"), ".spec.reserved.memory"),
            ("/spec/reserved/tpu", json!(1), ".spec.reserved.tpu"),
            ("/spec/taints/0/effect", json!("NoExecute"), ".spec.taints[effect=\"NoExecute\",key=\"gpu\"]"),
            ("/spec/taints/0/key", json!(""), ".spec.taints[0].key"),
            ("/spec/unschedulable", json!(false), ".spec.drain"),
        ],
    );
    refuse_change("Node", &[("/spec/zone", json!("eu-central"), ".spec.zone")]);
    refuse(
        "Lease",
        &[
            ("/spec/ttlSeconds", json!(0), ".spec.ttlSeconds"),
            ("/spec/ttlSeconds", json!(3601), ".spec.ttlSeconds"),
            ("/status/observed/Node", json!(-1), ".status.observed.Node"),
        ],
    );
}

#[test]
fn autoscalers_events_and_decisions() {
    refuse(
        "Autoscaler",
        &[
            ("/spec/minReplicas", json!(21), ".spec.minReplicas"),
            ("/spec/maxReplicas", json!(100_001), ".spec.maxReplicas"),
            ("/spec/metrics", json!([]), ".spec.metrics"),
            ("/spec/metrics/0/target", json!("70%"), ".spec.metrics[0].target"),
            ("/spec/metrics/1/target", json!("0"), ".spec.metrics[1].target"),
            ("/spec/metrics/1/name", json!("cpu"), ".spec.metrics[name=\"cpu\"]"),
            ("/spec/behaviour/up", json!({"maxStep": 0, "minStep": 0}), ".spec.behaviour.up.maxStep"),
            ("/spec/behaviour/up", json!({"periodSeconds": 0}), ".spec.behaviour.up.periodSeconds"),
        ],
    );
    refuse_change("Autoscaler", &[("/spec/target/name", json!("other"), ".spec.target")]);
    refuse(
        "Event",
        &[
            ("/spec/reason", json!("it failed"), ".spec.reason"),
            ("/spec/object/kind", json!("pod"), ".spec.object.kind"),
            ("/spec/type", json!("Error"), ".spec.type"),
        ],
    );
    refuse_change("Event", &[("/spec/message", json!("other"), ".spec.message")]);
    refuse(
        "Decision",
        &[
            ("/spec/verdict/reason", Value::Null, ".spec.verdict.reason"),
            ("/spec/verdict/outcome", json!("Maybe"), ".spec.verdict.outcome"),
            ("/spec/scores", json!(vec![json!({"node": "a", "total": 1}); 9]), ".spec.scores"),
        ],
    );
    refuse_change("Decision", &[("/spec/attempt", json!(3), ".spec")]);
}

/// Puts odd values into every place of every example. What the Rust types cannot read, the schema must have refused by the
/// field: a problem of the whole spec would mean that it did not know.
#[test]
fn the_schema_refuses_all_that_the_types_cannot_read() {
    let odd = [
        json!(true),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!([1]),
        json!({"x": 1}),
    ];
    for kind in registry::kinds() {
        let object = read(example(kind.info.name));
        let whole = json!({"spec": object.spec, "status": object.status});
        let topology = topology(kind);
        for pointer in pointers(&whole) {
            for value in &odd {
                let mut changed = whole.clone();
                *changed.pointer_mut(&pointer).unwrap() = value.clone();
                fill(&topology, &mut changed["spec"]);
                let [spec, status] = ["spec", "status"].map(|name| changed[name].take());
                let changed = Object { spec, status, ..object.clone() };
                for problem in kind.validate(None, &changed) {
                    let whole = problem.path == ".spec" || problem.path == ".status";
                    assert!(!whole, "{} with {pointer} = {value}: {problem}", kind.info.name);
                }
            }
        }
    }
}

/// Every place below spec and status.
fn pointers(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        if at.matches('/').count() > 1 {
            found.push(at.to_owned());
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    walk(field, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    walk(element, &format!("{at}/{index}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}
