//! What users define: expressions, kinds and policies.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_admission::cel::{Bindings, EvaluateError, Expression, Scope};
use setpoint_admission::kind::TakenNames;
use setpoint_admission::policy::{Request, Review};
use setpoint_admission::{Budget, CustomKind, Policy, PolicySet};
use setpoint_objects::decode::decode;
use setpoint_objects::unknown::prune;
use setpoint_objects::{Topology, default};
use setpoint_types::kinds::{AdmissionOperation, AdmissionPolicySpec, KindDefinitionSpec};

use crate::input::Input;
use crate::objects::depth;

/// Small, so that whatever costs much is seen to be stopped.
const BUDGET: u64 = 100_000;

/// What one unit of the budget may leave behind, in bytes of JSON.
const BYTES_PER_COST: u64 = 64;

fn value(input: &mut Input<'_>) -> Value {
    decode(input.part(), "").map(|decoded| decoded.value).unwrap_or_default()
}

/// An expression has a result or an error, the same each time, and leaves behind no more than it has paid for.
pub fn expression(data: &[u8]) {
    let mut input = Input::new(data);
    let text = input.text();
    let Ok(expression) = Expression::compile(text, &Scope::of(&["self", "x"])) else { return };
    let values = [value(&mut input), value(&mut input)];
    let mut bindings = Bindings::new();
    bindings.bind("self", &values[0], None);
    bindings.bind("x", &values[1], None);
    let run = |budget: &mut Budget| expression.evaluate(&bindings, budget);
    let mut budget = Budget::of(BUDGET);
    let result = run(&mut budget);
    let spent = BUDGET - budget.left();
    if let Ok(result) = &result {
        let room = BYTES_PER_COST * (spent + 16) + text.len() as u64 + data.len() as u64;
        assert!(result.to_string().len() as u64 <= room, "{text:?} paid {spent} for {result}");
    }
    let mut again = Budget::of(BUDGET);
    let repeated = run(&mut again);
    assert!(again.left() >= budget.left(), "{text:?} paid more the second time");
    // A pattern that was met before costs less, so that there may be a result at last.
    if result != Err(EvaluateError::TooExpensive) {
        assert_eq!(repeated, result, "{text:?}");
    }
}

/// A schema is refused, with the fields that are wrong, or is good for everything that is done with schemas.
pub fn kind_definition(data: &[u8]) {
    let mut input = Input::new(data);
    let (schema, objects) = (value(&mut input), [value(&mut input), value(&mut input)]);
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let definition = json!({"names": {"kind": "Any", "plural": "anys"}, "schema": schema});
    let Ok(definition) = serde_json::from_value::<KindDefinitionSpec>(definition) else { return };
    let kind = match CustomKind::compile(&definition, &TakenNames::default()) {
        Ok(kind) => kind,
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(problem.path.starts_with(".spec"), "{problem}");
            }
            return;
        }
    };
    let topology = match Topology::of_kind(kind.schema()) {
        Ok(topology) => topology,
        // All else that may be defined can be merged.
        Err(problems) => return assert!(problems.iter().all(|it| it.message.contains("too large"))),
    };
    for spec in objects.each_ref() {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let old = json!({"metadata": {"name": "a"}, "spec": objects[0]});
        kind.validate(None, &object, &mut Budget::of(BUDGET));
        kind.validate(Some(&old), &object, &mut Budget::of(BUDGET));
        let mut filled = spec.clone();
        if default::fill(&mut filled, &topology, topology.spec(), &Value::Null, "").is_ok() {
            let once = filled.clone();
            default::fill(&mut filled, &topology, topology.spec(), &Value::Null, "")
                .expect("it was done before");
            assert_eq!(once, filled, "defaults are filled in once");
        }
        prune(&mut filled, &topology, topology.spec(), ".spec");
        assert_eq!(prune(&mut filled, &topology, topology.spec(), ".spec"), []);
        let unchanged = kind.validate(Some(&object), &object, &mut Budget::of(BUDGET));
        assert_eq!(unchanged, [], "INVARIANT D3");
    }
}

/// A policy is refused or can be asked about any object; what it makes of it is still the same object.
pub fn policy(data: &[u8]) {
    let mut input = Input::new(data);
    let (spec, object, old) = (value(&mut input), value(&mut input), value(&mut input));
    let Ok(spec) = serde_json::from_value::<AdmissionPolicySpec>(spec) else { return };
    let policy = match Policy::compile("p", &spec) {
        Ok(policy) => policy,
        Err(problems) => return assert!(problems.iter().all(|it| it.path.starts_with(".spec"))),
    };
    let policies = PolicySet::new([Arc::new(policy)]);
    let object = json!({"kind": "Thing", "metadata": {"name": "a", "uid": "u"}, "spec": object});
    let request = Request {
        operation: AdmissionOperation::Update,
        status: false,
        user: "user:jane",
        groups: &[],
        kind: "Thing",
        namespace: "default",
        name: "a",
        dry_run: false,
    };
    let review = Review { request, object: Some(&object), old_object: Some(&old), namespace_object: None };
    let mutated = policies.mutate(&review, &mut Budget::of(BUDGET));
    policies.judge(&review, &mut Budget::of(BUDGET));
    if let Some(changed) = mutated.object {
        assert!(depth(&changed) <= setpoint_admission::limits::MUTATED_DEPTH_MAX);
        for same in [&["kind"][..], &["metadata", "name"], &["metadata", "uid"]] {
            let at = |value: &Value| same.iter().fold(value.clone(), |value, name| value[name].clone());
            assert_eq!(at(&changed), at(&object), "INVARIANT D4");
        }
    }
}
