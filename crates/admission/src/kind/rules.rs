//! Rules in CEL, each at the place of the schema it is about.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_types::FieldProblem;
use setpoint_types::kinds::KindRule;

use crate::cel::{Bindings, Budget, Expression, Scope};
use crate::limits::RULES_MAX;
use crate::path::{Path, Step};
use crate::problem::Finding;
use crate::schema::{ListType, Node, Values};

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

/// Compiles the rules of a schema, and those about the whole object.
pub fn compile(
    schema: &Node,
    schema_at: &Path,
    whole: &[KindRule],
    whole_at: &Path,
) -> Result<Rules, Vec<FieldProblem>> {
    let mut compiler = Compiler { problems: Vec::new(), count: 0 };
    let mut rules = compiler.place(schema, schema_at.clone(), true);
    let whole = compiler.rules(whole, whole_at, schema, true);
    rules.here.extend(whole);
    if compiler.problems.is_empty() { Ok(rules) } else { Err(compiler.problems) }
}

struct Compiler {
    problems: Vec<FieldProblem>,
    count: usize,
}

impl Compiler {
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
        let expression = self.expression(&rule.rule, &scope, at.clone().field("rule"));
        let transition = expression.as_ref().is_some_and(|expression| expression.uses(OLD));
        let scope = if transition { scope } else { Scope::of(&[NEW]) };
        let place = at.clone().field("messageExpression");
        let written = rule.message_expression.as_ref();
        let message_expression = written.and_then(|text| self.expression(text, &scope, place));
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

    fn expression(&mut self, text: &str, scope: &Scope, at: Path) -> Option<Expression> {
        let problems = match Expression::compile(text, scope) {
            Ok(expression) => return Some(expression),
            Err(problems) => problems,
        };
        self.problems.extend(problems.iter().map(|problem| FieldProblem::new(&at, problem.to_string())));
        None
    }
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
                for (index, value) in items.iter().enumerate() {
                    let old = node.counterpart(value, before);
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
