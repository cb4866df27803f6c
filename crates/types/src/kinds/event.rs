//! Event: what happened to an object, for people. Repetitions are counted, not repeated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::object::ObjectReference;
use crate::{Generation, Revision, Timestamp};

/// The kind.
pub enum Event {}

/// Something that happened. Nothing of it changes later; how often it happened is in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventSpec {
    /// To what.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub object: ObjectReference,
    /// The generation of the object at the time.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub generation: Generation,
    /// Another object that has to do with it.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub related: Option<ObjectReference>,
    /// Whether somebody should look at it.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub kind: EventType,
    /// What happened, in one word: "Bound", "ImagePullFailed".
    #[schemars(extend("format" = "reason", "x-setpoint-immutable" = true))]
    pub reason: String,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), extend("x-setpoint-immutable" = true))]
    pub message: String,
    /// Who says so: "scheduler", "agent/a1".
    #[schemars(length(min = 1, max = 253), extend("x-setpoint-immutable" = true))]
    pub component: String,
    /// The name of the Decision behind it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub decision: String,
    /// The operation id behind it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub operation: String,
    /// A W3C trace id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub trace: String,
}

/// Whether somebody should look at an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EventType {
    /// All is well.
    #[default]
    Normal,
    /// Something is wrong, or may become so.
    Warning,
}

/// How often it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct EventStatus {
    /// How often.
    pub count: u64,
    /// The first time, in milliseconds since 1970.
    #[serde(rename = "firstMs")]
    pub first: Timestamp,
    /// The last time, in milliseconds since 1970.
    #[serde(rename = "lastMs")]
    pub last: Timestamp,
    /// The revision of the object it was last about.
    pub revision: Revision,
    /// Repetitions and similar events that were not written, for there were too many.
    pub dropped: u64,
}

impl KindType for Event {
    const INFO: KindInfo = KindInfo {
        name: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        namespaced: true,
        columns: &[
            Column::time("Last Seen", ".status.lastMs"),
            Column::text("Type", ".spec.type"),
            Column::text("Reason", ".spec.reason"),
            Column::text("Kind", ".spec.object.kind"),
            Column::text("Object", ".spec.object.name"),
            Column::integer("Count", ".status.count"),
            Column::text("Message", ".spec.message"),
            Column::text("Component", ".spec.component").wide(),
        ],
        selectable_fields: &[
            "spec.object.kind",
            "spec.object.name",
            "spec.object.uid",
            "spec.type",
            "spec.reason",
        ],
    };
    type Spec = EventSpec;
    type Status = EventStatus;
}
