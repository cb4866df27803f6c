//! Whether an apply would change nothing, as far as that can be told without the kind's schema.
//!
//! The server keeps what a manager applied as sorted paths (`.spec.size`, `.metadata.labels."example.com/tier"`). Which parts of an
//! object are one value and which are several, its schema decides; here it is read off the paths themselves: what is named as a
//! whole is one value. If the paths that follow are exactly the paths that are kept, then the schema cuts the object in the same
//! way, and an apply would find the same fields with the same values. In every other case the answer is no, and the server is
//! asked: that is never wrong.

use serde_json::Value;
use setpoint_types::Metadata;
use setpoint_types::object::{Object, WriteOperation, to_json};

/// Whether `seen` has what `wanted` says, and `manager` has applied just that.
pub fn is_applied(seen: &Object, wanted: &Object, manager: &str) -> bool {
    let (is, should) = (&seen.metadata, &wanted.metadata);
    let own = is.managed_fields.iter().find(|entry| {
        entry.manager == manager && entry.operation == WriteOperation::Apply && entry.subresource.is_empty()
    });
    let Some(own) = own else { return false };
    // What an object that was read once carries is a condition of its apply.
    let meant = (should.uid.is_empty() || should.uid == is.uid)
        && (should.revision.is_none() || should.revision == is.revision);
    let mut walk = Walk { own: &own.fields, found: Vec::new() };
    if !meant || !walk.metadata(is, should) || !walk.section(".spec", &seen.spec, &wanted.spec) {
        return false;
    }
    walk.found.sort_unstable();
    walk.found == own.fields
}

struct Walk<'a> {
    /// What the manager applied, sorted.
    own: &'a [String],
    /// What it would apply now.
    found: Vec<String>,
}

impl Walk<'_> {
    fn owns(&self, path: &str) -> bool {
        self.own.binary_search_by(|line| line.as_str().cmp(path)).is_ok()
    }

    fn leaf(&mut self, path: &str, same: bool) -> bool {
        self.found.push(path.to_owned());
        same
    }

    /// Of metadata the shape is known: maps of texts, a set, and owners told apart by their uid, each one value.
    fn metadata(&mut self, is: &Metadata, should: &Metadata) -> bool {
        let maps =
            [("labels", &is.labels, &should.labels), ("annotations", &is.annotations, &should.annotations)];
        for (name, is, should) in maps {
            for (key, value) in should {
                let path = format!(".metadata.{name}{}", field(key));
                if !self.leaf(&path, is.get(key) == Some(value)) {
                    return false;
                }
            }
        }
        for finalizer in &should.finalizers {
            let path = format!(".metadata.finalizers[{}]", to_json(finalizer));
            if !self.leaf(&path, is.finalizers.contains(finalizer)) {
                return false;
            }
        }
        for owner in &should.owners {
            let path = format!(".metadata.owners[uid={}]", to_json(&owner.uid));
            if !self.leaf(&path, is.owners.contains(owner)) {
                return false;
            }
        }
        true
    }

    /// An empty section says nothing.
    fn section(&mut self, path: &str, is: &Value, should: &Value) -> bool {
        match should {
            Value::Null => true,
            Value::Object(fields) if fields.is_empty() => true,
            _ => self.value(path, Some(is), should),
        }
    }

    fn value(&mut self, path: &str, is: Option<&Value>, should: &Value) -> bool {
        match should {
            // Null removes; whether there is something to remove, the server knows.
            Value::Null => false,
            _ if self.owns(path) => self.leaf(path, is == Some(should)),
            Value::Object(fields) if !fields.is_empty() => fields.iter().all(|(name, should)| {
                let is = is.and_then(|is| is.get(name));
                self.value(&format!("{path}{}", field(name)), is, should)
            }),
            Value::Array(members) if !members.is_empty() => members.iter().all(|member| {
                let has = is.and_then(Value::as_array).is_some_and(|is| is.contains(member));
                let is_plain = !member.is_object() && !member.is_array() && !member.is_null();
                let path = format!("{path}[{member}]");
                is_plain && self.owns(&path) && self.leaf(&path, has)
            }),
            _ => false,
        }
    }
}

