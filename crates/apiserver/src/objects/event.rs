//! Changes of keys as events of objects, encoded once and shared by everybody who watches.
//!
//! What a change is depends on the watch: an object that comes into a selector is ADDED, one that leaves it DELETED, with
//! its last state there. So up to three forms of a change exist, each with or without its content, and each is made when
//! the first watch asks for it. The encoded object is shared with the ring, or the shelf of replaced values, and not copied.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use setpoint_api::raw::v1 as raw;
use setpoint_api::raw::v1::watch_event::Type;
use setpoint_api::raw::{Part, RawEvent, RawObject};
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::{Change, Record, Store};
use setpoint_types::Revision;

use super::attributes::Attributes;
use super::catalog::Kind;
use super::key::ObjectName;
use super::selection::{Named, Selection};
use crate::watch::{PreviousMissing, Published};

/// What a list or a watch wants to see.
#[derive(Clone)]
pub struct View {
    pub kind: Arc<Kind>,
    pub selection: Selection,
    pub part: Part,
}

impl View {
    /// True if the object is of the kind and selected.
    pub fn selects(&self, key: &[u8], stored: &[u8]) -> bool {
        let Some(name) = ObjectName::of(key) else { return false };
        self.selection.is_everything() || self.selects_with(name, &Attributes::of(stored, &self.kind.fields))
    }

    fn selects_with(&self, name: ObjectName<'_>, attributes: &Attributes<'_>) -> bool {
        let ObjectName { namespace, name, .. } = name;
        self.selection.selects(&Named { attributes, namespace, name })
    }
}

/// What all watches share of one revision's changes.
#[derive(Default)]
pub struct SharedEvents {
    records: OnceLock<Box<[SharedRecord]>>,
}

#[derive(Default)]
struct SharedRecord {
    /// What tells of the new value, by form and part. What tells of the one before is kept with that.
    encoded: [[OnceLock<Arc<RawEvent>>; 2]; 2],
    current: SharedAttributes,
    previous: SharedAttributes,
}

/// Read with the selectable fields of this kind.
type SharedAttributes = OnceLock<(Arc<Kind>, Attributes<'static>)>;

/// What a change is for a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Added,
    Modified,
    Deleted,
}

impl Published {
    /// The change at a place as an event for a view; none if it does not concern it.
    pub fn event(
        &self,
        place: usize,
        view: &View,
        store: &Store,
    ) -> Result<Option<Arc<RawEvent>>, PreviousMissing> {
        let record = &self.changes.records[place];
        let Some(name) = ObjectName::of(&record.key) else { return Ok(None) };
        let records = self
            .events
            .records
            .get_or_init(|| self.changes.records.iter().map(|_| SharedRecord::default()).collect());
        let shared = &records[place];
        let Some(form) = self.form(place, shared, name, view, store)? else { return Ok(None) };
        let make = |stored: Bytes| encode(form, stored, record, self.revision(), view.part);
        let (encoded, value) = match (form, &record.change) {
            (Form::Added, Change::Put { value, .. }) => (&shared.encoded[0], value),
            (Form::Modified, Change::Put { value, .. }) => (&shared.encoded[1], value),
            _ => {
                let previous = self.previous(place, store)?;
                return Ok(previous.map(|it| it.event(view.part, make)));
            }
        };
        Ok(Some(encoded[view.part as usize].get_or_init(|| Arc::new(make(value.clone()))).clone()))
    }

    fn form(
        &self,
        place: usize,
        shared: &SharedRecord,
        name: ObjectName<'_>,
        view: &View,
        store: &Store,
    ) -> Result<Option<Form>, PreviousMissing> {
        let record = &self.changes.records[place];
        let (mut was, mut is) = (record.replaced.is_some(), matches!(record.change, Change::Put { .. }));
        if !view.selection.is_everything() {
            if let Some(previous) = self.previous(place, store)? {
                let value = &previous.value.value;
                was = view.selects_with(name, &attributes(&shared.previous, value, &view.kind));
            }
            if let Change::Put { value, .. } = &record.change {
                is = view.selects_with(name, &attributes(&shared.current, value, &view.kind));
            }
        }
        Ok(match (was, is) {
            (false, true) => Some(Form::Added),
            (true, true) => Some(Form::Modified),
            (true, false) => Some(Form::Deleted),
            (false, false) => None,
        })
    }
}

fn attributes<'s>(
    shared: &'s SharedAttributes,
    stored: &Bytes,
    kind: &Arc<Kind>,
) -> Cow<'s, Attributes<'static>> {
    let read = || Attributes::of(stored, &kind.fields).into_owned();
    let (read_as, attributes) = shared.get_or_init(|| (kind.clone(), read()));
    // The kind may have been defined anew since.
    if Arc::ptr_eq(read_as, kind) { Cow::Borrowed(attributes) } else { Cow::Owned(read()) }
}

fn encode(form: Form, stored: Bytes, record: &Record, revision: Revision, part: Part) -> RawEvent {
    let r#type = match form {
        Form::Added => Type::Added,
        Form::Modified => Type::Modified,
        Form::Deleted => Type::Deleted,
    };
    RawEvent::new(raw::WatchEvent {
        r#type: r#type.into(),
        object: Some(RawObject::of(stored, revision.get(), part)),
        revision: revision.get(),
        author: author(record),
        ..Default::default()
    })
}

/// Who made a change, if its record says so.
pub fn author(record: &Record) -> Option<pb::Author> {
    let author = record.author.as_deref()?.clone();
    let fence = author.fence.map(|fence| pb::Fence {
        namespace: fence.lease.namespace,
        lease: fence.lease.name,
        epoch: fence.epoch.0,
    });
    Some(pb::Author {
        principal: author.principal,
        manager: author.manager,
        operation: author.operation,
        fence,
        trace: author.trace,
        time_ms: author.time.0,
    })
}

/// Everything up to the revision was sent.
pub fn bookmark(revision: Revision, initial_state_end: bool) -> RawEvent {
    let r#type = Type::Bookmark.into();
    RawEvent::new(raw::WatchEvent {
        r#type,
        revision: revision.get(),
        initial_state_end,
        ..Default::default()
    })
}

/// The stream ends here.
pub fn error(error: pb::Error) -> RawEvent {
    let revision = error.revision;
    RawEvent::new(raw::WatchEvent {
        r#type: Type::Error.into(),
        revision,
        error: Some(error),
        ..Default::default()
    })
}
