//! How copies are told from everybody else's configs.
//!
//! A copy carries a label that names where it comes from, and the server remembers that this controller applied that label. Both are asked
//! for: a label alone can be copied by anybody, along with the object that carries it. Owner references would not do: an owner is in the
//! same namespace.

use setpoint_types::Metadata;
use setpoint_types::object::WriteOperation;

/// On a source: `true` asks for copies.
pub const DISTRIBUTE: &str = "config-distributor.example.com/distribute";

/// On a copy: the namespace of its source, which has the copy's name. Whoever removes it keeps the object, and the distributor lets go.
pub const SOURCE: &str = "config-distributor.example.com/source";

/// Whether copies of it are asked for.
pub fn is_source(metadata: &Metadata) -> bool {
    !metadata.is_terminating() && metadata.labels.get(DISTRIBUTE).is_some_and(|value| value == "true")
}

/// Whether it is a copy that `manager` made from the namespace `home`.
pub fn is_copy(metadata: &Metadata, home: &str, manager: &str) -> bool {
    let path = format!(".metadata.labels.\"{SOURCE}\"");
    let applied = metadata.managed_fields.iter().any(|entry| {
        entry.manager == manager
            && entry.operation == WriteOperation::Apply
            && entry.subresource.is_empty()
            && entry.fields.contains(&path)
    });
    applied && metadata.labels.get(SOURCE).is_some_and(|source| source == home)
}

#[cfg(test)]
mod tests {
    use setpoint_types::object::ManagedFields;

    use super::*;

    #[test]
    fn a_copy_is_what_this_manager_labelled() {
        let copy = |source: &str, manager: &str, operation, path: &str| Metadata {
            labels: [(SOURCE.to_owned(), source.to_owned())].into(),
            managed_fields: vec![ManagedFields {
                manager: manager.to_owned(),
                operation,
                fields: vec![path.to_owned()],
                ..ManagedFields::default()
            }],
            ..Metadata::default()
        };
        let label = ".metadata.labels.\"config-distributor.example.com/source\"";
        let is = |metadata: Metadata| is_copy(&metadata, "base", "me");
        assert!(is(copy("base", "me", WriteOperation::Apply, label)));
        assert!(!is(copy("base", "jane", WriteOperation::Apply, label)), "somebody's who copied ours");
        assert!(!is(copy("base", "me", WriteOperation::Update, label)));
        assert!(!is(copy("base", "me", WriteOperation::Apply, ".spec.data")));
        assert!(!is(copy("other", "me", WriteOperation::Apply, label)), "of another distributor");
        assert!(!is(Metadata::default()));
    }
}
