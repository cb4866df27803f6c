//! What is to be done about one source: pure, from everything that was seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::selector::LabelSelector;
use setpoint_types::{Metadata, Timestamp, Uid};

use crate::NAME;
use crate::kind::{Config, ConfigStatus};
use crate::mark::{is_copy, is_source};

/// Writes of one run. What is left is the next run's, so that no run is cut off in the middle by its timeout.
const WRITES_MAX: usize = 500;
/// Namespaces that a message names.
const NAMED_MAX: usize = 5;

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The namespace that sources are in.
    pub home: String,
    pub source: Option<Typed<Config>>,
    /// Every config of the source's name outside of `home`.
    pub namesakes: Vec<Typed<Config>>,
    pub namespaces: Vec<Metadata>,
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// What every copy contains.
    pub data: BTreeMap<String, String>,
    /// Namespaces that lack their copy.
    pub create: Vec<String>,
    /// Copies that differ, by namespace.
    pub repair: Vec<(String, Uid)>,
    /// Copies that should not be.
    pub remove: Vec<Metadata>,
    /// There is more to do than one run does.
    pub more: bool,
    /// What the source shall show, if it shows anything.
    pub status: Option<ConfigStatus>,
    /// A name is taken by somebody else's config, which the source did not show before.
    pub warn: Option<String>,
}

/// The namespaces that shall have a copy, or what is wrong with the question.
fn targets(observed: &Observed) -> Result<BTreeSet<&str>, String> {
    let Some(source) = observed.source.as_ref().filter(|source| is_source(&source.metadata)) else {
        return Ok(BTreeSet::new());
    };
    let selector = LabelSelector::parse(&source.spec.namespaces).map_err(|error| error.to_string())?;
    let wants = |namespace: &&Metadata| {
        namespace.name != observed.home && !namespace.is_terminating() && selector.matches(&namespace.labels)
    };
    Ok(observed.namespaces.iter().filter(wants).map(|namespace| namespace.name.as_str()).collect())
}

/// Decides.
pub fn plan(observed: &Observed) -> Plan {
    let targets = match targets(observed) {
        Ok(targets) => targets,
        // Until the selector can be read, copies stay as they are.
        Err(problem) => {
            let statement = Statement::fails("Distributed", "BadSelector").message(problem);
            return Plan { status: status(observed, 0, statement), ..Plan::default() };
        }
    };
    let data = observed.source.as_ref().map(|source| source.spec.data.clone()).unwrap_or_default();
    let mut plan = Plan { data, ..Plan::default() };
    let (mut missing, mut taken, mut copies) = (targets.clone(), Vec::new(), 0);
    for found in &observed.namesakes {
        let (metadata, namespace) = (&found.metadata, found.metadata.namespace.as_str());
        let (ours, wanted) = (is_copy(metadata, &observed.home, NAME), missing.remove(namespace));
        match (wanted, ours) {
            (true, false) => taken.push(namespace),
            // It is made anew once it is gone.
            (_, true) if metadata.is_terminating() => {}
            (true, true) if found.spec.data == plan.data => copies += 1,
            (true, true) => plan.repair.push((namespace.to_owned(), metadata.uid.clone())),
            (false, true) => plan.remove.push(metadata.clone()),
            (false, false) => {}
        }
    }
    plan.create = missing.into_iter().map(str::to_owned).collect();
    let statement = statement(targets.len(), copies, &taken);
    plan.warn = warning(observed, &taken);
    plan.status = status(observed, copies, statement);
    bounded(plan)
}

fn statement(wanted: usize, copies: u32, taken: &[&str]) -> Statement {
    let progress = format!("{copies} of {wanted} namespaces have their copy");
    if !taken.is_empty() {
        let message = format!("{progress}; {}", taken_message(taken));
        return Statement::fails("Distributed", "NameTaken").message(message);
    }
    match copies as usize == wanted {
        true => Statement::holds("Distributed", "AllCopied").message(progress),
        false => Statement::fails("Distributed", "InProgress").message(progress),
    }
}

