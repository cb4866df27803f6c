//! What selectors see of an object: its labels and the fields its kind makes selectable.
//!
//! Read out of the stored bytes by walking over them. Annotations, managed fields and most of the JSON are passed over.

use std::borrow::Cow;

use setpoint_api::raw::wire::{self, Malformed};

use super::pick::Picks;

/// Numbers of fields, as `object.proto` has them.
const METADATA: u32 = 2;
const SPEC: u32 = 3;
const STATUS: u32 = 4;
const LABELS: u32 = 11;

/// The fields of a kind that selectors may name, besides `metadata.name` and `metadata.namespace`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectableFields {
    paths: Vec<String>,
    spec: Picks,
    status: Picks,
}

impl SelectableFields {
    /// Paths such as `spec.nodeName`; those of neither spec nor status are left out.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let mut fields = Self::default();
        for path in paths {
            let place = fields.paths.len();
            if let Some(below) = path.strip_prefix("spec.") {
                fields.spec.add(below, place);
            } else if let Some(below) = path.strip_prefix("status.") {
                fields.status.add(below, place);
            } else {
                continue;
            }
            fields.paths.push(path.to_owned());
        }
        fields
    }

    /// Where the value of a path is among [`Attributes::fields`].
    pub fn place(&self, path: &str) -> Option<usize> {
        self.paths.iter().position(|it| it == path)
    }

    pub fn paths(&self) -> &[String] {
        &self.paths
    }
}

/// A text that is part of the stored bytes, unless it is written otherwise there.
pub type Text<'v> = Cow<'v, str>;

/// Borrowed from the stored bytes: every change of every object is looked at, on every node, and most are forgotten at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'v> {
    /// Sorted by key.
    pub labels: Vec<(Text<'v>, Text<'v>)>,
    /// In the order of the kind's selectable fields. What an object does not have is empty.
    pub fields: Vec<Text<'v>>,
}

impl<'v> Attributes<'v> {
    /// Bytes that are no object have no labels and empty fields.
    pub fn of(stored: &'v [u8], selectable: &SelectableFields) -> Self {
        let mut found = vec![None; selectable.paths.len()];
        let labels = read(stored, selectable, &mut found).unwrap_or_default();
        Self { labels, fields: found.into_iter().map(Option::unwrap_or_default).collect() }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(it, _)| (**it).cmp(key)).ok()?;
        Some(&self.labels[place].1)
    }

    /// The same, for whoever keeps it longer than the bytes.
    pub fn into_owned(self) -> Attributes<'static> {
        let owned = |text: Text<'v>| Cow::Owned(text.into_owned());
        Attributes {
            labels: self.labels.into_iter().map(|(key, value)| (owned(key), owned(value))).collect(),
            fields: self.fields.into_iter().map(owned).collect(),
        }
    }
}

fn read<'v>(
    stored: &'v [u8],
    selectable: &SelectableFields,
    found: &mut [Option<Text<'v>>],
) -> Result<Vec<(Text<'v>, Text<'v>)>, Malformed> {
    let mut labels = Vec::new();
    for piece in wire::pieces(stored) {
        match piece? {
            (METADATA, metadata) => read_labels(metadata, &mut labels)?,
            (SPEC, spec) => selectable.spec.pick(spec, found),
            (STATUS, status) => selectable.status.pick(status, found),
            _ => {}
        }
    }
    // As maps are read: the last one counts. Sorting keeps equal ones in their order.
    if !labels.is_sorted_by(|(a, _), (b, _)| a < b) {
        labels.sort_by(|(a, _): &(Text<'v>, Text<'v>), (b, _)| a.cmp(b));
        labels.reverse();
        labels.dedup_by(|(a, _), (b, _)| a == b);
        labels.reverse();
    }
    Ok(labels)
}

fn read_labels<'v>(metadata: &'v [u8], labels: &mut Vec<(Text<'v>, Text<'v>)>) -> Result<(), Malformed> {
    let text = |bytes: &'v [u8]| std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Malformed);
    for piece in wire::pieces(metadata) {
        let (LABELS, entry) = piece? else { continue };
        let (mut key, mut value) = (Text::default(), Text::default());
        for part in wire::pieces(entry) {
            match part? {
                (1, bytes) => key = text(bytes)?,
                (2, bytes) => value = text(bytes)?,
                _ => {}
            }
        }
        labels.push((key, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use prost::Message;
    use setpoint_api::setpoint::v1 as pb;

    use super::*;

    #[test]
    fn labels_and_selectable_fields_are_read_and_nothing_else() {
        let labels = BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
        let metadata = pb::Metadata {
            name: "web".into(),
            annotations: BTreeMap::from([("note".into(), "n".into())]),
            labels,
            ..Default::default()
        };
        let object = pb::Object {
            kind: "Replica".into(),
            metadata: Some(metadata),
            spec: Bytes::from_static(br#"{"nodeName":"n1","other":{}}"#),
            status: Bytes::from_static(br#"{"stage":"ready"}"#),
        };
        let fields = SelectableFields::new(["metadata.name", "status.stage", "spec.nodeName", "spec.none"]);
        let stored = Bytes::from(object.encode_to_vec());
        let read = Attributes::of(&stored, &fields);
        assert_eq!(read.labels, [("a".into(), "1".into()), ("b".into(), "2".into())]);
        assert_eq!(read.fields, ["ready", "n1", ""]);
        assert_eq!((read.label("b"), read.label("note")), (Some("2"), None));
        assert_eq!((fields.place("spec.nodeName"), fields.place("metadata.name")), (Some(1), None));
    }

    #[test]
    fn a_label_that_is_there_twice_has_its_last_value() {
        let entry = |value: u8| [0x5a, 6, 0x0a, 1, b'k', 0x12, 1, value];
        let metadata = [entry(b'1'), entry(b'2')].concat();
        let stored = [&[0x12, metadata.len() as u8][..], &metadata].concat();
        let read = Attributes::of(&stored, &SelectableFields::default());
        assert_eq!(read.labels, [("k".into(), "2".into())]);
    }

    #[test]
    fn bytes_that_are_no_object_have_no_labels() {
        let fields = SelectableFields::new(["spec.a"]);
        let read = Attributes::of(b"\x12\xff\xff", &fields);
        assert_eq!(read, Attributes { labels: vec![], fields: vec![Text::default()] });
    }
}
