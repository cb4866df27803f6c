//! The status says what is to be said; what it says already is not written again.

use serde_json::Value;
use setpoint_client::{Api, Writable, WriteOptions};
use setpoint_types::Revision;

use super::apply::as_json;
use super::{Done, EnsureError, Ensured};

/// A part of a status that alone is no reason to write: `heartbeatMs`, `conditions[].lastTransitionMs`.
///
/// Fields are joined by dots, `[]` means every element of a list. A path that leads nowhere ignores nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ignored(pub &'static str);

/// Replaces the status of `seen` by that of `wanted`, if they differ in anything at all.
///
/// **What is compared**: both statuses as JSON, every field and every list in its order, times too; an absent field, null, and an
/// empty list or map are the same. Metadata and spec are not looked at. A time that moves by itself is therefore a change: keep
/// the old one where nothing happened (as [`crate::conditions::Conditions`] does), or name it with [`ensure_status_ignoring`].
///
/// **Guarantees**: no request if they are the same; the write is done only if the object is still at the revision of `seen`, so that
/// nobody's later word is lost ([`EnsureError::is_conflict`] otherwise). **Assumes** that `wanted` was made from `seen`.
/// **Does not promise** to keep fields that the type of a typed kind does not know.
pub async fn ensure_status<K: Writable>(
    api: &Api<K>,
    seen: &K::Object,
    wanted: K::Object,
) -> Result<Ensured<K::Object>, EnsureError> {
    ensure_status_ignoring(api, seen, wanted, &[]).await
}

/// The same, where differences in the parts that are named are no reason to write. If there is another one, all of it is written.
pub async fn ensure_status_ignoring<K: Writable>(
    api: &Api<K>,
    seen: &K::Object,
    mut wanted: K::Object,
    ignored: &[Ignored],
) -> Result<Ensured<K::Object>, EnsureError> {
    let before = as_json::<K>(api, seen)?;
    let after = as_json::<K>(api, &wanted)?;
    let metadata = &before.metadata;
    if metadata.uid.is_empty() || metadata.revision == Revision::NONE {
        let problem = "what is to be replaced was not read: it has neither uid nor revision";
        return Err(EnsureError::Senseless { object: before.key(), problem });
    }
    if visible(&before.status, ignored) == visible(&after.status, ignored) {
        return Ok(Ensured::unchanged(metadata.revision));
    }
    // Whatever the caller did to the metadata, it is this object at this revision that was decided about.
    K::metadata_mut(&mut wanted).clone_from(metadata);
    let written = api.update_status(&wanted, &WriteOptions::default()).await?;
    let done = if written.changed { Done::Changed } else { Done::Unchanged };
    Ok(Ensured { done, revision: written.revision, object: Some(written.object) })
}

/// A status without what is ignored, and without what says nothing.
fn visible(status: &Value, ignored: &[Ignored]) -> Value {
    let mut status = status.clone();
    for path in ignored {
        take(&mut status, path.0);
    }
    prune(&mut status);
    status
}

fn take(value: &mut Value, path: &str) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, each) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let Some(fields) = value.as_object_mut() else { return };
    match (each, rest) {
        (false, None) => drop(fields.remove(name)),
        (false, Some(rest)) => fields.get_mut(name).into_iter().for_each(|it| take(it, rest)),
        (true, rest) => {
            let elements = fields.get_mut(name).and_then(Value::as_array_mut);
            let elements = elements.into_iter().flatten();
            match rest {
                Some(rest) => elements.for_each(|it| take(it, rest)),
                None => elements.for_each(|it| *it = Value::Null),
            }
        }
    }
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, it| !says_nothing(it));
        }
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        _ => {}
    }
    if says_nothing(value) {
        *value = Value::Null;
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(before: Value, after: Value, ignored: &[Ignored], same: bool) {
        assert_eq!(visible(&before, ignored) == visible(&after, ignored), same, "{before} {after}");
    }

    #[test]
    fn everything_counts_but_what_says_nothing() {
        check(Value::Null, json!({"a": [], "b": {"c": null}}), &[], true);
        check(json!({"a": 0}), json!({}), &[], false);
        check(json!({"a": [1, 2]}), json!({"a": [2, 1]}), &[], false);
        check(json!({"atMs": 1}), json!({"atMs": 2}), &[], false);
    }

    #[test]
    fn only_what_is_named_is_ignored() {
        let heartbeat = [Ignored("health.seenMs")];
        check(json!({"health": {"seenMs": 1}}), json!({"health": {"seenMs": 2}}), &heartbeat, true);
        check(
            json!({"health": {"seenMs": 1, "ok": true}}),
            json!({"health": {"seenMs": 2}}),
            &heartbeat,
            false,
        );
        let times = [Ignored("conditions[].atMs")];
        let conditions = |at: u64, status: &str| json!({"conditions": [{"atMs": at, "status": status}]});
        check(conditions(1, "True"), conditions(2, "True"), &times, true);
        check(conditions(1, "True"), conditions(2, "False"), &times, false);
        check(json!({"a": [1]}), json!({"a": [2]}), &[Ignored("a[]")], true);
        check(json!({"a": [1]}), json!({"a": [2, 3]}), &[Ignored("a[]")], false);
        check(json!({"a": 1}), json!({"a": 2}), &[Ignored("b.c[].d"), Ignored("a.b")], false);
    }
}
