//! One expression: from its text to its result.

use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::common::ast::SourceInfo;
use cel::{ExecutionError, IdedExpr, ParseErrors, Value as CelValue};
use serde_json::Value;

use super::bindings::Bindings;
use super::budget::Budget;
use super::check::{self, Scope};
use super::{instrument, json, library, meter};
use crate::limits::{EXPRESSION_BYTES_MAX, MESSAGE_BYTES_MAX, PARSER_DEPTH_MAX, PARSER_STACK_BYTES};

/// An expression that was found good and can be evaluated any number of times, on any thread.
#[derive(Debug)]
pub struct Expression {
    source: String,
    paying: IdedExpr,
    uses: Vec<String>,
    fields: Vec<UsedField>,
    patterns: usize,
    never_boolean: bool,
}

/// A field of a variable that an expression names.
#[derive(Debug)]
pub struct UsedField {
    pub position: Option<(usize, usize)>,
    pub root: String,
    /// From the root on.
    pub fields: Vec<String>,
}

/// Why an expression is not taken, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CompileError {
    /// Line and column, from 1; of the expression as a whole if there is none.
    pub position: Option<(usize, usize)>,
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "at {line}:{column}: {}", self.message),
            None => write!(f, "{}", self.message),
        }
    }
}

/// Why an expression has no result for these values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// What the interpreter found, such as a field that is not there.
    #[error("{0}")]
    Failed(String),
    #[error("it costs too much for this object")]
    TooExpensive,
    #[error("it yields {found}, not {wanted}")]
    WrongType { wanted: &'static str, found: &'static str },
}

impl Expression {
    /// Checks and prepares an expression; reports everything that is wrong with it.
    pub fn compile(source: &str, scope: &Scope) -> Result<Self, Vec<CompileError>> {
        let whole = |message: String| vec![CompileError { position: None, message }];
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(whole(format!("is longer than {EXPRESSION_BYTES_MAX} bytes")));
        }
        if source.trim().is_empty() {
            return Err(whole("is empty".to_owned()));
        }
        // The parser recurses with its input and cannot be stopped, so it gets a stack that its longest input cannot fill.
        // A panic in it is a bug of its own, and the expression's author can do no more than write it differently.
        let parsed = std::thread::scope(|threads| {
            let thread =
                std::thread::Builder::new().name("expression".to_owned()).stack_size(PARSER_STACK_BYTES);
            let parsing = thread.spawn_scoped(threads, || parse(source, scope));
            parsing
                .map_err(|error| whole(format!("cannot be parsed now: {error}")))?
                .join()
                .unwrap_or_else(|_| Err(whole("cannot be parsed".to_owned())))
        });
        let Parsed { paying, findings, fields, never_boolean } = parsed?;
        let (source, patterns) = (source.to_owned(), findings.patterns);
        Ok(Self { source, paying, uses: findings.uses, fields, patterns, never_boolean })
    }

    /// The same for a condition: what can yield neither true nor false is refused.
    pub fn compile_condition(source: &str, scope: &Scope) -> Result<Self, Vec<CompileError>> {
        let expression = Self::compile(source, scope)?;
        if expression.never_boolean {
            let message = "yields neither true nor false, and a condition must".to_owned();
            return Err(vec![CompileError { position: None, message }]);
        }
        Ok(expression)
    }

    /// The fields of its variables that it names.
    pub fn fields(&self) -> &[UsedField] {
        &self.fields
    }

    /// How many patterns it has as literals.
    pub fn patterns(&self) -> usize {
        self.patterns
    }

    /// The text it was made from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The variables of its scope that it names.
    pub fn uses(&self, name: &str) -> bool {
        self.uses.iter().any(|used| used == name)
    }

    /// Its result as JSON.
    pub fn evaluate(&self, bindings: &Bindings<'_, '_>, budget: &mut Budget) -> Result<Value, EvaluateError> {
        let value = self.run(bindings, budget)?;
        json::to_json(&value).map_err(|found| EvaluateError::WrongType { wanted: "JSON", found })
    }

    /// Its result, if that is true or false.
    pub fn is_true(&self, bindings: &Bindings<'_, '_>, budget: &mut Budget) -> Result<bool, EvaluateError> {
        match self.run(bindings, budget)? {
            CelValue::Bool(truth) => Ok(truth),
            other => Err(EvaluateError::WrongType { wanted: "true or false", found: name_of(&other) }),
        }
    }

    /// Its result, if that is text; shortened if need be.
    pub fn text(&self, bindings: &Bindings<'_, '_>, budget: &mut Budget) -> Result<String, EvaluateError> {
        match self.run(bindings, budget)? {
            CelValue::String(text) => Ok(shortened(text.as_str())),
            other => Err(EvaluateError::WrongType { wanted: "a string", found: name_of(&other) }),
        }
    }

    /// Binds its result to `name` for others to use, as CEL sees it.
    pub fn bind(
        &self,
        name: &str,
        bindings: &mut Bindings<'_, '_>,
        budget: &mut Budget,
    ) -> Result<(), EvaluateError> {
        let value = self.run(bindings, budget)?;
        let value =
            value.try_into().map_err(|error: ExecutionError| EvaluateError::Failed(explained(&error)))?;
        bindings.bind_cel(name, value);
        Ok(())
    }

    fn run(&self, bindings: &Bindings<'_, '_>, budget: &mut Budget) -> Result<CelValue, EvaluateError> {
        let evaluate = || {
            // The interpreter has panics for what its parser never makes. One that is reached all the same must cost the
            // write, not the server.
            catch_unwind(AssertUnwindSafe(|| CelValue::resolve(&self.paying, bindings.context())))
        };
        let run = meter::metered(budget.allowance(), evaluate);
        budget.spend(run.spent);
        if run.exhausted {
            return Err(EvaluateError::TooExpensive);
        }
        let result = run.result.map_err(|_| EvaluateError::Failed("the interpreter failed".to_owned()))?;
        result.map_err(|error| EvaluateError::Failed(explained(&error)))
    }
}

