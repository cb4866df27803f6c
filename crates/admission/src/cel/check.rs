//! What is refused when an expression is defined: too large, too deep, or naming what does not exist.
//!
//! Types are checked only as far as they are plain to see: what can be nothing but a number is no condition. Else the
//! interpreter is dynamic, and a rule that adds a string to a number fails when it is evaluated.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue};

use super::library::{FUNCTIONS, TYPES, pattern};
use crate::limits::{EXPRESSION_DEPTH_MAX, EXPRESSION_NODES_MAX, EXPRESSION_PATTERNS_MAX};

/// A literal separator for `join` may be so long. It is repeated, so it must not come from the object.
const SEPARATOR_BYTES_MAX: usize = 64;

/// The variables an expression may use. A dotted name, `variables.team`, is one variable.
#[derive(Clone, Debug)]
pub struct Scope {
    names: Vec<String>,
}

impl Scope {
    pub fn of(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    pub fn add(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    fn is_prefix(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.split_once('.').is_some_and(|(prefix, _)| prefix == name))
    }
}

/// What an expression uses, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Findings {
    /// The node concerned and what is wrong.
    pub problems: Vec<(u64, String)>,
    /// Names from the scope.
    pub uses: Vec<String>,
    /// Fields of those: `self.spec.size`.
    pub fields: Vec<Selected>,
    /// Literal patterns in it.
    pub patterns: usize,
}

/// A chain of fields, and the node it ends at.
#[derive(Clone, Debug)]
pub struct Selected {
    pub node: u64,
    /// The variable.
    pub root: String,
    pub fields: Vec<String>,
}

/// True if an expression yields something, but never true or false.
pub fn is_never_boolean(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Literal(LiteralValue::Boolean(_)) | Expr::Select(_) | Expr::Unspecified => false,
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => true,
        Expr::Ident(name) => TYPES.contains(&name.as_str()),
        Expr::Call(call) => match call.func_name.as_str() {
            "_?_:_" => call.args.iter().skip(1).all(is_never_boolean),
            "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" => true,
            name => FUNCTIONS.contains(&name) && !TRUTHS.contains(&name),
        },
        Expr::Comprehension(comprehension) => match &comprehension.result.expr {
            // What it gathers, it begins with.
            Expr::Ident(name) if *name == comprehension.accu_var => {
                is_never_boolean(&comprehension.accu_init)
            }
            _ => is_never_boolean(&comprehension.result),
        },
    }
}

/// Functions that may yield true or false.
const TRUTHS: [&str; 6] = ["bool", "contains", "dyn", "endsWith", "matches", "startsWith"];

/// Refuses what is too large to be walked. On an explicit stack, because nothing is known about the depth yet.
pub fn measure(expression: &IdedExpr) -> Result<(), (u64, String)> {
    let mut pending = vec![(expression, 1)];
    let mut seen = 0;
    while let Some((node, depth)) = pending.pop() {
        seen += 1;
        if depth > EXPRESSION_DEPTH_MAX {
            return Err((node.id, format!("nested deeper than {EXPRESSION_DEPTH_MAX} levels")));
        }
        if seen > EXPRESSION_NODES_MAX {
            return Err((expression.id, format!("has more than {EXPRESSION_NODES_MAX} parts")));
        }
        each_child(node, |child| pending.push((child, depth + 1)));
    }
    Ok(())
}

/// How many nodes there are.
pub fn count(expression: &IdedExpr) -> usize {
    let mut below = 1;
    each_child(expression, |child| below += count(child));
    below
}

/// Looks at every name. The expression was measured.
pub fn look(expression: &IdedExpr, scope: &Scope) -> Findings {
    let mut look = Look { scope, local: Vec::new(), findings: Findings::default() };
    look.at(expression);
    look.findings
}

struct Look<'e, 's> {
    scope: &'s Scope,
    /// The variables of the comprehensions around.
    local: Vec<&'e str>,
    findings: Findings,
}