fn taken_message(taken: &[&str]) -> String {
    let (named, more) = (&taken[..taken.len().min(NAMED_MAX)], taken.len().saturating_sub(NAMED_MAX));
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("the name belongs to a config of somebody else in {}{more}", named.join(", "))
}

/// Told once: when the source begins to show it.
fn warning(observed: &Observed, taken: &[&str]) -> Option<String> {
    let shown = observed.source.as_ref().and_then(|source| source.status.as_ref());
    let is_shown = shown.is_some_and(|status| status.conditions.iter().any(|it| it.reason == "NameTaken"));
    (!taken.is_empty() && !is_shown).then(|| taken_message(taken))
}

/// A config that was never distributed shows nothing of it, and one that goes no longer.
fn status(observed: &Observed, copies: u32, statement: Statement) -> Option<ConfigStatus> {
    let source = observed.source.as_ref().filter(|source| !source.metadata.is_terminating())?;
    let asked = is_source(&source.metadata);
    if !asked && source.status.is_none() {
        return None;
    }
    let mut status = source.status.clone().unwrap_or_default();
    let generation = source.metadata.generation;
    status.observed_generation = generation;
    status.copies = copies;
    let mut conditions = Conditions::of(&mut status.conditions, generation, observed.now);
    match asked {
        true => drop(conditions.set(statement)),
        false => drop(conditions.remove("Distributed")),
    }
    Some(status)
}

/// Copies that should not be go first: they may be in the way of what follows.
fn bounded(mut plan: Plan) -> Plan {
    let wanted = plan.remove.len() + plan.repair.len() + plan.create.len();
    plan.remove.truncate(WRITES_MAX);
    plan.repair.truncate(WRITES_MAX - plan.remove.len());
    plan.create.truncate(WRITES_MAX - plan.remove.len() - plan.repair.len());
    plan.more = plan.remove.len() + plan.repair.len() + plan.create.len() < wanted;
    plan
}

#[cfg(test)]
mod tests {
    use setpoint_types::object::{ManagedFields, WriteOperation};

    use super::*;
    use crate::kind::ConfigSpec;
    use crate::mark::{DISTRIBUTE, SOURCE};

    fn config(namespace: &str, value: &str) -> Typed<Config> {
        let spec = ConfigSpec { data: [("k".to_owned(), value.to_owned())].into(), ..ConfigSpec::default() };
        let mut config = Typed::<Config>::new("c", spec).in_namespace(namespace);
        config.metadata.uid = Uid::new(format!("uid-{namespace}"));
        config
    }

    fn source(selector: &str) -> Typed<Config> {
        let mut source = config("base", "new");
        source.spec.namespaces = selector.to_owned();
        source.metadata.labels.insert(DISTRIBUTE.to_owned(), "true".to_owned());
        source
    }

    fn copy(namespace: &str, value: &str) -> Typed<Config> {
        let mut copy = config(namespace, value);
        copy.metadata.labels.insert(SOURCE.to_owned(), "base".to_owned());
        copy.metadata.managed_fields.push(ManagedFields {
            manager: NAME.to_owned(),
            operation: WriteOperation::Apply,
            fields: vec![format!(".metadata.labels.\"{SOURCE}\"")],
            ..ManagedFields::default()
        });
        copy
    }

    fn terminating(mut config: Typed<Config>) -> Typed<Config> {
        config.metadata.deleted = Some(Timestamp(1));
        config
    }

    /// `a` and `b` are gold; `t` is going.
    fn observed(source: Option<Typed<Config>>, namesakes: Vec<Typed<Config>>) -> Observed {
        let namespace = |name: &str, tier: &str, deleted| Metadata {
            name: name.to_owned(),
            labels: [("tier".to_owned(), tier.to_owned())].into(),
            deleted,
            ..Metadata::default()
        };
        let namespaces = vec![
            namespace("a", "gold", None),
            namespace("b", "gold", None),
            namespace("base", "gold", None),
            namespace("c", "tin", None),
            namespace("t", "gold", Some(Timestamp(1))),
        ];
        Observed { home: "base".to_owned(), source, namesakes, namespaces, now: Timestamp(9) }
    }

