//! Which kinds have namespaces: built-in ones, those of the cluster, and those a folder is about to define.

use std::collections::BTreeMap;

use setpoint_types::kinds::{KindDefinitionSpec, KindScope};
use setpoint_types::{Object, registry};

/// What is known of the kinds.
#[derive(Clone, Debug, Default)]
pub struct Scopes {
    /// Whether it has namespaces, of kinds that are not built in.
    namespaced: BTreeMap<String, bool>,
}

impl Scopes {
    /// Adds a kind. What is known already stays: a definition that is in force cannot change its scope.
    pub fn add(&mut self, definition: &KindDefinitionSpec) {
        let namespaced = definition.scope == KindScope::Namespaced;
        self.namespaced.entry(definition.names.kind.clone()).or_insert(namespaced);
    }

    /// Adds a kind that a manifest defines, if it is one that does.
    pub fn add_manifest(&mut self, manifest: &Object) {
        if manifest.kind == "KindDefinition"
            && let Ok(definition) = manifest.spec::<KindDefinitionSpec>()
        {
            self.add(&definition);
        }
    }

    /// None: nobody knows the kind.
    pub fn is_namespaced(&self, kind: &str) -> Option<bool> {
        match registry::kind(kind) {
            Some(kind) => Some(kind.info.namespaced),
            None => self.namespaced.get(kind).copied(),
        }
    }
}
