//! What a kind may be called.

use std::collections::BTreeMap;

use super::definition::KindNames;
use crate::path::Path;
use crate::problem::FieldProblem;

/// Longest name of a kind, as of a label.
const NAME_CHARS_MAX: usize = 63;

/// Names that other kinds answer to: their kind, plural, singular and short names. Commands take any of them, in any case.
#[derive(Clone, Debug, Default)]
pub struct TakenNames {
    /// In lower case, with the kind that has it.
    by_name: BTreeMap<String, String>,
}

impl TakenNames {
    /// Every name of a kind that exists.
    pub fn add<'n>(&mut self, kind: &str, names: impl IntoIterator<Item = &'n str>) {
        self.by_name.insert(kind.to_ascii_lowercase(), kind.to_owned());
        for name in names {
            self.by_name.insert(name.to_ascii_lowercase(), kind.to_owned());
        }
    }

    fn owner(&self, name: &str) -> Option<&str> {
        self.by_name.get(&name.to_ascii_lowercase()).map(String::as_str)
    }
}

/// What is wrong with the names.
pub fn check_names(names: &KindNames, taken: &TakenNames, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let kind_place = at.clone().field("kind");
    if !is_kind(&names.kind) {
        let message = "must begin with an upper-case letter and consist of at most 63 letters and digits";
        problems.push(FieldProblem::new(&kind_place, message));
    }
    let mut given = vec![(kind_place, names.kind.as_str())];
    given.push((at.clone().field("plural"), &names.plural));
    if !names.singular.is_empty() {
        given.push((at.clone().field("singular"), &names.singular));
    }
    for (index, name) in names.short_names.iter().enumerate() {
        given.push((at.clone().field("shortNames").index(index), name));
    }
    for (place, name) in &given[1..] {
        if !is_word(name) {
            let message = "must consist of at most 63 lower-case letters, digits and '-', and begin with a letter";
            problems.push(FieldProblem::new(place, message));
        }
    }
    for (index, (place, name)) in given.iter().enumerate() {
        if let Some(owner) = taken.owner(name) {
            problems.push(FieldProblem::new(place, format!("is taken by the kind {owner}")));
        }
        // The singular is the kind in lower case more often than not.
        let before = given[..index].iter().filter(|(other, _)| *place != at.clone().field("singular") || other != &given[0].0);
        if before.map(|(_, other)| other).any(|other| other.eq_ignore_ascii_case(name)) {
            problems.push(FieldProblem::new(place, "is given twice"));
        }
    }
    problems
}

fn is_kind(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_word(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}
