//! A kind that is described in Rust can be served as a user's kind, as it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use setpoint_admission::kind::TakenNames;
use setpoint_admission::{Budget, CustomKind};
use setpoint_types::kinds::KindDefinitionSpec;
use setpoint_types::object::Condition;
use setpoint_types::{Column, KindInfo, KindType};

enum Record {}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RecordSpec {
    /// The name to resolve.
    #[schemars(extend("format" = "dns-subdomain"))]
    host: String,
    #[serde(default)]
    ttl_seconds: Option<u32>,
    #[serde(default)]
    flavour: Flavour,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
enum Flavour {
    #[default]
    Plain,
    Signed,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct RecordStatus {
    #[serde(default)]
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

impl KindType for Record {
    const INFO: KindInfo = KindInfo {
        name: "Record",
        plural: "records",
        singular: "record",
        short_names: &["rec"],
        namespaced: true,
        columns: &[Column::text("Host", ".spec.host"), Column::AGE],
        selectable_fields: &["spec.host"],
    };
    type Spec = RecordSpec;
    type Status = RecordStatus;
}

fn problems(kind: &CustomKind, spec: &Value, status: &Value) -> Vec<String> {
    let object = json!({"kind": "Record", "metadata": {"name": "a"}, "spec": spec, "status": status});
    let problems = kind.validate(None, &object, &mut Budget::for_request());
    problems.into_iter().map(|problem| format!("{} {}", problem.path, problem.message)).collect()
}

#[test]
fn its_definition_compiles_and_its_objects_are_checked() {
    let kind = CustomKind::compile(&KindDefinitionSpec::of::<Record>(), &TakenNames::default())
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Published"}]});
    assert_eq!(problems(&kind, &json!({"host": "a.example", "flavour": "Signed"}), &ready), [""; 0]);
    assert_eq!(
        problems(
            &kind,
            &json!({"host": "not a host", "ttlSeconds": -1}),
            &json!({"conditions": [{
            "type": "not one word", "status": "True", "reason": "Published"}]})
        ),
        [
            ".spec.host must be a valid dns-subdomain",
            ".spec.ttlSeconds must be at least 0",
            ".status.conditions[0].type must be a valid reason",
        ]
    );
}