    /// `create a; repair b; remove c; NameTaken 1`
    fn told(plan: &Plan) -> String {
        let mut told = Vec::new();
        let mut tell = |what: &str, namespaces: Vec<&str>| {
            if !namespaces.is_empty() {
                told.push(format!("{what} {}", namespaces.join(",")));
            }
        };
        tell("create", plan.create.iter().map(String::as_str).collect());
        tell("repair", plan.repair.iter().map(|(namespace, _)| namespace.as_str()).collect());
        tell("remove", plan.remove.iter().map(|copy| copy.namespace.as_str()).collect());
        if let Some(status) = &plan.status {
            let reason = status.conditions.first().map_or("nothing", |it| it.reason.as_str());
            told.push(format!("{reason} {}", status.copies));
        }
        told.join("; ")
    }

    #[test]
    fn what_is_done_follows_from_what_there_is() {
        let all = || source("");
        let unlabelled = || Typed { metadata: config("base", "new").metadata, ..all() };
        let shown = |mut source: Typed<Config>| {
            source.status = plan(&observed(Some(all()), vec![])).status;
            source
        };
        let table = [
            ("every namespace lacks its copy", Some(all()), vec![], "create a,b,c; InProgress 0"),
            ("only those that are selected", Some(source("tier=gold")), vec![], "create a,b; InProgress 0"),
            (
                "all is well",
                Some(source("tier=gold")),
                vec![copy("a", "new"), copy("b", "new")],
                "AllCopied 2",
            ),
            (
                "a copy was edited",
                Some(source("tier=gold")),
                vec![copy("a", "new"), copy("b", "old")],
                "repair b; InProgress 1",
            ),
            (
                "no longer selected",
                Some(source("tier=gold")),
                vec![copy("a", "new"), copy("b", "new"), copy("c", "new")],
                "remove c; AllCopied 2",
            ),
            (
                "somebody else's is left alone",
                Some(source("tier=gold")),
                vec![copy("a", "new"), config("b", "old")],
                "NameTaken 1",
            ),
            (
                "somebody else's with the same content, too",
                Some(source("tier=gold")),
                vec![copy("a", "new"), config("b", "new")],
                "NameTaken 1",
            ),
            (
                "the source is gone",
                None,
                vec![copy("a", "new"), config("b", "new"), copy("c", "old")],
                "remove a,c",
            ),
            ("the source goes", Some(terminating(all())), vec![copy("a", "new")], "remove a"),
            ("no label", Some(unlabelled()), vec![copy("a", "new"), config("b", "x")], "remove a"),
            ("the label is gone", Some(shown(unlabelled())), vec![copy("a", "new")], "remove a; nothing 0"),
            (
                "a copy that goes is waited for",
                Some(source("tier=gold")),
                vec![terminating(copy("a", "new")), copy("b", "new")],
                "InProgress 1",
            ),
            ("a going copy is not removed again", None, vec![terminating(copy("a", "new"))], ""),
            (
                "a bad selector changes nothing",
                Some(source("tier in")),
                vec![copy("c", "old")],
                "BadSelector 0",
            ),
        ];
        for (what, source, namesakes, expected) in table {
            assert_eq!(told(&plan(&observed(source, namesakes))), expected, "{what}");
        }
    }

    #[test]
    fn a_taken_name_is_warned_of_once() {
        let taken = vec![config("b", "old")];
        let first = plan(&observed(Some(source("tier=gold")), taken.clone()));
        assert!(first.warn.is_some_and(|message| message.ends_with("in b")));
        let told = Typed { status: first.status, ..source("tier=gold") };
        assert_eq!(plan(&observed(Some(told), taken)).warn, None);
    }

    #[test]
    fn a_run_writes_only_so_much() {
        let copies = (0..2 * WRITES_MAX).map(|number| copy(&format!("n{number}"), "old")).collect();
        let plan = plan(&observed(None, copies));
        assert_eq!((plan.remove.len(), plan.more), (WRITES_MAX, true));
    }
}
