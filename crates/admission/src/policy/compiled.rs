//! One policy, compiled: every expression of it was found good.
use setpoint_types::FieldProblem;
use setpoint_types::kinds::{
    AdmissionAction, AdmissionMatch, AdmissionPolicySpec, FailurePolicy, MutationType, NamedExpression,
    Validation,
};
use setpoint_types::names::check_env_name;

use super::matching::check_match;
use crate::cel::{CompileError, Expression, Scope};
use crate::limits::{PATTERNS_MAX, POLICY_EXPRESSIONS_MAX};
use crate::path::Path;

pub(super) const OBJECT: &str = "object";
pub(super) const OLD_OBJECT: &str = "oldObject";
pub(super) const REQUEST: &str = "request";
pub(super) const NAMESPACE_OBJECT: &str = "namespaceObject";

/// A policy. Immutable: a changed one is compiled anew.
#[derive(Debug)]
pub struct Policy {
    pub(super) name: String,
    pub(super) matches: AdmissionMatch,
    pub(super) conditions: Vec<Named>,
    /// Each by the name expressions use: `variables.team`.
    pub(super) variables: Vec<Named>,
    pub(super) validations: Vec<CompiledValidation>,
    pub(super) mutations: Vec<CompiledMutation>,
    pub(super) actions: Vec<AdmissionAction>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) order: i32,
}

#[derive(Debug)]
pub(super) struct Named {
    pub name: String,
    pub expression: Expression,
}

#[derive(Debug)]
pub(super) struct CompiledMutation {
    pub kind: MutationType,
    pub expression: Expression,
}

#[derive(Debug)]
pub(super) struct CompiledValidation {
    pub expression: Expression,
    pub message: String,
    pub message_expression: Option<Expression>,
    pub path: Option<String>,
}

impl Policy {
    /// Compiles the policy `name`, or says everything that is wrong with it. Paths begin at its `.spec`.
    pub fn compile(name: &str, spec: &AdmissionPolicySpec) -> Result<Self, Vec<FieldProblem>> {
        let scope = Scope::of(&[OBJECT, OLD_OBJECT, REQUEST, NAMESPACE_OBJECT]);
        let mut compiler =
            Compiler { scope, problems: Vec::new(), patterns: 0, at: Path::root().field("spec") };
        compiler.check_counts(spec);
        compiler.problems.extend(check_match(&spec.matches, &compiler.at.clone().field("match")));
        let conditions = compiler.conditions(spec);
        let variables = compiler.variables(spec);
        let validations = compiler.validations(spec);
        let mutations = compiler.mutations(spec);
        if !compiler.problems.is_empty() {
            return Err(compiler.problems);
        }
        Ok(Self {
            name: name.to_owned(),
            matches: spec.matches.clone(),
            conditions,
            variables,
            validations,
            mutations,
            actions: spec.actions.clone(),
            failure_policy: spec.failure_policy,
            order: spec.order,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

struct Compiler {
    /// Grows with the variables.
    scope: Scope,
    problems: Vec<FieldProblem>,
    patterns: usize,
    at: Path,
}

impl Compiler {
    fn check_counts(&mut self, spec: &AdmissionPolicySpec) {
        let expressions = spec.match_conditions.len()
            + spec.variables.len()
            + spec.validations.len()
            + spec.mutations.len();
        if expressions > POLICY_EXPRESSIONS_MAX {
            let message = format!("has {expressions} expressions, the most is {POLICY_EXPRESSIONS_MAX}");
            self.problems.push(FieldProblem::new(&self.at, message));
        }
        if spec.validations.is_empty() && spec.mutations.is_empty() {
            self.problems.push(FieldProblem::new(&self.at, "needs validations or mutations"));
        }
    }

    fn conditions(&mut self, spec: &AdmissionPolicySpec) -> Vec<Named> {
        let mut conditions = Vec::new();
        for (index, condition) in spec.match_conditions.iter().enumerate() {
            let at = self.at.clone().field("matchConditions").index(index);
            let expression = self.condition(&condition.expression, at.field("expression"));
            conditions
                .extend(expression.map(|expression| Named { name: condition.name.clone(), expression }));
        }
        conditions
    }

    /// Each is in scope for those behind it.
    fn variables(&mut self, spec: &AdmissionPolicySpec) -> Vec<Named> {
        let mut variables = Vec::new();
        for (index, NamedExpression { name, expression }) in spec.variables.iter().enumerate() {
            let at = self.at.clone().field("variables").index(index);
            if let Err(message) = check_env_name(name) {
                self.problems.push(FieldProblem::new(at.clone().field("name"), message));
            }
            if spec.variables[..index].iter().any(|other| other.name == *name) {
                self.problems.push(FieldProblem::new(at.clone().field("name"), "is given twice"));
            }
            let expression = self.expression(expression, at.field("expression"));
            let name = format!("variables.{name}");
            self.scope.add(&name);
            variables.extend(expression.map(|expression| Named { name, expression }));
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
        let expression = self.condition(&validation.expression, at.clone().field("expression"));
        let message_at = at.clone().field("messageExpression");
        let written = validation.message_expression.as_ref();
        let message_expression = written.and_then(|text| self.expression(text, message_at));
        if validation.path.as_ref().is_some_and(|path| Path::parse(path).is_none()) {
            let message = "must be the path of a field, such as .spec.replicas";
            self.problems.push(FieldProblem::new(at.field("path"), message));
        }
        let message = match validation.message.trim() {
            "" => format!("must satisfy {}", validation.expression.trim()),
            message => message.to_owned(),
        };
        Some(CompiledValidation {
            expression: expression?,
            message,
            message_expression,
            path: validation.path.clone(),
        })
    }

    fn mutations(&mut self, spec: &AdmissionPolicySpec) -> Vec<CompiledMutation> {
        let mut mutations = Vec::new();
        for (index, mutation) in spec.mutations.iter().enumerate() {
            let at = self.at.clone().field("mutations").index(index).field("expression");
            let expression = self.expression(&mutation.expression, at);
            mutations
                .extend(expression.map(|expression| CompiledMutation { kind: mutation.kind, expression }));
        }
        mutations
    }

    fn condition(&mut self, text: &str, at: Path) -> Option<Expression> {
        self.compiled(text, Expression::compile_condition, at)
    }

    fn expression(&mut self, text: &str, at: Path) -> Option<Expression> {
        self.compiled(text, Expression::compile, at)
    }

    fn compiled(
        &mut self,
        text: &str,
        compile: fn(&str, &Scope) -> Result<Expression, Vec<CompileError>>,
        at: Path,
    ) -> Option<Expression> {
        if self.patterns > PATTERNS_MAX {
            return None;
        }
        let problems = match compile(text, &self.scope) {
            Ok(expression) => {
                self.patterns += expression.patterns();
                if self.patterns > PATTERNS_MAX {
                    let message = format!("the policy has more than {PATTERNS_MAX} patterns");
                    self.problems.push(FieldProblem::new(&at, message));
                }
                return Some(expression);
            }
            Err(problems) => problems,
        };
        self.problems.extend(problems.iter().map(|problem| FieldProblem::new(&at, problem.to_string())));
        None
    }
}
