//! The laws of the layers: which crate may depend on which.
//!
//! They are what keeps the state machine replayable and everybody but the server an ordinary client. A new edge
//! across them needs a decision record in `docs/adr/`, and a change here.

use std::path::Path;

use super::repository::{Dependency, Metadata, Package};
use super::violation::Violation;

const RULE: &str = "layers";

/// Only the crate on the right may name the one on the left, not even in its tests.
const CONFINED: &[(&str, &str)] = &[
    ("openraft", "setpoint-consensus"),
    ("rocksdb", "setpoint-store"),
    ("librocksdb-sys", "setpoint-store"),
];

/// The server's insides and the crates built on them. Everybody else is a client of the public interface.
const SERVER_SIDE: &[(&str, &[&str])] = &[
    ("setpoint-access", &["setpoint-apiserver", "setpoint-server", TESTKIT]),
    ("setpoint-admission", &["setpoint-apiserver"]),
    ("setpoint-apiserver", &["setpoint-server", TESTKIT]),
    ("setpoint-consensus", &["setpoint-apiserver", "setpoint-server", TESTKIT]),
    ("setpoint-objects", &["setpoint-admission", "setpoint-apiserver", "setpoint-server"]),
    ("setpoint-store", &["setpoint-apiserver", "setpoint-server", TESTKIT]),
];

/// The server's services in the process of a test: built on both sides, and in no program.
const TESTKIT: &str = "setpoint-testkit";

/// Everybody's client, and what controllers are built with: all of ours they may use. What they cannot do, no user can.
const CLIENT_SIDE: &[(&str, &[&str])] = &[
    ("setpoint-client", &["setpoint-api", "setpoint-types"]),
    ("setpoint-runtime", &["setpoint-api", "setpoint-client", "setpoint-types"]),
];

/// Crates that know no wire format.
const WIRELESS: &[&str] =
    &["setpoint-access", "setpoint-admission", "setpoint-objects", "setpoint-store", "setpoint-types"];

/// All of it is a test, of every decoder wherever it is.
const FUZZER: &str = "setpoint-fuzz-tests";

pub fn check(metadata: &Metadata, violations: &mut Vec<Violation>) {
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            if let Some(advice) = broken_law(&package.name, dependency) {
                violations.push(at_manifest(&metadata.workspace_root, package, dependency, advice));
            }
        }
    }
}

/// What to do instead of letting `package` depend on `dependency`, if a law forbids it.
fn broken_law(package: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let for_tests = dependency.kind.as_deref() == Some("dev");
    if let Some((_, owner)) = CONFINED.iter().find(|(confined, _)| *confined == name) {
        return (package != *owner).then(|| format!("only `{owner}` may name `{name}`; use what it offers"));
    }
    if WIRELESS.contains(&package) && !for_tests && is_wire(name) {
        return Some(format!("`{package}` knows no wire format: convert where messages come in, not here"));
    }
    if for_tests || package == FUZZER {
        return None;
    }
    if name == TESTKIT {
        return Some(format!("`{TESTKIT}` is for tests: make it a dev-dependency"));
    }
    if package == "setpoint-types" && name.starts_with("setpoint-") {
        return Some(format!("`{package}` is the lowest layer: move what it needs from `{name}` into it"));
    }
    if let Some((_, allowed)) = CLIENT_SIDE.iter().find(|(client, _)| *client == package)
        && name.starts_with("setpoint-")
        && !allowed.contains(&name)
    {
        return Some(format!("`{package}` is built on {} only", list(allowed)));
    }
    let is_inside = SERVER_SIDE.iter().any(|(inside, _)| *inside == package);
    if is_inside && CLIENT_SIDE.iter().any(|(client, _)| *client == name) {
        return Some(format!("`{package}` is inside the server, which is nobody's client"));
    }
    let (_, allowed) = SERVER_SIDE.iter().find(|(inside, _)| *inside == name)?;
    (!allowed.contains(&package))
        .then(|| format!("`{name}` is inside the server, only {} may use it", list(allowed)))
}

fn is_wire(name: &str) -> bool {
    ["prost", "tonic"].iter().any(|wire| name == *wire || name.starts_with(&format!("{wire}-")))
        || name == "setpoint-api"
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
}

fn at_manifest(root: &Path, package: &Package, dependency: &Dependency, advice: String) -> Violation {
    let manifest = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
    let path = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
    Violation {
        path: path.display().to_string(),
        line: line_naming(&manifest, &dependency.name),
        rule: RULE,
        advice,
    }
}

