//! The functions an expression may call: CEL's own, those on strings, and the ones that pay.
//!
//! `matches` is ours, because a pattern may come from the object and the interpreter's has no limits. What could grow
//! without paying first (`replace`, `format`) is not offered; `check` refuses it by name.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelString, DYN_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use regex::{Regex, RegexBuilder};

use super::meter;
use crate::limits::{PATTERN_BYTES_MAX, PATTERNS_KEPT_MAX, REGEX_BYTES_MAX};

/// Hands its argument on, after paying for all of it. No name of a user's begins like this.
pub const WEIGH: &str = "@weigh";
/// Hands its first argument on, after paying what the second says.
pub const TICK: &str = "@tick";
/// Like `WEIGH`, and a map becomes the list of its keys in order: its own order changes from run to run.
pub const RANGE: &str = "@range";

/// What users may call. Anything else is refused when the expression is defined.
pub const FUNCTIONS: &[&str] = &[
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "reverse",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "timestamp",
    "trim",
    "type",
    "uint",
    "upperAscii",
];

/// Types that an expression may name, as in `type(self.x) == int`.
pub const TYPES: &[&str] =
    &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Built once: it is the same for every expression.
pub fn environment() -> &'static Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib().with_optional_support(false);
        extend(&mut env).expect("the names are our own, and each is declared once");
        Arc::new(env)
    });
    &ENVIRONMENT
}

fn extend(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(cel::extensions::strings)?;
    env.add_overload(WEIGH, WEIGH, vec![DYN_TYPE], weigh)?;
    env.add_overload(TICK, TICK, vec![DYN_TYPE, DYN_TYPE], tick)?;
    env.add_overload(RANGE, RANGE, vec![DYN_TYPE], range)?;
    env.add_overload("matches", "matches", vec![STRING_TYPE, STRING_TYPE], matches)?;
    env.add_member_overload("matches", "matches_string", STRING_TYPE, vec![STRING_TYPE], matches)?;
    Ok(())
}

fn weigh<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = first(args)?;
    meter::pay_for(value.as_ref())?;
    Ok(value)
}

fn tick<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let cost = args.get(1).and_then(|cost| cost.downcast_ref::<CelInt>());
    let cost = cost.ok_or(ExecutionError::MissingArgumentOrTarget)?;
    meter::pay(cost.inner().unsigned_abs())?;
    first(args)
}

fn range<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = weigh(args)?;
    let Some(map) = value.downcast_ref::<CelMap<'_>>() else { return Ok(value) };
    let mut keys: Vec<_> = map.inner().keys().cloned().collect();
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> = keys.iter().map(|key| key.inner().clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

fn first<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    args.into_iter().next().ok_or(ExecutionError::MissingArgumentOrTarget)
}

fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = |index: usize| {
        args.get(index)
            .and_then(|arg| arg.downcast_ref::<CelString<'_>>())
            .map(CelString::inner)
            .ok_or(ExecutionError::MissingArgumentOrTarget)
    };
    let (text, pattern) = (text(0)?, text(1)?);
    // A byte of text costs up to a step of every state of the pattern.
    meter::pay(1 + 4 * text.len() as u64)?;
    let regex = cached(pattern).map_err(|problem| ExecutionError::function_error("matches", problem))?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text))))
}

/// The compiled pattern, if it is one that may be used.
pub fn pattern(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).nest_limit(32);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large once it is compiled".to_owned(),
        // Its last line says what is wrong; the others draw it.
        error => error
            .to_string()
            .lines()
            .last()
            .unwrap_or("not a pattern")
            .trim_start_matches("error: ")
            .to_owned(),
    })
}

fn cached(text: &str) -> Result<Regex, String> {
    thread_local! {
        /// The most recently used last.
        static KEPT: RefCell<VecDeque<Regex>> = const { RefCell::new(VecDeque::new()) };
    }
    KEPT.with_borrow_mut(|kept| {
        let regex = match kept.iter().position(|regex| regex.as_str() == text).and_then(|at| kept.remove(at))
        {
            Some(regex) => regex,
            None => {
                meter::pay(COMPILATION_COST).map_err(|error| error.to_string())?;
                pattern(text)?
            }
        };
        if kept.len() >= PATTERNS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(regex.clone());
        Ok(regex)
    })
}

/// Compiling a pattern of the largest size takes milliseconds.
const COMPILATION_COST: u64 = 5_000;
