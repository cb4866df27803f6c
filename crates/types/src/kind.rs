//! What the server knows about a kind, and how a kind is described in Rust.
//!
//! Not here: the kinds (`kinds`) and how they are looked up (`registry`). Kinds of users' own have no `Kind`: what a
//! `KindDefinition` says about them is served the same way.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::{Checked, Object, check_metadata, read};
use crate::schema::{self, Check};
use crate::{FieldProblem, Problems};

/// A built-in kind in Rust: its types and what a schema cannot say about them.
pub trait KindType {
    const INFO: KindInfo;
    type Spec: Serialize + DeserializeOwned + JsonSchema + 'static;
    type Status: Serialize + DeserializeOwned + JsonSchema + 'static;

    /// What is wrong with a spec that fits the schema. `problems` is at `.spec`.
    fn check_spec(_spec: &Self::Spec, _problems: &mut Problems) {}

    /// What is wrong with changing a spec so, beyond immutable fields. `problems` is at `.spec`. The old one is as it is stored:
    /// few kinds look at it, and those at little of it.
    fn check_change(_old: &Value, _new: &Self::Spec, _problems: &mut Problems) {}

    /// What is wrong with changing a status so. `problems` is at `.status`. The old one is as it is stored.
    fn check_status_change(_old: &Value, _new: &Self::Status, _problems: &mut Problems) {}

    /// What is wrong with an object of this name and spec. `problems` is at `.metadata.name`.
    fn check_name(_name: &str, _spec: &Self::Spec, _problems: &mut Problems) {}
}

/// How a kind is called and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// `Workload`
    pub name: &'static str,
    /// `workloads`
    pub plural: &'static str,
    /// `workload`
    pub singular: &'static str,
    /// `wl`
    pub short_names: &'static [&'static str],
    /// False: it belongs to the whole cluster.
    pub namespaced: bool,
    /// The columns of a table for people, after the name.
    pub columns: &'static [Column],
    /// What field selectors may name, beside `metadata.name` and `metadata.namespace`: `status.stage`.
    pub selectable_fields: &'static [&'static str],
}

/// A column of a table for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// Where its value is: `.spec.replicas`
    pub path: &'static str,
    pub kind: ColumnType,
    /// 0 always; above that only in wide tables.
    pub priority: u32,
}

impl Column {
    pub const fn text(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kind: ColumnType::String, priority: 0 }
    }

    pub const fn integer(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kind: ColumnType::Integer, priority: 0 }
    }

    pub const fn boolean(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kind: ColumnType::Boolean, priority: 0 }
    }

    /// Milliseconds since 1970, shown as an age.
    pub const fn time(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kind: ColumnType::Time, priority: 0 }
    }

    /// Only in wide tables.
    #[must_use]
    pub const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    /// How old the object is. The last column of most tables.
    pub const AGE: Self = Self::time("Age", ".metadata.createdMs");
}

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    String,
    Integer,
    Boolean,
    Time,
}

impl ColumnType {
    /// As users write it in a `KindDefinition`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Time => "time",
        }
    }
}

/// A built-in kind for those who only know its name.
pub struct Kind {
    pub info: KindInfo,
    schema: OnceLock<Value>,
    checks: OnceLock<[Check; 2]>,
    generate: fn() -> Value,
    check_spec: fn(Option<Parts<'_>>, Parts<'_>, &mut Problems),
    check_status: fn(Option<Parts<'_>>, Parts<'_>, &mut Problems),
}

/// An object of a kind, in parts, so that nobody has to copy one to have it checked.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub metadata: Checked<'a>,
    pub spec: &'a Value,
    pub status: &'a Value,
}

impl<'a> From<&'a Object> for Parts<'a> {
    fn from(object: &'a Object) -> Self {
        Self { metadata: Checked::from(&object.metadata), spec: &object.spec, status: &object.status }
    }
}

impl Kind {
    pub(crate) const fn of<K: KindType>() -> Self {
        Self {
            info: K::INFO,
            schema: OnceLock::new(),
            checks: OnceLock::new(),
            generate: schema::schema_of::<K::Spec, K::Status>,
            check_spec: check_spec::<K>,
            check_status: check_status::<K>,
        }
    }

    /// `{"type":"object","properties":{"spec":…,"status":…}}`, made once.
    pub fn schema(&self) -> &Value {
        self.schema.get_or_init(self.generate)
    }

    fn part(&self, name: &str) -> &Value {
        &self.schema()["properties"][name]
    }

    /// All that is wrong with an object of this kind: its metadata, its spec, its status, and what it changes of `old` that
    /// the schema cannot say. Defaults are expected to be filled in; unknown and immutable fields, lists that are maps or
    /// sets, finalizers and owners have been seen to by the crate `objects`.
    pub fn validate(&self, old: Option<&Object>, new: &Object) -> Vec<FieldProblem> {
        self.validate_parts(old.map(Parts::from), Parts::from(new))
    }

    /// The same for an object that is not at hand in one piece.
    pub fn validate_parts(&self, old: Option<Parts<'_>>, new: Parts<'_>) -> Vec<FieldProblem> {
        let mut problems = Problems::new();
        check_metadata(self.info.namespaced, old.map(|old| old.metadata), new.metadata, &mut problems);
        // What is as it was has been checked when it came: a write of one part does not pay for the other.
        let same_spec = old.is_some_and(|old| old.spec == new.spec);
        let same_status = new.status.is_null() || old.is_some_and(|old| old.status == new.status);
        let [spec, status] =
            self.checks.get_or_init(|| ["spec", "status"].map(|name| Check::of(self.part(name))));
        if !same_spec {
            problems.field("spec", |problems| spec.run(new.spec, problems));
        }
        if !same_status {
            problems.field("status", |problems| status.run(new.status, problems));
        }
        if !same_spec {
            (self.check_spec)(old, new, &mut problems);
        }
        if !same_status {
            (self.check_status)(old, new, &mut problems);
        }
        problems.into_found()
    }
}

/// The checks of a spec in Rust, as far as it can be read at all.
fn check_spec<K: KindType>(old: Option<Parts<'_>>, new: Parts<'_>, problems: &mut Problems) {
    match read::<K::Spec>(".spec", new.spec) {
        Ok(spec) => {
            if !new.metadata.name.is_empty() {
                problems.field("metadata", |problems| {
                    problems.field("name", |problems| K::check_name(new.metadata.name, &spec, problems));
                });
            }
            problems.field("spec", |problems| {
                K::check_spec(&spec, problems);
                if let Some(old) = old {
                    K::check_change(old.spec, &spec, problems);
                }
            });
        }
        // The schema says the same, field by field; this is for whatever it might not know.
        Err(problem) if problems.is_empty() => problems.field("spec", |it| it.report(problem.message)),
        Err(_) => {}
    }
}

/// The checks of a status in Rust.
fn check_status<K: KindType>(old: Option<Parts<'_>>, new: Parts<'_>, problems: &mut Problems) {
    match read::<K::Status>(".status", new.status) {
        Ok(status) => problems.field("status", |problems| {
            if let Some(old) = old {
                K::check_status_change(old.status, &status, problems);
            }
        }),
        Err(problem) if problems.is_empty() => problems.field("status", |it| it.report(problem.message)),
        Err(_) => {}
    }
}