/// A step into a field, as paths are written: plain names as they are, others as JSON.
fn field(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_plain) {
        format!(".{name}")
    } else {
        format!(".{}", to_json(&name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_types::object::{ManagedFields, OwnerReference};
    use setpoint_types::{Revision, Uid};

    use super::*;

    const PATHS: [&str; 8] = [
        ".metadata.finalizers[\"example.com/f\"]",
        ".metadata.labels.\"example.com/tier\"",
        ".metadata.owners[uid=\"o\"]",
        ".spec.args",
        ".spec.inner.size",
        ".spec.name",
        ".spec.zones[\"a\"]",
        ".spec.zones[\"b\"]",
    ];

    fn wanted() -> Object {
        let mut object = Object::new("Widget", "default", "w").with_spec(&json!({
            "name": "x", "inner": {"size": 3}, "args": ["-a", "-b"], "zones": ["b", "a"],
        }));
        object.metadata.labels.insert("example.com/tier".into(), "gold".into());
        object.metadata.finalizers.push("example.com/f".into());
        object.metadata.owners.push(OwnerReference { uid: Uid::new("o"), ..Default::default() });
        object
    }

    /// As the server has it after the apply, with what others wrote.
    fn seen() -> Object {
        let mut object = wanted();
        object.metadata.uid = Uid::new("u");
        object.metadata.revision = Revision::new(7);
        object.metadata.labels.insert("others".into(), "too".into());
        object.spec["zones"] = json!(["a", "b", "c"]);
        object.spec["default"] = json!(true);
        object.metadata.managed_fields = vec![ManagedFields {
            manager: "me".into(),
            operation: WriteOperation::Apply,
            fields: PATHS.map(str::to_owned).to_vec(),
            ..ManagedFields::default()
        }];
        object
    }

    #[test]
    fn what_was_applied_needs_no_request() {
        assert!(is_applied(&seen(), &wanted(), "me"));
    }

    #[test]
    fn whatever_could_change_something_is_asked_for() {
        let no =
            |what: &str, seen: Object, wanted: Object| assert!(!is_applied(&seen, &wanted, "me"), "{what}");
        let edit = |mut object: Object, edit: &dyn Fn(&mut Object)| {
            edit(&mut object);
            object
        };
        assert!(!is_applied(&seen(), &wanted(), "you"), "somebody else's");
        no("another value", edit(seen(), &|it| it.spec["inner"]["size"] = json!(4)), wanted());
        no("another list", edit(seen(), &|it| it.spec["args"] = json!(["-b", "-a"])), wanted());
        no("a member less", edit(seen(), &|it| it.spec["zones"] = json!(["a"])), wanted());
        no("a field more", seen(), edit(wanted(), &|it| it.spec["more"] = json!(1)));
        no("a field less", seen(), edit(wanted(), &|it| drop(it.spec["inner"].take())));
        no("a null", seen(), edit(wanted(), &|it| it.spec["gone"] = Value::Null));
        no("a list by key", seen(), edit(wanted(), &|it| it.spec["ports"] = json!([{"port": 80}])));
        no("a label less", seen(), edit(wanted(), &|it| it.metadata.labels.clear()));
        no("another label", edit(seen(), &|it| it.metadata.labels.clear()), wanted());
        no("an owner less", edit(seen(), &|it| it.metadata.owners.clear()), wanted());
        no("a finalizer less", edit(seen(), &|it| it.metadata.finalizers.clear()), wanted());
        no("another uid", seen(), edit(wanted(), &|it| it.metadata.uid = Uid::new("v")));
        no("another revision", seen(), edit(wanted(), &|it| it.metadata.revision = Revision::new(6)));
        no(
            "a path more",
            edit(seen(), &|it| it.metadata.managed_fields[0].fields.push(".spec.z".into())),
            wanted(),
        );
        no(
            "by update",
            edit(seen(), &|it| it.metadata.managed_fields[0].operation = WriteOperation::Update),
            wanted(),
        );
        no(
            "of the status",
            edit(seen(), &|it| it.metadata.managed_fields[0].subresource = "status".into()),
            wanted(),
        );
        no(
            "ownership dropped by the cache",
            edit(seen(), &|it| it.metadata.managed_fields.clear()),
            wanted(),
        );
    }
}
