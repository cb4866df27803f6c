//! The names of a new controller, in every way they are written.

use setpoint_types::names::check_dns_label;

/// What a controller and its kind are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `web-site`: the crate, the controller, its lease.
    pub name: String,
    /// `web_site`
    pub identifier: String,
    /// `WebSite`
    pub kind: String,
    /// `websites`
    pub plural: String,
    /// `website`
    pub singular: String,
}

/// Words that a crate cannot be called: it would not build, or hide what everybody expects under that name.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

impl Names {
    /// What is wrong with the name, or all of them.
    pub fn of(name: &str) -> Result<Self, String> {
        check_dns_label(name).map_err(str::to_owned)?;
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Err("must begin with a letter, to name a crate".to_owned());
        }
        if RESERVED.contains(&name) || name.starts_with("setpoint-") {
            return Err("is taken: a crate of that name cannot be built with the SDK".to_owned());
        }
        let kind: String = name.split('-').map(capitalised).collect();
        let singular = kind.to_lowercase();
        if let Some(taken) = [&*kind, &singular, &plural(&singular)].into_iter().find(|it| is_taken(it)) {
            return Err(format!("would be the kind {kind}, and {taken} is built in"));
        }
        let identifier = name.replace('-', "_");
        Ok(Self { name: name.to_owned(), identifier, plural: plural(&singular), kind, singular })
    }
}

fn is_taken(word: &str) -> bool {
    setpoint_types::registry::look_up(word).is_some()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// As English has it, in most cases. It can be changed in the crate.
fn plural(word: &str) -> String {
    let consonant_y = word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        Some(stem) => format!("{stem}ies"),
        None if word.ends_with(['s', 'x', 'z']) || word.ends_with("ch") || word.ends_with("sh") => {
            format!("{word}es")
        }
        None => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_all_the_others() {
        let names = Names::of("web-site").unwrap();
        let all = [names.name, names.identifier, names.kind, names.singular, names.plural];
        assert_eq!(all, ["web-site", "web_site", "WebSite", "website", "websites"]);
        assert_eq!(Names::of("policy").unwrap().plural, "policies");
        assert_eq!(Names::of("gateway").unwrap().plural, "gateways");
        assert_eq!(Names::of("mailbox").unwrap().plural, "mailboxes");
    }

    #[test]
    fn names_that_cannot_be_are_refused_with_the_reason() {
        let refused = |name: &str| Names::of(name).unwrap_err();
        assert!(refused("Web").contains("lower"), "{}", refused("Web"));
        assert!(refused("4ever").contains("letter"));
        assert!(refused("match").contains("taken"));
        assert!(refused("setpoint-x").contains("taken"));
        assert!(refused("node").contains("built in"));
        assert!(refused("work-load").contains("built in"));
    }
}
