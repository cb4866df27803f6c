//! What a kind may be called.

use std::collections::BTreeMap;

use setpoint_types::FieldProblem;
use setpoint_types::kinds::KindNames;
use setpoint_types::names::{check_dns_label, check_kind};
use setpoint_types::registry;

use crate::path::Path;

/// Names that other kinds of users answer to: kind, plural, singular and short names. Commands take any of them, in any
/// case. Those of built-in kinds are taken without being listed.
#[derive(Clone, Debug, Default)]
pub struct TakenNames {
    /// In lower case, with the kind that has it.
    by_name: BTreeMap<String, String>,
}

impl TakenNames {
    /// The names of another kind.
    pub fn add(&mut self, names: &KindNames) {
        for (_, name) in given(names, &Path::root()) {
            self.by_name.insert(name.to_ascii_lowercase(), names.kind.clone());
        }
    }
}

/// What is wrong with the names.
pub fn check_names(names: &KindNames, taken: &TakenNames, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let given = given(names, at);
    for (index, (place, name)) in given.iter().enumerate() {
        let is_kind = index == 0;
        let mut problem = |message: &str| problems.push(FieldProblem::new(place, message));
        let checked = if is_kind { check_kind(name) } else { check_dns_label(name) };
        if let Err(message) = checked {
            problem(message);
        } else if is_kind && registry::kind(name).is_some() {
            problem("is a built-in kind");
        } else if registry::look_up(name).is_some() {
            problem("is a name of a built-in kind");
        } else if let Some(owner) = taken.by_name.get(&name.to_ascii_lowercase()) {
            problem(&format!("is taken by the kind {owner}"));
        }
        // A name that is the kind in lower case says nothing new, and is what a singular mostly is.
        if given[..index].iter().skip(1).any(|(_, other)| other == name) {
            problem("is given twice");
        }
    }
    problems
}

/// Each name and its place, the kind first.
fn given<'n>(names: &'n KindNames, at: &Path) -> Vec<(Path, &'n str)> {
    let mut given =
        vec![(at.clone().field("kind"), names.kind.as_str()), (at.clone().field("plural"), &names.plural)];
    if !names.singular.is_empty() {
        given.push((at.clone().field("singular"), &names.singular));
    }
    let short =
        |(index, name): (usize, &'n String)| (at.clone().field("shortNames").index(index), name.as_str());
    given.extend(names.short_names.iter().enumerate().map(short));
    given
}
