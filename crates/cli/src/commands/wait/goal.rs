//! What can be waited for. A condition of an older generation does not count: it is about what was asked for before.

use setpoint_types::object::{Condition, Object};

use crate::output::column::plain;
use crate::output::document;
use crate::output::jsonpath::Template;

/// What an object has to come to.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    Create,
    Delete,
    Condition {
        name: String,
        status: String,
    },
    /// Without a value: anything at all.
    Path {
        template: Template,
        text: String,
        value: Option<String>,
    },
}

impl Goal {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (word, rest) = text.split_once('=').map_or((text, ""), |(word, rest)| (word, rest));
        match (word, rest) {
            ("create", "") => Ok(Self::Create),
            ("delete", "") => Ok(Self::Delete),
            ("condition", rest) if !rest.is_empty() => {
                let (name, status) = rest.split_once('=').unwrap_or((rest, "True"));
                Ok(Self::Condition { name: name.to_owned(), status: status.to_owned() })
            }
            ("jsonpath", rest) if !rest.is_empty() => path(rest),
            _ => Err("write create, delete, condition=NAME, condition=NAME=STATUS or jsonpath={.a.b}=VALUE"
                .to_owned()),
        }
    }

    /// Why it is not reached, if it is not.
    pub fn reached(&self, object: &Object) -> Result<(), String> {
        match self {
            Self::Create => Ok(()),
            Self::Delete => Err("it is still there".to_owned()),
            Self::Condition { name, status } => condition(object, name, status),
            Self::Path { template, text, value } => {
                let document = document(object, false);
                let found: Vec<String> = template.find(&document).into_iter().map(plain).collect();
                match value {
                    None if !found.is_empty() => Ok(()),
                    None => Err(format!("there is no {text}")),
                    Some(wanted) if !found.is_empty() && found.iter().all(|it| it == wanted) => Ok(()),
                    Some(wanted) => {
                        let is = if found.is_empty() { "not there".to_owned() } else { found.join(" ") };
                        Err(format!("{text} is {is}, not {wanted}"))
                    }
                }
            }
        }
    }

    /// What is said when it is reached.
    pub fn met(&self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Delete => "deleted",
            Self::Condition { .. } | Self::Path { .. } => "condition met",
        }
    }
}

fn path(rest: &str) -> Result<Goal, String> {
    // The value comes after the last brace: expressions have `==` inside.
    let (expression, value) = match rest.rfind('}') {
        Some(at) => (&rest[..=at], rest[at + 1..].strip_prefix('=')),
        None => rest.split_once('=').map_or((rest, None), |(path, value)| (path, Some(value))),
    };
    let template = Template::parse(expression).map_err(|error| error.to_string())?;
    Ok(Goal::Path { template, text: expression.to_owned(), value: value.map(str::to_owned) })
}

fn condition(object: &Object, name: &str, status: &str) -> Result<(), String> {
    let conditions = object.status.get("conditions").cloned().unwrap_or_default();
    let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap_or_default();
    let Some(found) = conditions.iter().find(|it| it.kind.eq_ignore_ascii_case(name)) else {
        let known: Vec<&str> = conditions.iter().map(|it| it.kind.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("it has no condition {name} (it has: {known})"));
    };
    let told = object.status.get("observedGeneration").and_then(|it| it.as_u64()).unwrap_or(0);
    let seen = if found.observed_generation.0 > 0 { found.observed_generation.0 } else { told };
    let generation = object.metadata.generation.0;
    if seen > 0 && seen < generation {
        return Err(format!(
            "condition {} is still of generation {seen}, the object is at {generation}",
            found.kind
        ));
    }
    let is = format!("{:?}", found.status);
    if is.eq_ignore_ascii_case(status) {
        return Ok(());
    }
    let message = if found.message.is_empty() { String::new() } else { format!(": {}", found.message) };
    Err(format!("condition {} is {is} ({}{message})", found.kind, found.reason))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_types::Generation;

    use super::*;

    fn object(generation: u64, status: serde_json::Value) -> Object {
        let mut object = Object::new("Workload", "default", "web").with_status(&status);
        object.metadata.generation = Generation(generation);
        object
    }

    #[test]
    fn a_condition_of_an_older_generation_does_not_count() {
        let goal = Goal::parse("condition=Available").unwrap();
        let available = |seen: u64| json!({"type": "Available", "status": "True", "observedGeneration": seen, "reason": "R"});
        assert!(
            goal.reached(&object(3, json!({"conditions": [available(2)]})))
                .unwrap_err()
                .contains("generation 2")
        );
        assert_eq!(goal.reached(&object(3, json!({"conditions": [available(3)]}))), Ok(()));
        // One that does not say is as old as the whole status.
        let whole = |seen: u64| json!({"observedGeneration": seen, "conditions": [available(0)]});
        assert!(goal.reached(&object(3, whole(2))).is_err());
        assert_eq!(goal.reached(&object(3, whole(3))), Ok(()));
        let no = Goal::parse("condition=available=false").unwrap();
        assert!(no.reached(&object(3, whole(3))).unwrap_err().contains("is True"));
    }

    #[test]
    fn paths_are_compared_as_text() {
        let status = json!({"replicas": {"ready": 2}, "conditions": [{"type": "A", "status": "True"}]});
        let reached = |goal: &str| Goal::parse(goal).unwrap().reached(&object(1, status.clone())).is_ok();
        assert!(reached("jsonpath={.status.replicas.ready}=2"));
        assert!(reached("jsonpath=.status.replicas.ready=2"));
        assert!(!reached("jsonpath={.status.replicas.ready}=3"));
        assert!(reached("jsonpath={.status.replicas}"));
        assert!(!reached("jsonpath={.status.nothing}"));
        assert!(reached("jsonpath={.status.conditions[?(@.type==\"A\")].status}=True"));
        for wrong in ["", "condition=", "ready", "jsonpath={.a"] {
            assert!(Goal::parse(wrong).is_err(), "{wrong}");
        }
    }
}
