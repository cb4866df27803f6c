//! The purse an evaluation pays from: one per thread, filled for one evaluation at a time.
//!
//! It belongs to the thread because the interpreter's functions are plain function pointers, and one evaluation never
//! leaves its thread. A cost is an upper bound on the work and the memory behind it, in units of one small value.

use std::cell::Cell;

use cel::ExecutionError;
use cel::common::value::{BuiltinRef, Val};

/// Bytes of text that cost as much as one value.
const BYTES_PER_UNIT: usize = 16;

thread_local! {
    static PURSE: Cell<u64> = const { Cell::new(0) };
}

/// What an evaluation left behind.
pub struct Metered<T> {
    pub result: T,
    pub spent: u64,
    /// It asked for more than there was. Its result means nothing then: `||` and `&&` forgive errors.
    pub exhausted: bool,
}

/// Runs `evaluate` with `allowance` to spend.
pub fn metered<T>(allowance: u64, evaluate: impl FnOnce() -> T) -> Metered<T> {
    PURSE.set(allowance);
    let result = evaluate();
    let left = PURSE.replace(0);
    // The last unit is never handed out, so an empty purse means that somebody asked in vain.
    Metered { result, spent: allowance - left, exhausted: left == 0 }
}

/// Takes `cost` out of the purse; all that is left if that is not enough.
pub fn pay(cost: u64) -> Result<(), ExecutionError> {
    let left = PURSE.get();
    if cost < left {
        PURSE.set(left - cost);
        return Ok(());
    }
    PURSE.set(0);
    Err(ExecutionError::function_error("cost", "the evaluation costs too much"))
}

/// Pays for every value inside `value`.
pub fn pay_for(value: &dyn Val) -> Result<(), ExecutionError> {
    pay(1)?;
    match value.as_builtin() {
        BuiltinRef::String(text) => pay(text_cost(text.inner().len())),
        BuiltinRef::Bytes(bytes) => pay(text_cost(bytes.inner().len())),
        BuiltinRef::List(list) => list.inner().iter().try_for_each(|item| pay_for(item.as_ref())),
        BuiltinRef::Map(map) => map.inner().iter().try_for_each(|(key, item)| {
            pay_for(key.inner())?;
            pay_for(item.as_ref())
        }),
        _ => Ok(()),
    }
}

/// Of so many bytes.
pub fn text_cost(bytes: usize) -> u64 {
    (bytes / BYTES_PER_UNIT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purse_that_does_not_suffice_is_emptied() {
        let run = metered(10, || (pay(4).is_ok(), pay(7).is_ok(), pay(1).is_ok()));
        assert_eq!(run.result, (true, false, false));
        assert!(run.exhausted);
        let run = metered(10, || pay(4).is_ok());
        assert!(run.result && !run.exhausted);
        assert_eq!(run.spent, 4);
    }

    #[test]
    fn outside_an_evaluation_there_is_nothing_to_spend() {
        assert!(pay(1).is_err());
    }
}
