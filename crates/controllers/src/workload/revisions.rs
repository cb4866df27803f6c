//! Revisions of a template: which ReplicaSet is for which, what a new one is called, and which old ones are forgotten. Pure.
//!
//! A revision is found by its template itself and not by a fingerprint of it: a release that adds a field with a default must not
//! make every workload roll.

use setpoint_client::Typed;
use setpoint_types::kinds::{ReplicaSet, ReplicaTemplate};
use setpoint_types::object::to_json;

use crate::digest::digest;

/// Characters of a workload's name in the names of its parts: a replica's has room for the revision and its own number.
const NAME_CHARS_MAX: usize = 180;

/// The ReplicaSet of this template, if there is one to go on with.
pub fn find<'a>(sets: &'a [Typed<ReplicaSet>], template: &ReplicaTemplate) -> Option<&'a Typed<ReplicaSet>> {
    sets.iter().find(|set| set.spec.template == *template && !set.metadata.is_terminating())
}

/// The number of the next revision.
pub fn next(sets: &[Typed<ReplicaSet>]) -> u64 {
    sets.iter().map(|set| set.spec.revision).max().unwrap_or(0) + 1
}

/// A fingerprint of a template that no other set of the workload has.
pub fn fingerprint(template: &ReplicaTemplate, sets: &[Typed<ReplicaSet>]) -> String {
    let text = to_json(template).to_string();
    let of = |salt: usize| match salt {
        0 => digest(&[&text]),
        _ => digest(&[&text, &salt.to_string()]),
    };
    let is_free = |hash: &String| sets.iter().all(|set| set.spec.template_hash != *hash);
    (0..=sets.len()).map(of).find(is_free).unwrap_or_else(|| of(sets.len() + 1))
}

/// `{workload}-{fingerprint}`, where a long name is cut and told apart by a hash of its own.
pub fn set_name(workload: &str, fingerprint: &str) -> String {
    format!("{}-{fingerprint}", short_name(workload))
}

/// A workload's name as the beginning of its parts' names.
pub fn short_name(workload: &str) -> String {
    if workload.len() <= NAME_CHARS_MAX {
        return workload.to_owned();
    }
    let hash = digest(&[workload]);
    let begin = &workload[..workload.floor_char_boundary(NAME_CHARS_MAX - hash.len() - 1)];
    format!("{}-{hash}", begin.trim_end_matches(['-', '.']))
}

/// Those that are forgotten: nothing of them is left, nobody goes back to them by itself, and `limit` newer ones are kept.
pub fn forgotten(
    sets: &[Typed<ReplicaSet>],
    limit: u32,
    is_spent: impl Fn(&Typed<ReplicaSet>) -> bool,
) -> Vec<&Typed<ReplicaSet>> {
    let mut spent: Vec<_> =
        sets.iter().filter(|set| is_spent(set) && !set.metadata.is_terminating()).collect();
    spent.sort_by_key(|set| std::cmp::Reverse(set.spec.revision));
    spent.split_off(spent.len().min(limit as usize))
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::ReplicaSetSpec;
    use setpoint_types::names::check_dns_subdomain;

    use super::*;

    fn template(command: &str) -> ReplicaTemplate {
        ReplicaTemplate { command: vec![command.to_owned()], ..ReplicaTemplate::default() }
    }

    fn set(revision: u64, command: &str) -> Typed<ReplicaSet> {
        let template = template(command);
        let template_hash = fingerprint(&template, &[]);
        let name = set_name("web", &template_hash);
        let spec = ReplicaSetSpec { revision, template, template_hash, ..ReplicaSetSpec::default() };
        Typed::new(name, spec)
    }

    #[test]
    fn a_template_finds_its_revision_again() {
        let sets = [set(1, "a"), set(2, "b")];
        assert_eq!(find(&sets, &template("a")).map(|it| it.spec.revision), Some(1));
        assert!(find(&sets, &template("c")).is_none());
        assert_eq!((next(&sets), next(&[])), (3, 1));
    }

    #[test]
    fn names_never_change_between_versions_and_fit_whatever_the_workload_is_called() {
        assert_eq!(set_name("web", &fingerprint(&template("a"), &[])), "web-b8174054ba");
        let long = format!("{}.x", "a".repeat(251));
        let name = format!("{}-r{}", set_name(&long, "0123456789"), "0123456789");
        assert_eq!(check_dns_subdomain(&name), Ok(()));
        assert_ne!(short_name(&long), short_name(&format!("{}.y", "a".repeat(251))));
    }

    #[test]
    fn two_templates_of_one_fingerprint_are_told_apart() {
        let mut taken = set(1, "other");
        taken.spec.template_hash = fingerprint(&template("a"), &[]);
        let second = fingerprint(&template("a"), std::slice::from_ref(&taken));
        assert_ne!(second, taken.spec.template_hash);
    }

    #[test]
    fn the_newest_spent_ones_are_kept() {
        let sets = [set(1, "a"), set(2, "b"), set(3, "c"), set(4, "d")];
        let gone = |limit| -> Vec<u64> {
            forgotten(&sets, limit, |set| set.spec.revision != 4).iter().map(|it| it.spec.revision).collect()
        };
        assert_eq!(gone(1), [2, 1]);
        assert_eq!(gone(0), [3, 2, 1]);
        assert!(gone(3).is_empty());
    }
}
