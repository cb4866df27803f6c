//! JSONPath as kubectl has it: `{.items[*].metadata.name}`, `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! - [`parse`]: from the text to steps, with the place of what cannot be read
//! - [`walk`]: from steps and a value to what they find

mod parse;
mod walk;

use std::fmt::Write as _;

use serde_json::Value;

use super::column::plain;

pub use parse::ParseError;

/// Text with expressions in braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Path(Path),
    /// The parts once for each value that the path finds.
    Range(Path, Vec<Part>),
}

/// The way to values.
#[derive(Clone, Debug, PartialEq)]
struct Path {
    /// `$`: from the whole document, also inside a range.
    from_root: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// From the end if it is negative.
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Every,
    /// `..name`: at any depth; without a name, everything.
    Deep(Option<String>),
    /// `['a','b']`
    Several(Vec<String>),
    Filter(Box<Filter>),
}

/// `[?(@.type=="Ready")]`
#[derive(Clone, Debug, PartialEq)]
enum Filter {
    Exists(Path),
    Compare(Operand, Relation, Operand),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Path),
    Value(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Template {
    /// Without any brace the whole text is one expression.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.contains('{') { parse::template(text) } else { parse::template(&format!("{{{text}}}")) }
    }

    /// What it makes of a document. What it names and is not there is left out.
    pub fn render(&self, document: &Value) -> String {
        let mut out = String::new();
        render(&self.0, document, document, &mut out);
        out
    }

    /// What all its expressions find.
    pub fn find<'v>(&self, document: &'v Value) -> Vec<&'v Value> {
        let paths = self.0.iter().filter_map(|part| match part {
            Part::Path(path) | Part::Range(path, _) => Some(path),
            Part::Text(_) => None,
        });
        paths.flat_map(|path| walk::find(path, document, document)).collect()
    }
}

fn render(parts: &[Part], root: &Value, here: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => {
                let found: Vec<String> = walk::find(path, root, here).into_iter().map(plain).collect();
                // Writing into a String cannot fail.
                let _ = write!(out, "{}", found.join(" "));
            }
            Part::Range(path, parts) => {
                for value in walk::find(path, root, here) {
                    render(parts, root, value, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({"kind": "List", "items": [
            {"metadata": {"name": "a", "labels": {"example.com/tier": "front"}}, "n": 1,
             "conditions": [{"type": "Ready", "status": "True"}]},
            {"metadata": {"name": "b"}, "n": 22, "conditions": [{"type": "Ready", "status": "False"}]},
            {"metadata": {"name": "c"}, "n": 3.5},
        ]})
    }

    fn shown(template: &str) -> String {
        Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}")).render(&document())
    }

    #[test]
    fn expressions_find_what_users_of_kubectl_expect() {
        for (template, expected) in [
            ("{.kind}", "List"),
            (".kind", "List"),
            ("$.kind", "List"),
            ("{.items[*].metadata.name}", "a b c"),
            ("{.items[0].metadata.name}{\"\\n\"}", "a\n"),
            ("{.items[-1:].metadata.name}", "c"),
            ("{.items[-1].metadata.name}", "c"),
            ("{.items[0:2].metadata.name}", "a b"),
            ("{..name}", "a b c"),
            ("{.items[0]['metadata'].name}", "a"),
            ("{.items[0]['kind','n']}", "1"),
            ("{.items[0].metadata.labels.example\\.com/tier}", "front"),
            ("{.items[?(@.metadata.name==\"b\")].n}", "22"),
            ("{.items[?(@.n>2)].n}", "22 3.5"),
            ("{.items[?(@.n<=1)].n}", "1"),
            ("{.items[?(@.conditions)].metadata.name}", "a b"),
            ("{.items[*].conditions[?(@.type=='Ready')].status}", "True False"),
            ("{.items[?(@.n!=22)].n}", "1 3.5"),
            ("{.items[0].metadata}", "{\"labels\":{\"example.com/tier\":\"front\"},\"name\":\"a\"}"),
            ("{.nothing.at.all}", ""),
            ("{range .items[*]}{.metadata.name}={.n};{end}", "a=1;b=22;c=3.5;"),
            (
                "{range .items[*]}{range .conditions[*]}{.type}{end}{\"\\t\"}{$.kind}{\" \"}{end}",
                "Ready\tList Ready\tList \tList ",
            ),
            ("names: {.items[*].metadata.name}!", "names: a b c!"),
            ("{.items[0].metadata.*}", "{\"example.com/tier\":\"front\"} a"),
        ] {
            assert_eq!(shown(template), expected, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        for (template, says) in [
            ("{.a", "ends before its }"),
            ("{.items[}", "column 9"),
            ("{range .items[*]}{.a}", "{end}"),
            ("{end}", "{end}"),
            ("{.items[?(@.a=!1)]}", "column"),
            ("{.a b}", "column"),
        ] {
            let error = Template::parse(template).expect_err(template).to_string();
            assert!(error.contains(says), "{template}: {error}");
        }
        let deep = "{range .a}".repeat(100);
        assert!(Template::parse(&deep).is_err());
    }
}
