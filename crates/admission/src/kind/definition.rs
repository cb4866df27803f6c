//! The spec of a `KindDefinition`, as users write it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::schema::Rule;

/// A kind of one's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindDefinitionSpec {
    pub names: KindNames,
    #[serde(default)]
    pub scope: KindScope,
    /// JSON Schema 2020-12: `{"type": "object", "properties": {"spec": …, "status": …}}`.
    pub schema: Map<String, Value>,
    /// Rules about the object as a whole. Rules about a part stand in the schema, as `x-setpoint-rules`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// For tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<DefinedColumn>,
    /// What field selectors may name: `spec.nodeName`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectable_fields: Vec<String>,
    #[serde(default)]
    pub unknown_fields: UnknownFields,
}

/// What the kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindNames {
    /// `Backup`
    pub kind: String,
    /// `backups`
    pub plural: String,
    /// `backup`; the kind in lower case if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub singular: String,
    /// `bk`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
}

/// Where its objects live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KindScope {
    #[default]
    Namespaced,
    Cluster,
}

/// What becomes of fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnknownFields {
    /// They are not stored. Whether the writer is refused or warned is the request's choice.
    #[default]
    Prune,
    /// They are stored.
    Preserve,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinedColumn {
    pub name: String,
    /// `.spec.replicas`
    pub path: String,
    #[serde(rename = "type")]
    pub kind: DefinedColumnType,
    /// 0 always; above that only in wide tables.
    #[serde(default)]
    pub priority: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefinedColumnType {
    String,
    Integer,
    Boolean,
    Time,
}
