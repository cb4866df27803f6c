//! The files of a new controller.
//!
//! They are those of `examples/greeter`, which is built and tested with everything else; a test keeps both the same. Names are put
//! in where the example has its own. Around them comes what the example has from the workspace it is in: the versions of all
//! dependencies, and the compiler.

use std::path::{Path, PathBuf};

use super::names::Names;

/// Where the crates of the SDK are.
pub struct Sdk(PathBuf);

impl Sdk {
    pub fn given(path: PathBuf) -> Self {
        Self(path)
    }

    /// As the manifest of a crate in `folder` names it. What was given as a relative path is seen from where the user is, and
    /// has to be named from where the crate is.
    fn seen_from(&self, folder: &Path) -> PathBuf {
        if self.0.is_absolute() {
            return self.0.clone();
        }
        let depth = folder.components().count();
        match folder.is_relative() {
            true => std::iter::repeat_n("..", depth).collect::<PathBuf>().join(&self.0),
            false => std::path::absolute(&self.0).unwrap_or_else(|_| self.0.clone()),
        }
    }
}

/// The example that the template is, with its own names in it.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../../../../../examples/greeter/Cargo.toml")),
    ("README.md", include_str!("../../../../../../examples/greeter/README.md")),
    (".gitignore", "/target\n"),
    ("greeter.json", include_str!("../../../../../../examples/greeter/greeter.json")),
    ("src/kind.rs", include_str!("../../../../../../examples/greeter/src/kind.rs")),
    ("src/lib.rs", include_str!("../../../../../../examples/greeter/src/lib.rs")),
    ("src/main.rs", include_str!("../../../../../../examples/greeter/src/main.rs")),
    ("src/reconciler.rs", include_str!("../../../../../../examples/greeter/src/reconciler.rs")),
    ("tests/sweep.rs", include_str!("../../../../../../examples/greeter/tests/sweep.rs")),
];

/// Every file of a new crate in `folder`, by its name there.
pub fn files(names: &Names, sdk: &Sdk, folder: &Path) -> Vec<(String, String)> {
    let sdk = sdk.seen_from(folder).display().to_string();
    let named = |file: &str, text: &str| {
        let text = text
            .replace("../..", &sdk)
            .replace("singular: \"greeter\"", &format!("singular: \"{}\"", names.singular))
            .replace("greeters", &names.plural)
            .replace("Greeter", &names.kind);
        let is_code = file.ends_with(".rs");
        // In code, a word that is not quoted and not a file's name is an identifier.
        let text = match is_code {
            true => text
                .replace("\"greeter\"", &format!("\"{}\"", names.name))
                .replace("greeter.json", &format!("{}.json", names.name)),
            false => text,
        };
        text.replace("greeter", if is_code { &names.identifier } else { &names.name })
    };
    FILES.iter().map(|(file, text)| (file.replace("greeter", &names.name), named(file, text))).collect()
}

/// Taken as they are, if they are there: versions that were tested together, and the compiler they were tested with.
const COPIED: [&str; 2] = ["Cargo.lock", "rust-toolchain.toml"];

/// What a new crate has beside the files of the example.
pub fn surroundings(sdk: &Sdk) -> Vec<(String, String)> {
    let copied = |name: &str| Some((name.to_owned(), std::fs::read_to_string(sdk.0.join(name)).ok()?));
    COPIED.into_iter().filter_map(copied).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(files: &[(String, String)], name: &str) -> String {
        files.iter().find(|(it, _)| it == name).map(|(_, text)| text.clone()).unwrap_or_default()
    }

    #[test]
    fn under_the_examples_own_name_it_is_the_example() {
        let names = Names::of("greeter").unwrap();
        let made = files(&names, &Sdk::given("../..".into()), Path::new(""));
        for ((name, text), (expected, original)) in made.iter().zip(FILES) {
            assert_eq!((name.as_str(), text.as_str()), (*expected, *original));
        }
    }

    #[test]
    fn another_name_leaves_nothing_of_the_examples() {
        let names = Names::of("web-site").unwrap();
        let made = files(&names, &Sdk::given("/src/setpoint".into()), Path::new("web-site"));
        for (name, text) in &made {
            assert!(!text.to_lowercase().contains("greeter"), "{name}");
        }
        assert!(text(&made, "Cargo.toml").contains("path = \"/src/setpoint/crates/runtime\""));
        assert!(text(&made, "src/main.rs").contains("web_site::"));
        assert!(text(&made, "web-site.json").contains("\"WebSite\""));
    }

    #[test]
    fn it_is_built_as_the_workspace_is() {
        let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let around = surroundings(&Sdk::given(sdk.clone()));
        let own = |file: &str| std::fs::read_to_string(sdk.join(file)).expect(file);
        assert_eq!(text(&around, "rust-toolchain.toml"), own("rust-toolchain.toml"));
        assert_eq!(text(&around, "Cargo.lock"), own("Cargo.lock"));
        let alone = surroundings(&Sdk::given("/nowhere".into()));
        assert_eq!(alone, [], "what is not there is not copied");
    }

    #[test]
    fn a_relative_path_is_named_from_the_crates_own_folder() {
        let sdk = Sdk::given("../setpoint".into());
        assert_eq!(sdk.seen_from(Path::new("a")), Path::new("../../setpoint"));
        assert_eq!(sdk.seen_from(Path::new("a/b")), Path::new("../../../setpoint"));
    }
}
