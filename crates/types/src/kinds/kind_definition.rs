//! KindDefinition: a kind of a user's own.
//!
//! Not here: whether its schema and its rules can be used (the crate `admission`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kind::{Column, ColumnType, KindInfo, KindType};
use crate::names::check_dns_label;
use crate::object::Condition;
use crate::schema::schema_of;
use crate::{Generation, Problems};

/// The kind.
pub enum KindDefinition {}

/// Describes a kind. Its objects are served by every node as soon as the definition is accepted. The definition is named
/// after the plural. It cannot be deleted while there are objects of its kind. There are at most 1,000.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindDefinitionSpec {
    /// How the kind is called.
    pub names: KindNames,
    /// Whether its objects belong to a namespace.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub scope: KindScope,
    /// JSON Schema of spec and status: `{"type":"object","properties":{"spec":…,"status":…}}`. CEL rules may stand at any
    /// place in it, as `x-setpoint-rules`.
    #[schemars(extend("x-setpoint-map-type" = "atomic", "x-setpoint-preserve-unknown" = true))]
    pub schema: Map<String, Value>,
    /// CEL rules over the whole object.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub rules: Vec<KindRule>,
    /// The columns of a table for people, after the name.
    #[serde(default)]
    #[schemars(
        length(max = 32),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"])
    )]
    pub columns: Vec<DefinedColumn>,
    /// What field selectors may name: `spec.node`. Each must be text, a whole number or a boolean.
    #[serde(default)]
    #[schemars(length(max = 8), extend("x-setpoint-list-type" = "set"))]
    pub selectable_fields: Vec<String>,
    /// What becomes of fields that the schema does not name.
    #[serde(default)]
    pub unknown_fields: UnknownFields,
}

impl KindDefinitionSpec {
    /// The definition of a kind that is described in Rust, for programs that bring a kind of their own.
    ///
    /// Names, columns, selectable fields and the schema say the same as the type. What [`KindType`]'s checks say is not part
    /// of it: the server does not have them. Put such rules into [`KindDefinitionSpec::rules`].
    pub fn of<K: KindType>() -> Self {
        let info = K::INFO;
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let schema = match schema_of::<K::Spec, K::Status>() {
            Value::Object(schema) => schema,
            _ => unreachable!("a schema of spec and status is an object"),
        };
        Self {
            names: KindNames {
                kind: info.name.to_owned(),
                plural: info.plural.to_owned(),
                singular: info.singular.to_owned(),
                short_names: texts(info.short_names),
            },
            scope: if info.namespaced { KindScope::Namespaced } else { KindScope::Cluster },
            schema,
            rules: Vec::new(),
            columns: info.columns.iter().map(DefinedColumn::of).collect(),
            selectable_fields: texts(info.selectable_fields),
            unknown_fields: UnknownFields::default(),
        }
    }
}

/// How a kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindNames {
    /// `Database`
    #[schemars(extend("format" = "kind", "x-setpoint-immutable" = true))]
    pub kind: String,
    /// `databases`
    #[schemars(extend("format" = "dns-label", "x-setpoint-immutable" = true))]
    pub plural: String,
    /// `database`. The kind in lower case if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub singular: String,
    /// `db`
    #[serde(default)]
    #[schemars(length(max = 8), extend("x-setpoint-list-type" = "set"))]
    pub short_names: Vec<String>,
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KindScope {
    /// In a namespace.
    #[default]
    Namespaced,
    /// They belong to the whole cluster.
    Cluster,
}

/// A condition in CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindRule {
    /// True for what is allowed. `self` is the value at the rule's place, of a rule over the whole object the object;
    /// `oldSelf` is what it was: a rule with `oldSelf` is asked on updates only. Fields that the schema does not have cannot
    /// be named, unless the kind stores them.
    #[schemars(length(min = 1, max = 4096))]
    pub rule: String,
    /// For people, if it is not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Yields the message; `message` stands in if it cannot.
    #[serde(default)]
    pub message_expression: Option<String>,
    /// The field to blame: `.spec.ports`.
    #[serde(default)]
    pub path: Option<String>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinedColumn {
    /// Its heading.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Where its value is: `.spec.size`
    #[schemars(length(min = 2, max = 253))]
    pub path: String,
    /// What it shows.
    #[serde(default, rename = "type")]
    pub kind: DefinedColumnType,
    /// 0 always; above that only in wide tables.
    #[serde(default)]
    pub priority: u32,
}

impl DefinedColumn {
    fn of(column: &Column) -> Self {
        let kind = match column.kind {
            ColumnType::String => DefinedColumnType::String,
            ColumnType::Integer => DefinedColumnType::Integer,
            ColumnType::Boolean => DefinedColumnType::Boolean,
            ColumnType::Time => DefinedColumnType::Time,
        };
        Self { name: column.name.to_owned(), path: column.path.to_owned(), kind, priority: column.priority }
    }
}

/// What a column shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefinedColumnType {
    /// Text.
    #[default]
    String,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Milliseconds since 1970, shown as an age.
    Time,
}

/// What becomes of fields that a schema does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnknownFields {
    /// They are not stored. Whether the writer is refused or warned is the request's choice.
    #[default]
    Prune,
    /// They are stored.
    Preserve,
}

/// Whether the kind is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct KindDefinitionStatus {
    /// The generation that is served.
    pub observed_generation: Generation,
    /// What is true of it now: `Established` while it is served, from the revision on that made it.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for KindDefinition {
    const INFO: KindInfo = KindInfo {
        name: "KindDefinition",
        plural: "kinddefinitions",
        singular: "kinddefinition",
        short_names: &["kd"],
        namespaced: false,
        columns: &[
            Column::text("Kind", ".spec.names.kind"),
            Column::text("Scope", ".spec.scope"),
            Column::AGE,
        ],
        selectable_fields: &["spec.names.kind"],
    };
    type Spec = KindDefinitionSpec;
    type Status = KindDefinitionStatus;

    fn check_spec(spec: &KindDefinitionSpec, problems: &mut Problems) {
        problems.field("names", |problems| {
            if crate::registry::kind(&spec.names.kind).is_some() {
                problems.report_at("kind", "is a built-in kind");
            }
            problems.field("plural", |problems| check_word(&spec.names.plural, problems));
            if !spec.names.singular.is_empty() {
                problems.field("singular", |problems| check_word(&spec.names.singular, problems));
            }
            problems.each("shortNames", &spec.names.short_names, |problems, word| check_word(word, problems));
        });
        problems.each("columns", &spec.columns, |problems, column| {
            if !column.path.starts_with('.') {
                problems.report_at("path", "must begin with a `.`, as in .spec.size");
            }
        });
        problems.each("selectableFields", &spec.selectable_fields, |problems, field| {
            if !field.starts_with("spec.") && !field.starts_with("status.") {
                problems.report("must begin with spec. or status.");
            }
        });
    }

    fn check_name(name: &str, spec: &KindDefinitionSpec, problems: &mut Problems) {
        if name != spec.names.plural {
            problems.report(format!("must be the plural of the kind, {:?}", spec.names.plural));
        }
    }
}

/// What people type for a kind is one word, and no built-in kind's.
fn check_word(word: &str, problems: &mut Problems) {
    if let Err(message) = check_dns_label(word) {
        problems.report(message);
    } else if crate::registry::look_up(word).is_some() {
        problems.report("is a name of a built-in kind");
    }
}
