//! What is wrong with an object, field by field.
//!
//! Validation collects: whoever submits an object learns of every problem at once. `Problems` knows where in the object a
//! check is, so that a check of a part need not know where the part is used.
//!
//! Not here: the checks themselves (`schema::Check`, and `check` of each kind).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FieldProblem {
    /// `.spec.template.resources.cpu`, `.spec.taints[2].key`
    pub path: String,
    /// What is wrong, so that it can be read after the path: "must be at least 1".
    pub message: String,
}

impl FieldProblem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.message)
    }
}

/// How many problems are collected: each carries its path, so that a small object could have more of them than fit into
/// memory. Nobody reads as many.
pub const PROBLEMS_MAX: usize = 1_000;

/// Collects problems along a walk through an object.
///
/// Where the walk is, is written down only for problems, from the inside out, when it comes back: every write of every object is
/// walked through, and next to none has one.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<FieldProblem>,
}

impl Problems {
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes into a field for as long as `walk` runs.
    pub fn field<T>(&mut self, name: &str, walk: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.found.len();
        let result = walk(self);
        self.place(before, || field_step(name));
        result
    }

    /// Goes into an element of a list for as long as `walk` runs.
    pub fn index<T>(&mut self, index: usize, walk: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.found.len();
        let result = walk(self);
        self.place(before, || format!("[{index}]"));
        result
    }

    /// Says of the problems that were found since then that they are behind a step.
    fn place(&mut self, since: usize, step: impl FnOnce() -> String) {
        let found = &mut self.found[since..];
        if !found.is_empty() {
            let step = step();
            found.iter_mut().for_each(|problem| problem.path.insert_str(0, &step));
        }
    }

    /// Goes into each element of a list field in turn.
    pub fn each<T>(&mut self, name: &str, elements: &[T], mut walk: impl FnMut(&mut Self, &T)) {
        self.field(name, |problems| {
            for (index, element) in elements.iter().enumerate() {
                problems.index(index, |problems| walk(problems, element));
            }
        });
    }

    /// Something is wrong here.
    pub fn report(&mut self, message: impl Into<String>) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(FieldProblem { path: String::new(), message: message.into() });
        }
    }

    /// Something is wrong with a field of what is here.
    pub fn report_at(&mut self, name: &str, message: impl Into<String>) {
        self.field(name, |problems| problems.report(message));
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, each once, in the order they were found.
    pub fn into_found(self) -> Vec<FieldProblem> {
        let mut seen = BTreeSet::new();
        let is_new: Vec<bool> = self.found.iter().map(|problem| seen.insert(problem)).collect();
        let found = self.found.into_iter().zip(is_new);
        found.filter_map(|(problem, is_new)| is_new.then_some(problem)).collect()
    }
}

/// Names that could be mistaken for something else are quoted: `.metadata.labels."example.com/tier"`.
fn field_step(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.chars().all(plain) {
        format!(".{name}")
    } else {
        format!(".{}", serde_json::Value::from(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_reported_where_the_walk_is() {
        let mut problems = Problems::new();
        problems.field("spec", |problems| {
            problems.each("ports", &["ok", "bad"], |problems, port| {
                if *port == "bad" {
                    problems.report_at("name", "must not be bad");
                }
            });
            problems.field("example.com/tier", |problems| problems.report("is odd"));
        });
        problems.report("as a whole");
        let found: Vec<String> = problems.into_found().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [".spec.ports[1].name must not be bad", ".spec.\"example.com/tier\" is odd", " as a whole"]
        );
    }

    #[test]
    fn a_great_many_problems_are_cut() {
        let mut problems = Problems::new();
        // With all of them kept this would take gigabytes.
        problems.field(&"x".repeat(100_000), |problems| {
            for index in 0..100_000 {
                problems.index(index, |problems| problems.report("is wrong"));
            }
        });
        assert_eq!(problems.into_found().len(), PROBLEMS_MAX);
    }

    #[test]
    fn the_same_problem_is_reported_once() {
        let mut problems = Problems::new();
        problems.report_at("a", "is wrong");
        problems.report_at("b", "is wrong");
        problems.report_at("a", "is wrong");
        assert_eq!(problems.into_found().len(), 2);
    }
}
