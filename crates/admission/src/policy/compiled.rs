//! One policy, compiled: every expression of it was found good.

use super::definition::{Action, AdmissionPolicySpec, FailurePolicy, Reason, Validation};
use super::matching::Matcher;
use crate::cel::{Expression, Scope};
use crate::limits::POLICY_EXPRESSIONS_MAX;
use crate::path::Path;
use crate::problem::FieldProblem;

pub(super) const OBJECT: &str = "object";
pub(super) const OLD_OBJECT: &str = "oldObject";
pub(super) const REQUEST: &str = "request";
pub(super) const NAMESPACE_OBJECT: &str = "namespaceObject";

/// A policy. Immutable: a changed one is compiled anew.
#[derive(Debug)]
pub struct Policy {
    pub(super) name: String,
    pub(super) matcher: Matcher,
    pub(super) conditions: Vec<Condition>,
    pub(super) variables: Vec<CompiledVariable>,
    pub(super) validations: Vec<CompiledValidation>,
    pub(super) mutations: Vec<Expression>,
    pub(super) action: Action,
    pub(super) failure_policy: FailurePolicy,
}

#[derive(Debug)]
pub(super) struct Condition {
    pub name: String,
    pub expression: Expression,
}

#[derive(Debug)]
pub(super) struct CompiledVariable {
    /// As expressions write it: `variables.team`.
    pub name: String,
    pub expression: Expression,
}

#[derive(Debug)]
pub(super) struct CompiledValidation {
    pub expression: Expression,
    pub message: String,
    pub message_expression: Option<Expression>,
    pub reason: Reason,
    pub field: Option<String>,
}

impl Policy {
    /// Compiles the policy `name`, or says everything that is wrong with it. Paths begin at its `.spec`.
    pub fn compile(name: &str, spec: &AdmissionPolicySpec) -> Result<Self, Vec<FieldProblem>> {
        let scope = Scope::of(&[OBJECT, OLD_OBJECT, REQUEST, NAMESPACE_OBJECT]);
        let mut compiler = Compiler { scope, problems: Vec::new(), at: Path::root().field("spec") };
        compiler.check_counts(spec);
        let matcher = Matcher::new(&spec.matches, &compiler.at.clone().field("match"));
        let matcher = matcher.map_err(|found| compiler.problems.extend(found)).ok();
        let conditions = compiler.conditions(spec);
        let variables = compiler.variables(spec);
        let validations = compiler.validations(spec);
        let mutations = compiler.mutations(spec);
        match matcher {
            Some(matcher) if compiler.problems.is_empty() => Ok(Self {
                name: name.to_owned(),
                matcher,
                conditions,
                variables,
                validations,
                mutations,
                action: spec.action,
                failure_policy: spec.failure_policy,
            }),
            _ => Err(compiler.problems),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

struct Compiler {
    /// Grows with the variables.
    scope: Scope,
    problems: Vec<FieldProblem>,
    at: Path,
}

impl Compiler {
    fn check_counts(&mut self, spec: &AdmissionPolicySpec) {
        let expressions =
            spec.match_conditions.len() + spec.variables.len() + spec.validations.len() + spec.mutations.len();
        if expressions > POLICY_EXPRESSIONS_MAX {
            let message = format!("has {expressions} expressions, the most is {POLICY_EXPRESSIONS_MAX}");
            self.problems.push(FieldProblem::new(&self.at, message));
        }
        if spec.validations.is_empty() && spec.mutations.is_empty() {
            self.problems.push(FieldProblem::new(&self.at, "needs validations or mutations"));
        }
    }

    fn conditions(&mut self, spec: &AdmissionPolicySpec) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (index, condition) in spec.match_conditions.iter().enumerate() {
            let at = self.at.clone().field("matchConditions").index(index);
            let expression = self.expression(&condition.expression, at.field("expression"));
            conditions.extend(expression.map(|expression| Condition { name: condition.name.clone(), expression }));
        }
        conditions
    }

    fn variables(&mut self, spec: &AdmissionPolicySpec) -> Vec<CompiledVariable> {
        let mut variables: Vec<CompiledVariable> = Vec::new();
        for (index, variable) in spec.variables.iter().enumerate() {
            let at = self.at.clone().field("variables").index(index);
            let begins_well = variable.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !begins_well || !variable.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                let message = "must consist of letters, digits and '_', and not begin with a digit";
                self.problems.push(FieldProblem::new(at.clone().field("name"), message));
            }
            if spec.variables[..index].iter().any(|other| other.name == variable.name) {
                self.problems.push(FieldProblem::new(at.clone().field("name"), "is given twice"));
            }
            let name = format!("variables.{}", variable.name);
            let expression = self.expression(&variable.expression, at.field("expression"));
            self.scope.add(&name);
            variables.extend(expression.map(|expression| CompiledVariable { name, expression }));
        }
        variables
    }

    fn validations(&mut self, spec: &AdmissionPolicySpec) -> Vec<CompiledValidation> {
        let mut validations = Vec::new();
        for (index, validation) in spec.validations.iter().enumerate() {
            let at = self.at.clone().field("validations").index(index);
            validations.extend(self.validation(validation, at));
        }
        validations
    }

    fn validation(&mut self, validation: &Validation, at: Path) -> Option<CompiledValidation> {
        let expression = self.expression(&validation.expression, at.clone().field("expression"));
        let message_at = at.clone().field("messageExpression");
        let written = validation.message_expression.as_ref();
        let message_expression = written.and_then(|text| self.expression(text, message_at));
        if validation.field.as_ref().is_some_and(|field| Path::parse(field).is_none()) {
            let message = "must be the path of a field, such as .spec.replicas";
            self.problems.push(FieldProblem::new(at.field("field"), message));
        }
        let message = match validation.message.trim() {
            "" => format!("must satisfy {}", validation.expression.trim()),
            message => message.to_owned(),
        };
        Some(CompiledValidation {
            expression: expression?,
            message,
            message_expression,
            reason: validation.reason,
            field: validation.field.clone(),
        })
    }

    fn mutations(&mut self, spec: &AdmissionPolicySpec) -> Vec<Expression> {
        let mut mutations = Vec::new();
        for (index, mutation) in spec.mutations.iter().enumerate() {
            let at = self.at.clone().field("mutations").index(index).field("expression");
            mutations.extend(self.expression(&mutation.expression, at));
        }
        mutations
    }

    fn expression(&mut self, text: &str, at: Path) -> Option<Expression> {
        let problems = match Expression::compile(text, &self.scope) {
            Ok(expression) => return Some(expression),
            Err(problems) => problems,
        };
        self.problems.extend(problems.iter().map(|problem| FieldProblem::new(&at, problem.to_string())));
        None
    }
}
