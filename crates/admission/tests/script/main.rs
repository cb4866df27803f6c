//! Golden scripts, one property each, in `tests/scripts`.
//!
//! A line is a command and YAML in one line, behind `>`; a backslash at its end goes on in the next. After a change of
//! behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the difference.
//!
//! | command | does |
//! |---|---|
//! | `eval EXPRESSION <- {name: value}` | evaluates it with these variables |
//! | `kind DEFINITION` | compiles it; `change DEFINITION` compares it with the last one |
//! | `spec SCHEMA` | compiles the kind Backup with this schema of its spec |
//! | `create OBJECT` | asks the kind |
//! | `update OLD => NEW` | asks the kind |
//! | `policy NAME SPEC` | compiles and keeps it |
//! | `mutate`, `judge REVIEW` | asks all policies |

mod parse;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use goldenscript::{Context, Runner};
use serde_json::{Value, json};
use setpoint_admission::cel::{Bindings, Expression, Scope};
use setpoint_admission::kind::{TakenNames, check_change};
use setpoint_admission::path::Path;
use setpoint_admission::policy::{Mutated, Verdict};
use setpoint_admission::{Budget, CustomKind, Policy, PolicySet};
use setpoint_types::kinds::{KindDefinitionSpec, KindNames};

use parse::{WrittenReview, words, yaml};

#[derive(Default)]
struct Script {
    kind: Option<CustomKind>,
    policies: BTreeMap<String, Arc<Policy>>,
}

impl Runner for Script {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &Context) -> Result<String, Box<dyn Error>> {
        assert!(command.args.is_empty(), "write commands behind >");
        let (name, rest) = words(&command.name);
        match name {
            "eval" => eval(rest),
            "kind" => self.define(yaml(rest)?),
            "spec" => self.define(parse::backup(yaml(rest)?)),
            "change" => self.change(rest),
            "policy" => self.policy(rest),
            "mutate" => Ok(mutated(self.review(rest)?.mutate(&self.set()))),
            "judge" => Ok(verdict(self.review(rest)?.judge(&self.set()))),
            _ => self.ask(name, rest),
        }
    }
}

impl Script {
    fn define(&mut self, definition: Value) -> Result<String, Box<dyn Error>> {
        let definition: KindDefinitionSpec = serde_json::from_value(definition)?;
        let mut taken = TakenNames::default();
        let names = json!({"kind": "Restore", "plural": "restores", "shortNames": ["rs1"]});
        taken.add(&serde_json::from_value::<KindNames>(names)?);
        match CustomKind::compile(&definition, &taken) {
            Ok(kind) => {
                self.kind = Some(kind);
                Ok("ok".to_owned())
            }
            Err(problems) => Ok(lines(&problems)),
        }
    }

    fn change(&mut self, rest: &str) -> Result<String, Box<dyn Error>> {
        let definition: KindDefinitionSpec = serde_json::from_value(yaml(rest)?)?;
        let old = self.kind.as_ref().ok_or("no kind yet")?;
        Ok(lines(&check_change(old.definition(), &definition, &Path::root().field("spec"))))
    }

    fn ask(&mut self, name: &str, rest: &str) -> Result<String, Box<dyn Error>> {
        let kind = self.kind.as_ref().ok_or("no kind yet")?;
        let mut budget = Budget::for_request();
        Ok(match name {
            "schema" => kind.schema().to_string(),
            "create" => lines(&kind.validate(None, &yaml(rest)?, &mut budget)),
            "update" => {
                let (old, new) = rest.split_once("=>").ok_or("an update is OLD => NEW")?;
                lines(&kind.validate(Some(&yaml(old)?), &yaml(new)?, &mut budget))
            }
            other => return Err(format!("unknown command {other}").into()),
        })
    }

    fn policy(&mut self, rest: &str) -> Result<String, Box<dyn Error>> {
        let (name, spec) = words(rest);
        match Policy::compile(name, &serde_json::from_value(yaml(spec)?)?) {
            Ok(policy) => {
                self.policies.insert(name.to_owned(), Arc::new(policy));
                Ok("ok".to_owned())
            }
            Err(problems) => Ok(lines(&problems)),
        }
    }

    fn set(&self) -> PolicySet {
        // The other way round, so that the order is the set's doing.
        PolicySet::new(self.policies.values().rev().cloned())
    }

    fn review(&self, rest: &str) -> Result<WrittenReview, Box<dyn Error>> {
        Ok(serde_json::from_value(yaml(rest)?)?)
    }
}

fn eval(rest: &str) -> Result<String, Box<dyn Error>> {
    let (text, variables) = rest.split_once(" <- ").unwrap_or((rest, "{}"));
    let variables = yaml(variables)?;
    let variables = variables.as_object().ok_or("the variables are a map")?;
    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
    let expression = match Expression::compile(text, &Scope::of(&names)) {
        Ok(expression) => expression,
        Err(problems) => return Ok(lines(&problems)),
    };
    let mut bindings = Bindings::new();
    for (name, value) in variables {
        bindings.bind(name, value, None);
    }
    Ok(match expression.evaluate(&bindings, &mut Budget::for_request()) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    })
}

fn lines<T: Display>(lines: &[T]) -> String {
    match lines {
        [] => "ok".to_owned(),
        lines => lines.iter().map(|line| format!("{line}\n")).collect(),
    }
}

fn mutated(mutated: Mutated) -> String {
    let object = mutated.object.unwrap_or(json!("unchanged"));
    format!("{object}\n{}", verdict(mutated.verdict))
}

fn verdict(verdict: Verdict) -> String {
    let mut text: Vec<String> = Vec::new();
    for denial in verdict.denials {
        let path = denial.path.map(|path| format!(" {path}")).unwrap_or_default();
        text.push(format!("denied by {}:{path} {}", denial.policy, denial.message));
    }
    text.extend(verdict.warnings.iter().map(|note| format!("warning of {}: {}", note.policy, note.message)));
    text.extend(verdict.audit.iter().map(|note| format!("audit of {}: {}", note.policy, note.message)));
    lines(&text)
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::default(), concat!("tests/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    change,
    columns,
    conditions,
    expressions,
    expression_problems,
    names,
    policy_failures,
    policy_judges,
    policy_matches,
    policy_mutates,
    policy_problems,
    policy_variables,
    ratcheting,
    references,
    rule_problems,
    rules,
    schema_problems,
    transition_rules,
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
