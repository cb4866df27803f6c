//! Rules in CEL, each at the place of the schema it is about.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_types::FieldProblem;
use setpoint_types::kinds::KindRule;

use super::custom::ENVELOPE;
use crate::cel::{Bindings, Budget, CompileError, Expression, Scope, UsedField};
use crate::limits::{PATTERNS_MAX, RULES_MAX};
use crate::path::{Path, Step};
use crate::problem::Finding;
use crate::schema::{ListType, Node, Values, keeps_unknown};

const NEW: &str = "self";
const OLD: &str = "oldSelf";

/// The rules of one place and of the places below. Places without any are left out.
#[derive(Debug, Default)]
pub struct Rules {
    here: Vec<Compiled>,
    fields: BTreeMap<String, Rules>,
    values: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Compiled {
    rule: Expression,
    /// Uses `oldSelf`: asked on updates only.
    transition: bool,
    message: String,
    message_expression: Option<Expression>,
    path: Path,
}

pub struct Compiler {
    problems: Vec<FieldProblem>,
    count: usize,
    patterns: usize,
    /// Fields that the schema does not know are not stored, so a rule cannot mean any.
    closed: bool,
}

impl Compiler {
    /// After so many patterns.
    pub fn new(closed: bool, patterns: usize) -> Self {
        Self { problems: Vec::new(), count: 0, patterns, closed }
    }

    /// Compiles the rules of a schema, and those about the whole object.
    pub fn compile(
        mut self,
        schema: &Node,
        schema_at: &Path,
        whole: &[KindRule],
        whole_at: &Path,
    ) -> Result<Rules, Vec<FieldProblem>> {
        let mut rules = self.place(schema, schema_at.clone(), true);
        let whole = self.rules(whole, whole_at, schema, true);
        rules.here.extend(whole);
        if self.problems.is_empty() { Ok(rules) } else { Err(self.problems) }
    }

    /// `traced`: what was here before the update is known.
    fn place(&mut self, node: &Node, at: Path, traced: bool) -> Rules {
        let mut rules = Rules {
            here: self.rules(&node.rules, &at.clone().field("x-setpoint-rules"), node, traced),
            ..Rules::default()
        };
        for (name, field) in &node.fields {
            let below = self.place(field, at.clone().field("properties").field(name), traced);
            if !below.is_empty() {
                rules.fields.insert(name.clone(), below);
            }
        }
        if let Values::Of(node) = &node.values {
            let below = self.place(node, at.clone().field("additionalProperties"), traced);
            rules.values = Some(Box::new(below)).filter(|below| !below.is_empty());
        }
        if let Some(item) = node.item() {
            let traced = traced && matches!(node.list_type, ListType::Map(_));
            let below = self.place(item, at.field("items"), traced);
            rules.items = Some(Box::new(below)).filter(|below| !below.is_empty());
        }
        rules
    }

    fn rules(&mut self, rules: &[KindRule], at: &Path, node: &Node, traced: bool) -> Vec<Compiled> {
        let compile = |(index, rule)| self.rule(rule, at.clone().index(index), node, traced);
        rules.iter().enumerate().filter_map(compile).collect()
    }

    fn rule(&mut self, rule: &KindRule, at: Path, node: &Node, traced: bool) -> Option<Compiled> {
        self.count += 1;
        if self.count == RULES_MAX + 1 {
            self.problems.push(FieldProblem::new(&at, format!("there are more than {RULES_MAX} rules")));
        }
        if self.count > RULES_MAX {
            return None;
        }
        let scope = Scope::of(&[NEW, OLD]);
        let path = self.path(rule, &at, node);
        let rule_at = at.clone().field("rule");
        let expression = self.compiled(Expression::compile_condition(&rule.rule, &scope), node, rule_at);
        let transition = expression.as_ref().is_some_and(|expression| expression.uses(OLD));
        let scope = if transition { scope } else { Scope::of(&[NEW]) };
        let place = at.clone().field("messageExpression");
        let written = rule.message_expression.as_ref();
        let message_expression =
            written.and_then(|text| self.compiled(Expression::compile(text, &scope), node, place));
        if transition && !traced {
            let message = "uses oldSelf, but the elements of this list cannot be told apart: \
                           make it a list with \"x-setpoint-list-type\": \"map\"";
            self.problems.push(FieldProblem::new(at.field("rule"), message));
        }
        let message = match rule.message.trim() {
            "" => format!("must satisfy {}", rule.rule.trim()),
            message => message.to_owned(),
        };
        Some(Compiled { rule: expression?, transition, message, message_expression, path })
    }

    fn path(&mut self, rule: &KindRule, at: &Path, node: &Node) -> Path {
        let Some(written) = &rule.path else { return Path::root() };
        let place = at.clone().field("path");
        let Some(path) = Path::parse(written) else {
            self.problems.push(FieldProblem::new(place, "must be a path from here, such as .ports"));
            return Path::root();
        };
        let mut below = node;
        for step in path.steps() {
            let next = match step {
                Step::Field(name) => below.field(name),
                Step::Index(_) => below.item(),
            };
            let Some(next) = next else {
                self.problems.push(FieldProblem::new(place, "leads nowhere in the schema"));
                break;
            };
            below = next;
        }
        path
    }

