//! The variables an expression sees.

use std::sync::Arc;

use cel::Context;
use cel::common::value::Val;
use serde_json::Value;

use super::{json, library};
use crate::schema::Node;

/// Values by name. Made once per object and used by every expression about it: converting an object costs more than
/// most expressions do.
pub struct Bindings<'p, 'v> {
    context: Context<'p, 'v>,
}

impl<'v> Bindings<'_, 'v> {
    pub fn new() -> Self {
        Self { context: Context::with_env(Arc::clone(library::environment())) }
    }

    /// Binds `name` to a value, seen as its schema tells.
    pub fn bind(&mut self, name: &str, value: &'v Value, node: Option<&Node>) {
        self.bind_cel(name, json::to_cel(value, node));
    }

    pub(super) fn bind_cel(&mut self, name: &str, value: Box<dyn Val + 'v>) {
        self.context.add_variable_as_val(name, value);
    }

    /// The same variables, with room for more that end with it.
    pub fn inner(&self) -> Bindings<'_, 'v> {
        Bindings { context: self.context.new_inner_scope() }
    }

    pub(super) fn context(&self) -> &Context<'_, 'v> {
        &self.context
    }
}

impl Default for Bindings<'_, '_> {
    fn default() -> Self {
        Self::new()
    }
}
