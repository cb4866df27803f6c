//! Rewrites an expression so that it pays for what it does, before it does it.
//!
//! | what | costs | paid by |
//! |---|---|---|
//! | an operand of `+`, `==`, `<`, `in`; an argument; an element of a literal | the whole value: it is copied or compared | `@weigh` |
//! | what a function returns | the whole value | `@weigh` |
//! | the range of a comprehension | the whole value: each element is copied | `@range` |
//! | one turn of a comprehension | the nodes of its body | `@tick` |
//!
//! Everything else takes constant time per node, and the nodes are counted when the expression is defined. A comprehension
//! that collects keeps its shape, `result + [x]`: the interpreter appends in place only where it recognises that.

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, SelectExpr, operators,
};

use super::library::{RANGE, TICK, WEIGH};

/// The same expression, paying.
pub fn instrument(expression: IdedExpr) -> IdedExpr {
    let IdedExpr { id, expr } = expression;
    let expr = match expr {
        Expr::Call(call) => return instrument_call(id, call),
        Expr::Comprehension(comprehension) => Expr::Comprehension(Box::new(instrument_loop(*comprehension))),
        Expr::List(list) => Expr::List(instrument_list(list)),
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = weighed(std::mem::take(&mut entry.key));
                    entry.value = weighed(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(SelectExpr { operand, field, test }) => {
            Expr::Select(SelectExpr { operand: Box::new(instrument(*operand)), field, test })
        }
        plain => plain,
    };
    IdedExpr { id, expr }
}

/// The whole expression: its result is copied out.
pub fn instrument_root(expression: IdedExpr) -> IdedExpr {
    weighed(expression)
}

fn instrument_call(id: u64, call: CallExpr) -> IdedExpr {
    let CallExpr { func_name, target, args } = call;
    let (args, is_function) = match func_name.as_str() {
        operators::CONDITIONAL
        | operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::NOT_STRICTLY_FALSE
        | operators::NEGATE
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::INDEX => (args.into_iter().map(instrument).collect(), false),
        operators::ADD
        | operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
        | operators::IN => (args.into_iter().map(weighed).collect(), false),
        _ => (args.into_iter().map(weighed).collect(), true),
    };
    let target = target.map(|target| Box::new(weighed(*target)));
    let call = IdedExpr { id, expr: Expr::Call(CallExpr { func_name, target, args }) };
    if is_function { wrapped(WEIGH, call) } else { call }
}

fn instrument_list(list: ListExpr) -> ListExpr {
    ListExpr::new_with_optionals(list.elements.into_iter().map(weighed).collect(), list.optional_indices)
}

fn instrument_loop(comprehension: ComprehensionExpr) -> ComprehensionExpr {
    let ComprehensionExpr {
        iter_range,
        iter_var,
        iter_var2,
        accu_var,
        accu_init,
        loop_cond,
        loop_step,
        result,
    } = comprehension;
    let cost = 1 + nodes(&loop_cond) + nodes(&loop_step);
    let collects = matches!(loop_cond.expr, Expr::Literal(_));
    ComprehensionExpr {
        iter_range: wrapped(RANGE, instrument(iter_range)),
        // A condition that is always true must stay a literal; the step pays instead.
        loop_cond: if collects { loop_cond } else { ticking(instrument(loop_cond), cost) },
        loop_step: if collects { instrument_step(loop_step, &accu_var, cost) } else { instrument(loop_step) },
        accu_init: instrument(accu_init),
        result: instrument(result),
        iter_var,
        iter_var2,
        accu_var,
    }
}

/// `result + [x]` or `guard ? result + [x] : result`: pays in the guard and in `x`, and leaves `result` alone.
fn instrument_step(step: IdedExpr, accu: &str, cost: i64) -> IdedExpr {
    let IdedExpr { id, expr } = step;
    let Expr::Call(CallExpr { func_name, target: None, mut args }) = expr else {
        return ticking(instrument(IdedExpr { id, expr }), cost);
    };
    let is_accu = |arg: &IdedExpr| matches!(&arg.expr, Expr::Ident(name) if name == accu);
    match (func_name.as_str(), args.as_mut_slice()) {
        (operators::CONDITIONAL, [guard, step, otherwise]) if is_accu(otherwise) => {
            *guard = ticking(instrument(std::mem::take(guard)), cost);
            *step = instrument_step(std::mem::take(step), accu, 1);
        }
        (operators::ADD, [result, added]) if is_accu(result) => match std::mem::take(&mut added.expr) {
            Expr::List(list) => {
                let list = instrument_list(list);
                let elements = list.elements.into_iter().map(|element| ticking(element, cost)).collect();
                added.expr = Expr::List(ListExpr::new_with_optionals(elements, list.optional_indices));
            }
            other => *added = ticking(instrument(IdedExpr { id: added.id, expr: other }), cost),
        },
        _ => {
            let call = IdedExpr { id, expr: Expr::Call(CallExpr { func_name, target: None, args }) };
            return ticking(instrument(call), cost);
        }
    }
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name, target: None, args }) }
}

/// Instrumented, and paid for as a whole where it may be large.
fn weighed(expression: IdedExpr) -> IdedExpr {
    match expression.expr {
        // Its length is part of the expression's.
        Expr::Literal(_) => expression,
        _ => wrapped(WEIGH, instrument(expression)),
    }
}

fn ticking(expression: IdedExpr, cost: i64) -> IdedExpr {
    let cost = IdedExpr { id: expression.id, expr: Expr::Literal(LiteralValue::Int(cost.into())) };
    let id = expression.id;
    let args = vec![expression, cost];
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name: TICK.to_owned(), target: None, args }) }
}

fn wrapped(function: &str, expression: IdedExpr) -> IdedExpr {
    let id = expression.id;
    let call = CallExpr { func_name: function.to_owned(), target: None, args: vec![expression] };
    IdedExpr { id, expr: Expr::Call(call) }
}

fn nodes(expression: &IdedExpr) -> i64 {
    super::check::count(expression) as i64
}
