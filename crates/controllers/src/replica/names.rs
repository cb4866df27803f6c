//! What replicas of a set are called, so that whoever makes them again calls them the same. Pure.

use std::collections::BTreeSet;

use crate::digest::digest;
use crate::facts::ReplicaFacts;

/// `{set}-{slot}`: the lowest slots whose names are free.
pub fn free_slots<'a>(set: &'a str, used: &'a BTreeSet<&str>) -> impl Iterator<Item = String> + use<'a> {
    (0_u32..).map(move |slot| format!("{set}-{slot}")).filter(|name| !used.contains(name.as_str()))
}

/// `{set}-r{hash}` of what replaces this one: by its binding's uid, so that there is one replacement for a loss.
pub fn replacement(set: &str, lost: &ReplicaFacts) -> String {
    let loss = lost.binding.as_ref().map_or(&lost.uid, |binding| &binding.uid);
    replacement_of(set, loss.as_str())
}

/// The same, where only the uid of the binding is known.
pub fn replacement_of(set: &str, binding_uid: &str) -> String {
    format!("{set}-r{}", digest(&[binding_uid]))
}

#[cfg(test)]
mod tests {
    use setpoint_types::Uid;

    use super::*;
    use crate::facts::BindingFacts;

    #[test]
    fn the_lowest_free_slots_are_taken() {
        let used = BTreeSet::from(["web-0", "web-2"]);
        let names: Vec<String> = free_slots("web", &used).take(3).collect();
        assert_eq!(names, ["web-1", "web-3", "web-4"]);
    }

    #[test]
    fn a_loss_has_one_replacement_whatever_the_replica_was_called() {
        let lost = |name: &str, binding: &str| ReplicaFacts {
            name: name.to_owned(),
            binding: Some(BindingFacts { uid: Uid::new(binding), ..BindingFacts::default() }),
            ..ReplicaFacts::default()
        };
        assert_eq!(replacement("web", &lost("web-0", "u1")), replacement("web", &lost("web-9", "u1")));
        assert_ne!(replacement("web", &lost("web-0", "u1")), replacement("web", &lost("web-0", "u2")));
    }
}