/// The line of a manifest on which a dependency is named, or 1.
fn line_naming(manifest: &str, name: &str) -> usize {
    let names_it = |line: &str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '=', '.']))
            || line.contains(&format!("package = \"{name}\""))
    };
    manifest.lines().position(names_it).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(package: &str, name: &str, kind: Option<&str>) -> bool {
        let dependency = Dependency { name: name.into(), kind: kind.map(str::to_owned) };
        broken_law(package, &dependency).is_none()
    }

    #[test]
    fn openraft_and_rocksdb_stay_in_their_crates_even_in_tests() {
        assert!(allows("setpoint-consensus", "openraft", None));
        assert!(allows("setpoint-store", "rocksdb", None));
        for kind in [None, Some("dev"), Some("build")] {
            assert!(!allows("setpoint-server", "openraft", kind));
            assert!(!allows("setpoint-store", "openraft", kind));
            assert!(!allows("setpoint-consensus", "rocksdb", kind));
        }
    }

    #[test]
    fn types_is_the_lowest_layer() {
        assert!(!allows("setpoint-types", "setpoint-api", None));
        assert!(!allows("setpoint-types", "setpoint-client", None));
        assert!(allows("setpoint-types", "thiserror", None));
        assert!(allows("setpoint-store", "setpoint-types", None));
    }

    #[test]
    fn only_the_server_is_built_on_the_servers_insides() {
        assert!(allows("setpoint-server", "setpoint-apiserver", None));
        assert!(allows("setpoint-apiserver", "setpoint-store", None));
        assert!(allows("setpoint-apiserver", "setpoint-consensus", None));
        assert!(!allows("setpoint-store", "setpoint-consensus", None));
        assert!(!allows("setpoint-consensus", "setpoint-store", None));
        assert!(!allows("setpoint-client", "setpoint-apiserver", None));
        assert!(!allows("setpoint-cli", "setpoint-store", None));
        assert!(allows("setpoint-apiserver", "setpoint-objects", None));
        assert!(!allows("setpoint-cli", "setpoint-objects", None));
        assert!(!allows("setpoint-cli", "setpoint-access", None));
        assert!(!allows("setpoint-runtime", "setpoint-store", None));
        assert!(!allows("setpoint-runtime", "setpoint-apiserver", None));
    }

    #[test]
    fn clients_know_the_contract_and_the_vocabulary_and_the_server_knows_no_client() {
        assert!(allows("setpoint-client", "setpoint-api", None));
        assert!(allows("setpoint-client", "setpoint-types", None));
        assert!(allows("setpoint-client", "tonic", None));
        assert!(!allows("setpoint-client", "setpoint-runtime", None));
        assert!(!allows("setpoint-client", "setpoint-failpoint", None));
        assert!(allows("setpoint-runtime", "setpoint-client", None));
        assert!(!allows("setpoint-runtime", "setpoint-objects", None));
        assert!(allows("setpoint-controllers", "setpoint-runtime", None));
        assert!(!allows("setpoint-apiserver", "setpoint-client", None));
        assert!(!allows("setpoint-store", "setpoint-runtime", None));
    }

    #[test]
    fn the_test_kit_knows_both_sides_and_is_in_no_program() {
        for inside in ["setpoint-access", "setpoint-apiserver", "setpoint-consensus", "setpoint-store"] {
            assert!(allows(TESTKIT, inside, None), "{inside}");
        }
        assert!(allows(TESTKIT, "setpoint-client", None));
        for package in ["setpoint-runtime", "setpoint-server", "setpoint-cli", "setpoint-apiserver"] {
            assert!(!allows(package, TESTKIT, None), "{package}");
            assert!(!allows(package, TESTKIT, Some("build")), "{package}");
            assert!(allows(package, TESTKIT, Some("dev")), "{package}");
        }
    }

    #[test]
    fn types_and_store_know_no_wire_format() {
        for wire in ["prost", "prost-types", "tonic", "tonic-prost", "setpoint-api"] {
            assert!(!allows("setpoint-types", wire, None), "{wire}");
            assert!(!allows("setpoint-store", wire, None), "{wire}");
            assert!(!allows("setpoint-objects", wire, None), "{wire}");
            assert!(allows("setpoint-apiserver", wire, None), "{wire}");
        }
    }

    #[test]
    fn the_violation_points_at_the_line_of_the_manifest() {
        let manifest = "[dependencies]\nrocksdb-tools = \"1\"\nraft = { package = \"openraft\" }\nrocksdb.workspace = true\n";
        assert_eq!(line_naming(manifest, "rocksdb"), 4);
        assert_eq!(line_naming(manifest, "openraft"), 3);
        assert_eq!(line_naming(manifest, "absent"), 1);
    }

    #[test]
    fn what_cargo_prints_is_understood() {
        let printed = r#"{"workspace_root": "/here", "target_directory": "/there", "packages": [{"name": "setpoint-cli",
            "manifest_path": "/here/crates/cli/Cargo.toml", "dependencies": [
                {"name": "openraft", "kind": null, "optional": false}, {"name": "tempfile", "kind": "dev"}]}]}"#;
        let metadata: Metadata = serde_json::from_str(printed).expect("the shape of cargo metadata");
        let mut violations = Vec::new();
        check(&metadata, &mut violations);
        let found: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/cli/Cargo.toml:1: layers: only `setpoint-consensus` may name `openraft`; use what it offers"
            ]
        );
    }
}