    fn compiled(
        &mut self,
        compiled: Result<Expression, Vec<CompileError>>,
        node: &Node,
        at: Path,
    ) -> Option<Expression> {
        let problems = match compiled {
            Ok(expression) => {
                self.patterns += expression.patterns();
                if self.patterns > PATTERNS_MAX {
                    // One is enough to say so, and no further one is compiled.
                    self.count = RULES_MAX + 1;
                    let message =
                        format!("there are more than {PATTERNS_MAX} patterns with those of the schema");
                    self.problems.push(FieldProblem::new(at, message));
                    return None;
                }
                let unknown = self.unknown_fields(&expression, node);
                if unknown.is_empty() {
                    return Some(expression);
                }
                unknown
            }
            Err(problems) => problems,
        };
        self.problems.extend(problems.iter().map(|problem| FieldProblem::new(&at, problem.to_string())));
        None
    }

    /// Fields that an expression names and no object can have.
    fn unknown_fields(&self, expression: &Expression, node: &Node) -> Vec<CompileError> {
        let used =
            expression.fields().iter().filter(|used| self.closed && [NEW, OLD].contains(&used.root.as_str()));
        let missing = |used: &UsedField| {
            let name = missing_field(&used.fields, node)?;
            let message = format!("there is no field `{name}` in the schema");
            Some(CompileError { position: used.position, message })
        };
        used.filter_map(missing).collect()
    }
}

/// The first of the fields, one in the other, that is not in the schema. What is unknown may be anything, and what all
/// objects have beside it is not described.
fn missing_field<'f>(fields: &'f [String], node: &Node) -> Option<&'f str> {
    let mut place = node;
    for (depth, name) in fields.iter().enumerate() {
        match place.field(name) {
            Some(next) => place = next,
            None if keeps_unknown(place) => return None,
            None if depth == 0 && ENVELOPE.contains(&name.as_str()) => return None,
            None => return Some(name),
        }
    }
    None
}

impl Rules {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.fields.is_empty() && self.values.is_none() && self.items.is_none()
    }

    fn field(&self, name: &str) -> Option<&Rules> {
        self.fields.get(name).or(self.values.as_deref())
    }
}

/// One object, and what is known about it.
pub struct Check<'c> {
    pub budget: &'c mut Budget,
    /// What the schema found. Rules are not asked about values of the wrong shape.
    pub unmet: &'c [Finding],
    pub found: Vec<Finding>,
    pub at: Path,
}

impl Check<'_> {
    /// Asks every rule at `rules` and below.
    pub fn place(&mut self, rules: &Rules, node: &Node, old: Option<&Value>, new: &Value) {
        // What was let in under older rules stays until somebody changes it, and what does not change is no transition.
        if old == Some(new) {
            return;
        }
        if !rules.here.is_empty() && !self.unmet.iter().any(|finding| finding.path.is_within(&self.at)) {
            self.here(rules, node, old, new);
        }
        match new {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    self.below(Step::Field(name.clone()), rules.field(name), node.field(name), old, value);
                }
            }
            Value::Array(items) if rules.items.is_some() => {
                let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let before = node.counterparts(before);
                for (index, value) in items.iter().enumerate() {
                    let old = before.of(value);
                    self.below(Step::Index(index), rules.items.as_deref(), node.item(), old, value);
                }
            }
            _ => {}
        }
    }

    fn below(
        &mut self,
        step: Step,
        rules: Option<&Rules>,
        node: Option<&Node>,
        old: Option<&Value>,
        new: &Value,
    ) {
        let (Some(rules), Some(node)) = (rules, node) else { return };
        self.at.push(step);
        self.place(rules, node, old, new);
        self.at.pop();
    }

    fn here(&mut self, rules: &Rules, node: &Node, old: Option<&Value>, new: &Value) {
        let mut asked = rules.here.iter().filter(|rule| !rule.transition || old.is_some()).peekable();
        if asked.peek().is_none() {
            return;
        }
        let mut bindings = Bindings::new();
        bindings.bind(NEW, new, Some(node));
        if let Some(old) = old {
            bindings.bind(OLD, old, Some(node));
        }
        for rule in asked {
            let message = match rule.rule.is_true(&bindings, self.budget) {
                Ok(true) => continue,
                Ok(false) => self.message(rule, &bindings),
                Err(error) => format!("the rule {:?} cannot be evaluated: {error}", rule.rule.source()),
            };
            self.found.push(Finding { path: self.at.clone().join(&rule.path), message });
        }
    }

    fn message(&mut self, rule: &Compiled, bindings: &Bindings<'_, '_>) -> String {
        let made = rule.message_expression.as_ref().map(|expression| expression.text(bindings, self.budget));
        match made {
            Some(Ok(text)) if !text.trim().is_empty() => text,
            Some(_) | None => rule.message.clone(),
        }
    }
}
