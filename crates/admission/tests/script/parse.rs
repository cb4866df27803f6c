//! What the scripts are written in.

use std::error::Error;

use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_admission::Budget;
use setpoint_admission::policy::{Mutated, PolicySet, Request, Review, Verdict};
use setpoint_types::kinds::AdmissionOperation;

/// The first word, and the rest.
pub fn words(line: &str) -> (&str, &str) {
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    (word, rest.trim())
}

pub fn yaml(text: &str) -> Result<Value, Box<dyn Error>> {
    Ok(serde_saphyr::from_str(text.trim())?)
}

/// The definition of the kind Backup with this schema of its spec.
pub fn backup(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"names": {"kind": "Backup", "plural": "backups"}, "schema": schema})
}

/// A review, as a script writes it. What is left out is as usual.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenReview {
    #[serde(default)]
    operation: AdmissionOperation,
    #[serde(default)]
    status: bool,
    #[serde(default = "jane")]
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default = "workload")]
    kind: String,
    #[serde(default = "default_namespace")]
    namespace: String,
    #[serde(default)]
    dry_run: bool,
    object: Option<Value>,
    old_object: Option<Value>,
    namespace_object: Option<Value>,
}

fn jane() -> String {
    "user:jane".to_owned()
}

fn workload() -> String {
    "Workload".to_owned()
}

fn default_namespace() -> String {
    "default".to_owned()
}

impl WrittenReview {
    pub fn mutate(&self, policies: &PolicySet) -> Mutated {
        policies.mutate(&self.review(), &mut Budget::for_request())
    }

    pub fn judge(&self, policies: &PolicySet) -> Verdict {
        policies.judge(&self.review(), &mut Budget::for_request())
    }

    fn review(&self) -> Review<'_> {
        let request = Request {
            operation: self.operation,
            status: self.status,
            user: &self.user,
            groups: &self.groups,
            kind: &self.kind,
            namespace: &self.namespace,
            name: "web",
            dry_run: self.dry_run,
        };
        Review {
            request,
            object: self.object.as_ref(),
            old_object: self.old_object.as_ref(),
            namespace_object: self.namespace_object.as_ref(),
        }
    }
}
