//! Apply: server-side apply of an object's main part or of its status.

use serde_json::{Map, Value};

use super::create::{Fresh, new_metadata};
use super::draft::{Draft, Settled, fill_silently, settle_fields};
use super::{
    Context, Incoming, Kind, check_conditions, check_no_conditions, key::settle_key, not_found,
    settle_sections,
};
use crate::apply::{Applied, NotApplied};
use crate::managed::Writer;
use crate::metadata;
use crate::object::{Metadata, Object, Operation, Subresource};
use crate::refusal::Refusal;

/// How to apply.
#[derive(Clone, Copy, Debug)]
pub struct ApplyHow {
    /// Takes fields from managers that disagree.
    pub force: bool,
    pub subresource: Subresource,
}

/// Creates the object, or merges into it.
pub fn apply<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    incoming: Incoming,
    how: ApplyHow,
    fresh: Fresh<'_>,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    if context.manager.is_empty() {
        let message = "is needed: an apply says whose opinion it is, like \"ci\" or \"autoscaler\"";
        return Err(Refusal::field("options.manager", message));
    }
    let (manager, subresource) = (context.manager()?, how.subresource);
    let mut config = incoming.object;
    settle_key(kind, &mut config.metadata, "")?;
    let mut object = match stored {
        Some(stored) => {
            check_conditions(stored, &config.metadata.uid, config.metadata.revision)?;
            stored.clone()
        }
        None if subresource == Subresource::Status => return Err(not_found(kind, &config.metadata)),
        None => {
            check_no_conditions(kind, &config.metadata)?;
            let key = Metadata {
                namespace: config.metadata.namespace.clone(),
                name: config.metadata.name.clone(),
                ..Metadata::default()
            };
            let metadata = new_metadata(key, fresh.uid, context.time_ms);
            Object { kind: kind.name.to_owned(), metadata, ..Object::default() }
        }
    };
    let Settled { warnings, mut found } =
        settle_fields(kind, &mut config, subresource, incoming.repeated, context.validation);
    let writer = Writer { manager, operation: Operation::Apply, subresource, time_ms: context.time_ms };
    let live = take_document(&mut object, subresource);
    let config = take_document(&mut config, subresource);
    let applied = crate::apply::apply(
        kind.topology,
        &live,
        &object.metadata.managed_fields,
        config,
        &writer,
        how.force,
    );
    let Applied { document, managed, taken } = match applied {
        Ok(applied) => applied,
        // What is wrong is said before who disagrees, and with what else is wrong.
        Err(NotApplied::Conflicts(_)) if !found.is_empty() => return Err(Refusal::invalid(found)),
        Err(NotApplied::Conflicts(conflicts)) => {
            let revision = stored.map_or(0, |stored| stored.metadata.revision);
            return Err(Refusal::conflicts(conflicts).at_revision(revision));
        }
        Err(NotApplied::Invalid { problems, document }) => {
            found.extend(problems);
            Applied { document, managed: object.metadata.managed_fields.clone(), taken: Vec::new() }
        }
    };
    put_back(&mut object, document)?;
    object.metadata.managed_fields = managed;
    fill_silently(kind, &mut object, subresource)?;
    settle_sections(&mut object);
    let (kind, owners, time_ms) = (*kind, context.owners, context.time_ms);
    Ok(Draft { kind, before: stored, object, subresource, warnings, found, taken, owners, manager, time_ms })
}

/// The part of an object that is applied, taken out of it: spec and status may be large. What is absent is empty.
fn take_document(object: &mut Object, subresource: Subresource) -> Value {
    let section = |value: &mut Value| if value.is_null() { Map::new().into() } else { value.take() };
    let mut document = Map::new();
    match subresource {
        Subresource::Main => {
            document.insert("metadata".to_owned(), metadata::ownable(&object.metadata));
            document.insert("spec".to_owned(), section(&mut object.spec));
        }
        Subresource::Status => drop(document.insert("status".to_owned(), section(&mut object.status))),
    }
    document.into()
}

fn put_back(object: &mut Object, mut document: Value) -> Result<(), Refusal> {
    if let Some(said) = document.get("metadata") {
        let Metadata { finalizers, owners, labels, annotations, .. } =
            metadata::from_json(said).map_err(Refusal::invalid)?;
        object.metadata =
            Metadata { finalizers, owners, labels, annotations, ..std::mem::take(&mut object.metadata) };
    }
    for (name, section) in [("spec", &mut object.spec), ("status", &mut object.status)] {
        if let Some(value) = document.get_mut(name) {
            *section = value.take();
        }
    }
    Ok(())
}