/// On the large stack: parses, checks, rewrites, and drops what is too deep to be dropped elsewhere.
fn parse(source: &str, scope: &Scope) -> Result<Parsed, Vec<CompileError>> {
    let parser =
        library::environment().parser().max_recursion_depth(PARSER_DEPTH_MAX).error_recovery_limit(4);
    let (expression, places) =
        parser.parse_with_source_info(source).map_err(|errors| syntax_errors(&errors))?;
    let placed = |(id, message): (u64, String)| CompileError { position: position(&places, id), message };
    check::measure(&expression).map_err(|problem| vec![placed(problem)])?;
    let findings = check::look(&expression, scope);
    if !findings.problems.is_empty() {
        return Err(findings.problems.into_iter().map(placed).collect());
    }
    let used = |it: &check::Selected| UsedField {
        position: position(&places, it.node),
        root: it.root.clone(),
        fields: it.fields.clone(),
    };
    let fields = findings.fields.iter().map(used).collect();
    let never_boolean = check::is_never_boolean(&expression);
    Ok(Parsed { paying: instrument::instrument_root(expression), findings, fields, never_boolean })
}

struct Parsed {
    paying: IdedExpr,
    findings: check::Findings,
    fields: Vec<UsedField>,
    never_boolean: bool,
}

fn syntax_errors(errors: &ParseErrors) -> Vec<CompileError> {
    let error = |error: &cel::ParseError| {
        let place = |number: isize| usize::try_from(number).ok().filter(|number| *number > 0);
        // What would have been good here is nearly everything.
        let message = error.msg.split(" expecting {").next().unwrap_or_default();
        CompileError {
            position: place(error.pos.0).zip(place(error.pos.1)),
            message: shortened(message.trim()),
        }
    };
    errors.errors.iter().take(8).map(error).collect()
}

fn position(places: &SourceInfo, id: u64) -> Option<(usize, usize)> {
    let (start, _) = places.offset_for(id)?;
    let before: String = places.source.chars().take(start as usize).collect();
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Some((before.matches('\n').count() + 1, column))
}

fn name_of(value: &CelValue) -> &'static str {
    match value {
        CelValue::Null => "null",
        CelValue::Bool(_) => "true or false",
        CelValue::Int(_) | CelValue::UInt(_) | CelValue::Float(_) => "a number",
        CelValue::String(_) => "a string",
        CelValue::List(_) => "a list",
        CelValue::Map(_) => "a map",
        _ => "something else",
    }
}

/// In words of ours where users meet it often. The interpreter's own may quote a whole object.
fn explained(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => {
            shortened(format!("there is no field `{key}`; ask with has() first"))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "the result is too large for a number".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "there is no element at this position".to_owned(),
        other => shortened(other),
    }
}

/// At most so much of it as an answer should carry.
fn shortened(text: impl fmt::Display) -> String {
    let mut limited = Limited(String::new());
    match write!(limited, "{text}") {
        Ok(()) => limited.0,
        Err(fmt::Error) => limited.0 + "…",
    }
}

/// Stops whoever writes into it once there is enough.
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MESSAGE_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}
