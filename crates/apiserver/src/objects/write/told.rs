//! The status that the server itself gives an object in the write that makes it so: of definitions, policies, namespaces.
//!
//! Nobody else writes it, so nothing has to be waited for: what was committed is in force.

use setpoint_objects::Object;
use setpoint_objects::write::Outcome;
use setpoint_types::kinds::{AdmissionPolicyStatus, KindDefinitionStatus, NamespacePhase, NamespaceStatus};
use setpoint_types::object::{Condition, ConditionStatus, to_json};
use setpoint_types::{Generation, Timestamp};

use super::contents::NAMESPACE;
use super::writer::Writer;
use crate::objects::definitions::{ADMISSION_POLICY, KIND_DEFINITION};

impl Writer {
    /// Gives what is to be stored its status.
    pub(super) fn tell(&self, outcome: &mut Outcome, before: Option<&Object>, now_ms: u64) {
        let Outcome::Put(object) = outcome else { return };
        let observed_generation = Generation(object.metadata.generation);
        object.status = match object.kind.as_str() {
            KIND_DEFINITION => {
                let conditions = vec![in_force("Established", object, before, now_ms)];
                to_json(&KindDefinitionStatus { observed_generation, conditions })
            }
            ADMISSION_POLICY => {
                let conditions = vec![in_force("Compiled", object, before, now_ms)];
                to_json(&AdmissionPolicyStatus { observed_generation, conditions })
            }
            NAMESPACE => {
                let deleted = object.metadata.deleted_ms.is_some();
                let phase = if deleted { NamespacePhase::Terminating } else { NamespacePhase::Active };
                let remaining = if deleted { self.remaining(object) } else { Default::default() };
                let status: NamespaceStatus =
                    serde_json::from_value(object.status.clone()).unwrap_or_default();
                to_json(&NamespaceStatus { observed_generation, phase, remaining, ..status })
            }
            _ => return,
        };
    }
}

/// That a definition is in force, since when it first was.
fn in_force(kind: &str, object: &Object, before: Option<&Object>, now_ms: u64) -> Condition {
    let (status, reason) = match object.metadata.deleted_ms {
        None => (ConditionStatus::True, "InForce"),
        Some(_) => (ConditionStatus::False, "Deleting"),
    };
    let earlier: Vec<Condition> = before
        .and_then(|it| serde_json::from_value(it.status["conditions"].clone()).ok())
        .unwrap_or_default();
    let same = earlier.iter().find(|it| it.kind == kind && it.status == status);
    Condition {
        kind: kind.to_owned(),
        status,
        observed_generation: Generation(object.metadata.generation),
        last_transition: same.map_or(Timestamp(now_ms), |it| it.last_transition),
        reason: reason.to_owned(),
        ..Condition::default()
    }
}
