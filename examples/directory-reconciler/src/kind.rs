//! The kind `Directory`: what is asked of one folder, and what came of it. The comments are what users read about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_types::object::Condition;
use setpoint_types::{Column, Generation, KindInfo, KindType, ObjectKey, Uid};

/// The kind.
#[derive(Clone, Copy, Debug)]
pub enum Directory {}

/// How the manifests of a folder are applied. Which folder it is, the process knows that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DirectorySpec {
    /// Take fields from others that a manifest has different values for. Otherwise such a conflict is shown, and nothing of the object is
    /// changed.
    pub force: bool,
}

/// What was made of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DirectoryStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// Every object that was, or is about to be, applied.
    #[schemars(length(max = 1000))]
    pub inventory: Vec<Item>,
    /// What is wrong, of that the first.
    #[schemars(length(max = 50))]
    pub problems: Vec<Problem>,
    /// What is true of it now: `Ready` if the cluster is as the files say.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Objects of one folder.
pub const ITEMS_MAX: usize = 1000;
/// Problems that are shown.
pub const PROBLEMS_MAX: usize = 50;

/// One object of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Its kind.
    pub kind: String,
    /// Empty for kinds that belong to the whole cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The file it is from, below the folder.
    pub file: String,
    /// What was applied last: its uid, the generation this led to, and a hash of the manifest. Empty until it was.
    #[serde(default, skip_serializing_if = "Applied::is_none")]
    pub applied: Applied,
}

/// What was applied last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Applied {
    /// To which object.
    pub uid: Uid,
    /// The generation of the object after it.
    pub generation: Generation,
    /// Of the manifest.
    pub digest: String,
}

impl Applied {
    pub fn is_none(&self) -> bool {
        self.digest.is_empty()
    }
}

impl Item {
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.kind, &self.namespace, &self.name)
    }
}

/// Something that is not as the files say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// In one word: `BadFile`, `Conflict`, `Refused`.
    #[schemars(extend("format" = "reason"))]
    pub reason: String,
    /// The file, below the folder.
    pub file: String,
    /// Which object, and what about it.
    #[schemars(length(max = 512))]
    pub message: String,
}

impl KindType for Directory {
    const INFO: KindInfo = KindInfo {
        name: "Directory",
        plural: "directories",
        singular: "directory",
        short_names: &[],
        namespaced: false,
        columns: &[Column::AGE],
        selectable_fields: &[],
    };
    type Spec = DirectorySpec;
    type Status = DirectoryStatus;
}
