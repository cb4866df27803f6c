//! The objects in the text of a file. Pure.

use serde_json::Value;
use setpoint_types::names::{check_dns_subdomain, check_kind};
use setpoint_types::{Metadata, Object};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    /// By the end of a file's name; none for files that hold no manifests.
    pub fn of(name: &str) -> Option<Self> {
        match name.rsplit_once('.')? {
            ("", _) => None,
            (_, "json") => Some(Self::Json),
            (_, "yaml" | "yml") => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// All objects of a file, or the first thing that is wrong with it: of a file that is not understood nothing is applied.
///
/// YAML may have several documents. Of the metadata only what an author decides is taken: name, namespace, labels, annotations.
pub fn parse(format: Format, text: &str) -> Result<Vec<Object>, String> {
    let documents: Vec<Value> = match format {
        Format::Json => vec![serde_json::from_str(text).map_err(|error| error.to_string())?],
        // `country: no` is a text. The parser's words show the line as well; their first line says what and where.
        Format::Yaml => {
            serde_saphyr::from_multiple_with_options(text, serde_saphyr::options! { strict_booleans: true })
                .map_err(|error| error.to_string().lines().next().unwrap_or("it is no YAML").to_owned())?
        }
    };
    documents.into_iter().map(object).collect()
}

fn object(document: Value) -> Result<Object, String> {
    if document.get("status").is_some() {
        return Err("a manifest says what is wanted, and has no status".to_owned());
    }
    let Object { kind, metadata, spec, .. } =
        serde_json::from_value(document).map_err(|error| error.to_string())?;
    check_kind(&kind).map_err(|rule| format!("the kind {kind:?} {rule}"))?;
    let Metadata { namespace, name, labels, annotations, .. } = metadata;
    check_dns_subdomain(&name).map_err(|rule| format!("the name {name:?} of a {kind} {rule}"))?;
    let metadata = Metadata { namespace, name, labels, annotations, ..Metadata::default() };
    Ok(Object { kind, metadata, spec, status: Value::Null })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, text: &str, expected: &str) {
        let told = match parse(format, text) {
            Ok(objects) => objects.iter().map(|it| it.key().to_string()).collect::<Vec<_>>().join(", "),
            Err(problem) => problem,
        };
        assert!(told.contains(expected) && told.is_empty() == expected.is_empty(), "{text:?} is {told:?}");
    }

    #[test]
    fn a_file_has_objects_or_one_problem() {
        let json = r#"{"kind": "Config", "metadata": {"namespace": "a", "name": "c"}, "spec": {"x": 1}}"#;
        check(Format::Json, json, "Config a/c");
        check(Format::Yaml, json, "Config a/c");
        let two = "kind: Namespace\nmetadata: {name: a}\n---\nkind: Config\nmetadata: {name: c}\n";
        check(Format::Yaml, two, "Namespace a, Config c");
        check(Format::Yaml, "# nothing\n", "");
        check(Format::Json, "", "EOF");
        check(Format::Json, "[]", "expected struct Object");
        check(Format::Yaml, "kind: [", "line 1");
        check(Format::Yaml, "kind: config\nmetadata: {name: c}\n", "the kind \"config\" must begin");
        check(Format::Yaml, "kind: Config\n", "the name \"\" of a Config must not be empty");
        check(Format::Yaml, "kind: Config\nmetadata: {name: c}\nstatus: {}\n", "has no status");
    }

    #[test]
    fn what_the_server_decides_is_not_taken_from_a_file() {
        let text =
            "kind: Config\nmetadata: {name: c, uid: u, revision: 7, finalizers: [x], labels: {a: no}}\n";
        let object = parse(Format::Yaml, text).unwrap().remove(0);
        let labels = [("a".to_owned(), "no".to_owned())].into();
        assert_eq!(object.metadata, Metadata { name: "c".into(), labels, ..Metadata::default() });
    }

    #[test]
    fn the_name_of_a_file_says_how_it_is_written() {
        let table = [
            ("a.json", Some(Format::Json)),
            ("a.b.yaml", Some(Format::Yaml)),
            ("a.yml", Some(Format::Yaml)),
            (".yaml", None),
            ("a.txt", None),
            ("yaml", None),
        ];
        for (name, format) in table {
            assert_eq!(Format::of(name), format, "{name}");
        }
    }
}
