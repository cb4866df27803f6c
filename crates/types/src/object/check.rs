//! Whether metadata is well-formed, for objects of every kind, built-in or not.
//!
//! Not here: finalizers and owners, whose rules need what is stored (the crate `objects`).

use std::collections::BTreeMap;

use super::Metadata;
use crate::names::{
    check_dns_label, check_dns_subdomain, check_label_key, check_label_value, check_name_prefix,
};
use crate::{Problems, Timestamp};

/// All annotations of one object together, as in Kubernetes.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// What of metadata is checked, borrowed: every write is checked, and whoever has it in another form need not copy it.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub generate_name: &'a str,
    pub uid: &'a str,
    pub deleted: Option<Timestamp>,
    pub labels: &'a BTreeMap<String, String>,
    pub annotations: &'a BTreeMap<String, String>,
}

impl<'a> From<&'a Metadata> for Checked<'a> {
    fn from(metadata: &'a Metadata) -> Self {
        Self {
            namespace: &metadata.namespace,
            name: &metadata.name,
            generate_name: &metadata.generate_name,
            uid: metadata.uid.as_str(),
            deleted: metadata.deleted,
            labels: &metadata.labels,
            annotations: &metadata.annotations,
        }
    }
}

/// Reports what is wrong with an object's metadata. `old` is the stored one, if there is one.
pub fn check_metadata(namespaced: bool, old: Option<Checked<'_>>, new: Checked<'_>, problems: &mut Problems) {
    problems.field("metadata", |problems| {
        check_names(namespaced, new, problems);
        check_labels(new.labels, problems);
        check_annotations(new.annotations, problems);
        if let Some(old) = old {
            check_same(old, new, problems);
        }
    });
}

fn check_names(namespaced: bool, metadata: Checked<'_>, problems: &mut Problems) {
    match (namespaced, metadata.namespace) {
        (true, namespace) => report_if(problems, "namespace", check_dns_label(namespace)),
        (false, "") => {}
        (false, _) => problems.report_at("namespace", "must be empty: the kind belongs to the whole cluster"),
    }
    match (metadata.name, metadata.generate_name) {
        ("", "") => problems.report_at("name", "is required, or generateName in its place"),
        ("", prefix) => report_if(problems, "generateName", check_name_prefix(prefix)),
        (name, _) => report_if(problems, "name", check_dns_subdomain(name)),
    }
}

fn check_labels(labels: &BTreeMap<String, String>, problems: &mut Problems) {
    problems.field("labels", |problems| {
        for (key, value) in labels {
            problems.field(key, |problems| {
                if let Err(message) = check_label_key(key) {
                    problems.report(format!("as a key {message}"));
                }
                if let Err(message) = check_label_value(value) {
                    problems.report(message);
                }
            });
        }
    });
}

fn check_annotations(annotations: &BTreeMap<String, String>, problems: &mut Problems) {
    problems.field("annotations", |problems| {
        for key in annotations.keys() {
            if let Err(message) = check_label_key(key) {
                problems.field(key, |problems| problems.report(format!("as a key {message}")));
            }
        }
        let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > ANNOTATIONS_BYTES_MAX {
            problems.report(format!("have {bytes} bytes together, the most is {ANNOTATIONS_BYTES_MAX}"));
        }
    });
}

/// What the server wrote stays as it is. Empty means the writer said nothing about it.
fn check_same(old: Checked<'_>, new: Checked<'_>, problems: &mut Problems) {
    if new.name != old.name {
        problems.report_at("name", "cannot be changed");
    }
    if new.namespace != old.namespace {
        problems.report_at("namespace", "cannot be changed");
    }
    if !new.uid.is_empty() && new.uid != old.uid {
        problems.report_at("uid", "cannot be changed");
    }
    if old.deleted.is_some() && new.deleted.is_some() && new.deleted != old.deleted {
        problems.report_at("deletedMs", "cannot be changed");
    }
}

fn report_if(problems: &mut Problems, field: &str, verdict: Result<(), &'static str>) {
    if let Err(message) = verdict {
        problems.report_at(field, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uid;

    fn paths(namespaced: bool, old: Option<&Metadata>, new: &Metadata) -> Vec<String> {
        let mut problems = Problems::new();
        check_metadata(namespaced, old.map(Checked::from), new.into(), &mut problems);
        problems.into_found().into_iter().map(|problem| problem.path).collect()
    }

    fn good() -> Metadata {
        Metadata {
            namespace: "default".into(),
            name: "web".into(),
            uid: Uid::new("u"),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            ..Metadata::default()
        }
    }

    #[test]
    fn good_metadata_has_no_problems() {
        assert!(paths(true, None, &good()).is_empty());
        assert!(paths(true, Some(&good()), &good()).is_empty());
        let generated = Metadata { name: String::new(), generate_name: "web-".into(), ..good() };
        assert!(paths(true, None, &generated).is_empty());
    }

    #[test]
    fn every_problem_is_reported_at_its_path() {
        let bad = Metadata {
            namespace: "a.b".into(),
            name: "Web".into(),
            labels: [("a/b/c".to_owned(), "-".to_owned())].into(),
            annotations: [("?".to_owned(), "x".repeat(ANNOTATIONS_BYTES_MAX))].into(),
            ..good()
        };
        assert_eq!(
            paths(true, None, &bad),
            [
                ".metadata.namespace",
                ".metadata.name",
                ".metadata.labels.\"a/b/c\"",
                ".metadata.labels.\"a/b/c\"",
                ".metadata.annotations.\"?\"",
                ".metadata.annotations",
            ]
        );
        assert_eq!(
            paths(false, None, &Metadata { name: String::new(), ..good() }),
            [".metadata.namespace", ".metadata.name"]
        );
    }

    #[test]
    fn identity_cannot_be_changed() {
        let old = Metadata { deleted: Some(Timestamp(1)), ..good() };
        let new = Metadata {
            name: "other".into(),
            namespace: "elsewhere".into(),
            uid: Uid::new("v"),
            deleted: Some(Timestamp(2)),
            ..good()
        };
        assert_eq!(
            paths(true, Some(&old), &new),
            [".metadata.name", ".metadata.namespace", ".metadata.uid", ".metadata.deletedMs"]
        );
        assert!(
            paths(true, Some(&old), &Metadata { uid: Uid::default(), deleted: None, ..good() }).is_empty()
        );
    }
}
