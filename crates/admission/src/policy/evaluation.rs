//! One policy over one write: its variables, each evaluated when it is first needed, and its conditions.

use serde_json::Value;

use super::compiled::{CompiledValidation, NAMESPACE_OBJECT, OBJECT, OLD_OBJECT, Policy, REQUEST};
use super::review::Review;
use crate::cel::{Bindings, Budget, EvaluateError, Expression};

static NONE: Value = Value::Null;

/// What every policy sees of a write. `request` is the request as JSON.
pub fn bindings<'v>(review: &Review<'v>, object: Option<&'v Value>, request: &'v Value) -> Bindings<'v, 'v> {
    let mut bindings = Bindings::new();
    bindings.bind(OBJECT, object.unwrap_or(&NONE), None);
    bindings.bind(OLD_OBJECT, review.old_object.unwrap_or(&NONE), None);
    bindings.bind(NAMESPACE_OBJECT, review.namespace_object.unwrap_or(&NONE), None);
    bindings.bind(REQUEST, request, None);
    bindings
}

/// A policy at work.
pub struct Evaluation<'e, 'v> {
    policy: &'e Policy,
    bindings: Bindings<'e, 'v>,
    /// By the position of the variable, once it was needed.
    variables: Vec<Option<Result<(), EvaluateError>>>,
    budget: &'e mut Budget,
}

impl<'e, 'v> Evaluation<'e, 'v> {
    pub fn new(policy: &'e Policy, bindings: &'e Bindings<'_, 'v>, budget: &'e mut Budget) -> Self {
        let variables = policy.variables.iter().map(|_| None).collect();
        Self { policy, bindings: bindings.inner(), variables, budget }
    }

    /// Whether the policy's conditions hold. One that is false decides, whatever becomes of the others; the error says
    /// which could not be evaluated.
    pub fn applies(&mut self) -> Result<bool, String> {
        let mut failed = None;
        let policy = self.policy;
        for condition in &policy.conditions {
            match self.is_true(&condition.expression) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    failed = failed
                        .or(Some(format!("the condition {} cannot be evaluated: {error}", condition.name)));
                }
            }
        }
        failed.map_or(Ok(true), Err)
    }

    pub fn is_true(&mut self, expression: &Expression) -> Result<bool, EvaluateError> {
        self.prepare(expression)?;
        expression.is_true(&self.bindings, self.budget)
    }

    pub fn yields(&mut self, expression: &Expression) -> Result<Value, EvaluateError> {
        self.prepare(expression)?;
        expression.evaluate(&self.bindings, self.budget)
    }

    /// What to say when a validation fails.
    pub fn message(&mut self, validation: &CompiledValidation) -> String {
        let made = validation.message_expression.as_ref().map(|expression| {
            self.prepare(expression)?;
            expression.text(&self.bindings, self.budget)
        });
        match made {
            Some(Ok(text)) if !text.trim().is_empty() => text,
            Some(_) | None => validation.message.clone(),
        }
    }

    /// Evaluates the variables that an expression names.
    fn prepare(&mut self, expression: &Expression) -> Result<(), EvaluateError> {
        for index in 0..self.variables.len() {
            if expression.uses(&self.policy.variables[index].name) {
                self.variable(index)?;
            }
        }
        Ok(())
    }

    /// Ends: a variable sees only those before it.
    fn variable(&mut self, index: usize) -> Result<(), EvaluateError> {
        if let Some(known) = &self.variables[index] {
            return known.clone();
        }
        let policy = self.policy;
        let variable = &policy.variables[index];
        let result = self
            .prepare(&variable.expression)
            .and_then(|()| variable.expression.bind(&variable.name, &mut self.bindings, self.budget));
        self.variables[index] = Some(result.clone());
        result
    }
}