impl<'e> Look<'e, '_> {
    fn at(&mut self, node: &'e IdedExpr) {
        match &node.expr {
            Expr::Ident(name) => self.name(node.id, name),
            Expr::Select(select) => {
                if let Some(name) = dotted(node).filter(|_| !select.test)
                    && self.scope.has(&name)
                {
                    return self.used(name);
                }
                if let Some((root, fields)) = chain(node).filter(|(root, _)| !self.local.contains(root))
                    && self.scope.has(root)
                {
                    let fields = fields.into_iter().map(str::to_owned).collect();
                    self.findings.fields.push(Selected { node: node.id, root: root.to_owned(), fields });
                    return self.used(root.to_owned());
                }
                self.at(&select.operand);
            }
            Expr::Comprehension(comprehension) => {
                self.at(&comprehension.iter_range);
                self.at(&comprehension.accu_init);
                let before = self.local.len();
                self.local.extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
                self.local.extend(comprehension.iter_var2.as_deref());
                self.at(&comprehension.loop_cond);
                self.at(&comprehension.loop_step);
                self.at(&comprehension.result);
                self.local.truncate(before);
            }
            Expr::Struct(made) => {
                self.problem(node.id, format!("there are no messages such as `{}` here", made.type_name));
            }
            Expr::Unspecified => self.problem(node.id, "not an expression".to_owned()),
            Expr::Call(call) => {
                self.call(node.id, call);
                each_child(node, |child| self.at(child));
            }
            Expr::List(_) | Expr::Map(_) | Expr::Literal(_) => each_child(node, |child| self.at(child)),
        }
    }

    fn name(&mut self, id: u64, name: &str) {
        if self.local.contains(&name) || TYPES.contains(&name) {
            return;
        }
        if self.scope.has(name) {
            return self.used(name.to_owned());
        }
        let message = match self.scope.is_prefix(name) {
            true => format!("`{name}` has no such variable"),
            false => format!("there is no variable `{name}` here"),
        };
        self.problem(id, message);
    }

    fn call(&mut self, id: u64, call: &CallExpr) {
        let name = call.func_name.as_str();
        // Operators are named by signs, users' functions by letters.
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return;
        }
        if !FUNCTIONS.contains(&name) {
            return self.problem(id, format!("there is no function `{name}`"));
        }
        let literal = match call.args.last().map(|arg| &arg.expr) {
            Some(Expr::Literal(LiteralValue::String(text))) => Some(text.inner()),
            _ => None,
        };
        if let Some(literal) = literal.filter(|_| name == "matches") {
            self.pattern(id, literal);
        }
        if name == "join"
            && !call.args.is_empty()
            && literal.is_none_or(|text| text.len() > SEPARATOR_BYTES_MAX)
        {
            let message = format!("`join` needs a literal separator of at most {SEPARATOR_BYTES_MAX} bytes");
            self.problem(id, message);
        }
    }

    fn pattern(&mut self, id: u64, literal: &str) {
        self.findings.patterns += 1;
        match self.findings.patterns {
            count if count > EXPRESSION_PATTERNS_MAX + 1 => {}
            count if count > EXPRESSION_PATTERNS_MAX => {
                self.problem(id, format!("has more than {EXPRESSION_PATTERNS_MAX} patterns"));
            }
            _ => {
                if let Err(problem) = pattern(literal) {
                    self.problem(id, format!("not a usable pattern: {problem}"));
                }
            }
        }
    }

    fn used(&mut self, name: String) {
        if !self.findings.uses.contains(&name) {
            self.findings.uses.push(name);
        }
    }

    fn problem(&mut self, id: u64, message: String) {
        self.findings.problems.push((id, message));
    }
}

/// `a.b`, where it is that.
fn dotted(node: &IdedExpr) -> Option<String> {
    let Expr::Select(select) = &node.expr else { return None };
    let Expr::Ident(root) = &select.operand.expr else { return None };
    Some(format!("{root}.{}", select.field))
}

/// `a.b.c` as its root and fields, where it is that.
fn chain(node: &IdedExpr) -> Option<(&str, Vec<&str>)> {
    match &node.expr {
        Expr::Ident(root) => Some((root, Vec::new())),
        Expr::Select(select) => {
            let (root, mut fields) = chain(&select.operand)?;
            fields.push(&select.field);
            Some((root, fields))
        }
        _ => None,
    }
}

fn each_child<'e>(node: &'e IdedExpr, mut visit: impl FnMut(&'e IdedExpr)) {
    match &node.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|target| visit(target));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(comprehension) => {
            let parts = [
                &comprehension.iter_range,
                &comprehension.accu_init,
                &comprehension.loop_cond,
                &comprehension.loop_step,
                &comprehension.result,
            ];
            parts.into_iter().for_each(visit);
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key);
                    visit(&entry.value);
                }
            }
        }
        Expr::Select(select) => visit(&select.operand),
        Expr::Struct(made) => {
            for entry in &made.entries {
                if let EntryExpr::StructField(field) = &entry.expr {
                    visit(&field.value);
                }
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}
