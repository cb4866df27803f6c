//! Every built-in kind, found by any of its names.

use crate::kind::Kind;
use crate::kinds;

static KINDS: [Kind; 17] = [
    Kind::of::<kinds::AdmissionPolicy>(),
    Kind::of::<kinds::Autoscaler>(),
    Kind::of::<kinds::Binding>(),
    Kind::of::<kinds::Decision>(),
    Kind::of::<kinds::Event>(),
    Kind::of::<kinds::KindDefinition>(),
    Kind::of::<kinds::Lease>(),
    Kind::of::<kinds::Namespace>(),
    Kind::of::<kinds::Node>(),
    Kind::of::<kinds::PlacementPolicy>(),
    Kind::of::<kinds::PriorityClass>(),
    Kind::of::<kinds::Quota>(),
    Kind::of::<kinds::Replica>(),
    Kind::of::<kinds::ReplicaSet>(),
    Kind::of::<kinds::Role>(),
    Kind::of::<kinds::RoleBinding>(),
    Kind::of::<kinds::Workload>(),
];

/// All of them, by name.
pub fn kinds() -> &'static [Kind] {
    &KINDS
}

/// The kind of exactly this name: `Workload`.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.info.name == name)
}

/// The kind with this name, singular, plural or short name, in any case: what people type.
pub fn look_up(word: &str) -> Option<&'static Kind> {
    let word = word.to_ascii_lowercase();
    KINDS.iter().find(|kind| {
        let info = &kind.info;
        info.singular == word || info.plural == word || info.short_names.contains(&word.as_str())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_found_by_each_of_its_names() {
        for it in kinds() {
            let info = &it.info;
            let name = |found: Option<&Kind>| found.map(|found| found.info.name);
            assert_eq!(name(kind(info.name)), Some(info.name));
            for word in [info.name, info.plural, info.singular].iter().chain(info.short_names) {
                assert_eq!(name(look_up(word)), Some(info.name), "{word}");
            }
        }
        assert!(kind("workload").is_none() && look_up("nothing").is_none());
    }

    #[test]
    fn no_two_kinds_share_a_name() {
        let mut seen = BTreeSet::new();
        for info in kinds().iter().map(|kind| &kind.info) {
            assert_eq!(info.singular, info.name.to_ascii_lowercase());
            let words = [info.plural, info.singular];
            for word in words.iter().chain(info.short_names).collect::<BTreeSet<_>>() {
                assert!(seen.insert(*word), "{word}");
            }
        }
        assert!(kinds().is_sorted_by_key(|kind| kind.info.name));
    }
}
