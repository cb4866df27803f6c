//! What a priority class is worth for a replica that is made now.

use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::FieldProblem;
use setpoint_types::kinds::PriorityClass;

/// The value of a class; that of the default class, or 0, if none is named. None: there is no such class.
pub fn of(classes: &Cache<PriorityClass>, class: Option<&str>) -> Result<Option<i32>, FieldProblem> {
    if let Some(class) = class {
        let found = classes.read(&Key::new("", class))?;
        return Ok(found.map(|class| class.spec.value));
    }
    let mut least: Option<i32> = None;
    for class in classes.snapshot().iter() {
        let class = class.read()?;
        if class.spec.default {
            least = Some(least.map_or(class.spec.value, |least| least.min(class.spec.value)));
        }
    }
    Ok(Some(least.unwrap_or(0)))
}
