//! Which object a request means: its namespace and name, before anything is read.

use setpoint_types::names::{SUBDOMAIN_CHARS_MAX, check_dns_label, check_dns_subdomain};

use super::Kind;
use crate::object::Metadata;
use crate::refusal::{FieldProblem, Refusal};

/// The namespace of objects that name none.
const NAMESPACE: &str = "default";

/// Completes namespace and name: the default namespace, and for `generate_name` the prefix with `suffix`, which the caller
/// draws, and draws anew if the name is taken.
pub fn settle_key(kind: &Kind<'_>, metadata: &mut Metadata, suffix: &str) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    match (kind.namespaced, metadata.namespace.is_empty()) {
        (true, true) => metadata.namespace = NAMESPACE.to_owned(),
        (false, false) => {
            let message = format!("must be empty: objects of kind {} belong to the whole cluster", kind.name);
            problems.push(FieldProblem::new(".metadata.namespace", message));
        }
        _ => {}
    }
    if metadata.name.is_empty() && !metadata.generate_name.is_empty() && !suffix.is_empty() {
        metadata.name = generated(&metadata.generate_name, suffix);
    }
    let from = if metadata.generate_name.is_empty() { ".metadata.name" } else { ".metadata.generateName" };
    if metadata.name.is_empty() {
        problems.push(FieldProblem::new(
            ".metadata.name",
            "is missing: give a name, or create with generateName",
        ));
    } else if let Err(rule) = check_dns_subdomain(&metadata.name) {
        problems.push(FieldProblem::new(from, broken(rule, &metadata.name)));
    }
    if kind.namespaced
        && let Err(rule) = check_dns_label(&metadata.namespace)
    {
        problems.push(FieldProblem::new(".metadata.namespace", broken(rule, &metadata.namespace)));
    }
    if problems.is_empty() { Ok(()) } else { Err(Refusal::invalid(problems)) }
}

/// The prefix, shortened if need be, and the suffix.
fn generated(prefix: &str, suffix: &str) -> String {
    let room = SUBDOMAIN_CHARS_MAX.saturating_sub(suffix.len());
    let kept: String = prefix
        .chars()
        .scan(0, |length, it| {
            *length += it.len_utf8();
            (*length <= room).then_some(it)
        })
        .collect();
    kept + suffix
}

fn broken(rule: &str, name: &str) -> String {
    let shown: String = name.chars().take(80).collect();
    let cut = if shown.len() < name.len() { "…" } else { "" };
    format!("is {shown:?}{cut}, but {rule}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    fn settled(namespaced: bool, namespace: &str, name: &str, generate_name: &str) -> Result<String, String> {
        let topology = Topology::any();
        let kind = Kind { name: "Thing", namespaced, topology: &topology };
        let mut metadata = Metadata {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            generate_name: generate_name.to_owned(),
            ..Metadata::default()
        };
        match settle_key(&kind, &mut metadata, "x7k2p") {
            Ok(()) => Ok(format!("{}/{}", metadata.namespace, metadata.name)),
            Err(refusal) => {
                Err(refusal.problems.iter().map(|it| it.path.as_str()).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn names_are_completed_or_refused() {
        let (ok, bad) = (|it: &str| Ok(it.to_owned()), |it: &str| Err(it.to_owned()));
        assert_eq!(settled(true, "", "web", ""), ok("default/web"));
        assert_eq!(settled(true, "a", "web", "ignored-"), ok("a/web"));
        assert_eq!(settled(false, "", "n1", ""), ok("/n1"));
        assert_eq!(settled(true, "", "", "web-"), ok("default/web-x7k2p"));
        assert_eq!(settled(false, "a", "", ""), bad(".metadata.name .metadata.namespace"));
        assert_eq!(settled(true, "a/b", "Web", ""), bad(".metadata.name .metadata.namespace"));
        assert_eq!(settled(true, "a.b", "web", ""), bad(".metadata.namespace"));
        assert_eq!(settled(true, "", &"a".repeat(253), ""), Ok(format!("default/{}", "a".repeat(253))));
        assert_eq!(settled(true, "", "", "Web-"), bad(".metadata.generateName"));
        for name in ["-a", "a-", "a/b", "a b", "é", ".", "..", &"a".repeat(254)] {
            assert_eq!(settled(true, "", name, ""), bad(".metadata.name"), "{name}");
        }
        let long = settled(true, "", "", &"a".repeat(300)).expect("a name");
        assert_eq!(long.len(), "default/".len() + 253);
        assert!(long.ends_with("ax7k2p"));
    }
}
