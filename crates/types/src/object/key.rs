//! How objects are named: by key, and by reference with a uid.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Uid;

/// Which object: whatever has this name now.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    pub kind: String,
    /// Empty for kinds of the whole cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(kind: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// `Workload default/web`, `Node a1`
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Which object, and which of those that had its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// "Workload", "Node".
    #[schemars(extend("format" = "kind"))]
    pub kind: String,
    /// Empty for kinds that belong to the whole cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[schemars(extend("format" = "dns-subdomain"))]
    pub name: String,
    /// The object with this uid and no other; empty for whichever has the name.
    #[serde(default, skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
}
