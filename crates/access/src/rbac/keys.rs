//! What etcd's requests need, so that they obey the same roles.
//!
//! A key outside of `/setpoint.` is of the kind `keys`, by its own name. What lies below belongs to objects: reading it
//! needs what reading the objects would, and etcd's services never write it, whoever asks. A range that is not below one
//! kind needs every kind: what is not told apart is not given away.

use bytes::Bytes;
use setpoint_types::KeyRange;

use super::need::{Need, What};
use super::pattern::{after, lies_below};
use super::target::{EVERYTHING, LEDGERS, Part};
use super::verb::Verb;

/// Everything that the object API keeps (docs/adr/0007).
const RESERVED: &[u8] = b"/setpoint.";
const OBJECTS: &[u8] = b"/setpoint.v1/";
const LEDGER_KEYS: &[u8] = b"/setpoint.ledger/";
/// Of lease objects; below them come namespace and name.
const OF_LEASES: [&[u8]; 2] = [b"/setpoint.epoch/", b"/setpoint.hold/"];
const LEASE: &str = "Lease";

/// A write below `/setpoint.` through an etcd service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys below /setpoint. belong to objects and are written through the object API only")]
pub struct ReservedKeys;

/// What a Range needs: `get` for one key, `list` for more.
pub fn key_read(range: &KeyRange) -> Vec<Need> {
    let verb = if matches!(range, KeyRange::Single(_)) { Verb::Get } else { Verb::List };
    reading(verb, range)
}

/// What a watch needs.
pub fn key_watch(range: &KeyRange) -> Vec<Need> {
    reading(Verb::Watch, range)
}

/// What a Put needs: `update`, whether the key exists or not. If it asks for the previous value, also [`key_read`].
pub fn key_put(key: Bytes) -> Result<Need, ReservedKeys> {
    writing(Verb::Update, KeyRange::Single(key))
}

/// What a DeleteRange needs. If it asks for the previous values, also [`key_read`].
pub fn key_delete(range: KeyRange) -> Result<Need, ReservedKeys> {
    writing(Verb::Delete, range)
}

fn writing(verb: Verb, range: KeyRange) -> Result<Need, ReservedKeys> {
    match within(&range, RESERVED) {
        Some(_) => Err(ReservedKeys),
        None => Ok(Need { verb, what: What::Keys(range) }),
    }
}

fn reading(verb: Verb, range: &KeyRange) -> Vec<Need> {
    let Some(reserved) = within(range, RESERVED) else {
        return vec![Need { verb, what: What::Keys(range.clone()) }];
    };
    let mut needs = vec![Need { verb, what: objects(&reserved) }];
    let end = after(RESERVED).unwrap_or_default();
    if range.start() < RESERVED {
        let before = Bytes::from_static(RESERVED);
        let start = Bytes::copy_from_slice(range.start());
        needs.push(Need { verb, what: What::Keys(KeyRange::Span { start, end: before }) });
    }
    match range.end() {
        None => needs.push(Need { verb, what: What::Keys(KeyRange::From(end)) }),
        Some(last) if last > end => {
            needs.push(Need { verb, what: What::Keys(KeyRange::Span { start: end, end: last }) });
        }
        Some(_) => {}
    }
    needs
}

/// The part of a range below a prefix, if there is any.
fn within(range: &KeyRange, prefix: &[u8]) -> Option<KeyRange> {
    if let KeyRange::Single(key) = range {
        return key.starts_with(prefix).then(|| range.clone());
    }
    let start = Bytes::copy_from_slice(range.start().max(prefix));
    let part = match (range.end(), after(prefix)) {
        (Some(end), Some(last)) => KeyRange::Span { start, end: end.min(last) },
        (Some(end), None) | (None, Some(end)) => KeyRange::Span { start, end },
        (None, None) => KeyRange::From(start),
    };
    (!range.is_empty() && !part.is_empty()).then_some(part)
}

/// The objects that a range below `/setpoint.` is about.
fn objects(range: &KeyRange) -> What {
    let below = |prefix: &[u8]| lies_below(range, prefix);
    let found = if below(OBJECTS) {
        kind_of(range)
    } else if below(LEDGER_KEYS) {
        ledger_of(range)
    } else {
        let prefix = OF_LEASES.iter().find(|prefix| below(prefix));
        prefix.and_then(|prefix| some_of(LEASE, range, prefix.len()))
    };
    found.unwrap_or_else(|| all(EVERYTHING))
}

/// `/setpoint.v1/KIND/…`
fn kind_of(range: &KeyRange) -> Option<What> {
    let (kind, length) = segment(range, OBJECTS.len())?;
    let kind = kind.to_owned();
    some_of(&kind, range, length)
}

/// `…NAMESPACE/NAME`, where `at` bytes come before.
fn some_of(kind: &str, range: &KeyRange, at: usize) -> Option<What> {
    let Some((namespace, at)) = segment(range, at) else { return Some(all(kind)) };
    let (kind, namespace) = (kind.to_owned(), namespace.to_owned());
    let name = match range {
        KeyRange::Single(key) => Some(std::str::from_utf8(&key[at..]).ok()?.to_owned()),
        _ => None,
    };
    Some(What::Objects { kind, part: Part::Object, namespace, name })
}

/// `/setpoint.ledger/NAME` or `/setpoint.ledger/NAME/OWNER`. A name that is escaped in its key needs all of them.
fn ledger_of(range: &KeyRange) -> Option<What> {
    let name = match (segment(range, LEDGER_KEYS.len()), range) {
        (Some((name, _)), _) => name,
        (None, KeyRange::Single(key)) => std::str::from_utf8(&key[LEDGER_KEYS.len()..]).ok()?,
        (None, _) => return Some(all(LEDGERS)),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    let name = name.bytes().all(plain).then(|| name.to_owned());
    Some(What::Objects { kind: LEDGERS.to_owned(), part: Part::Object, namespace: String::new(), name })
}

fn all(kind: &str) -> What {
    What::Objects { kind: kind.to_owned(), part: Part::Object, namespace: String::new(), name: None }
}

/// The text between position `at` and the next slash, and the position behind it, if the whole range has both.
fn segment(range: &KeyRange, at: usize) -> Option<(&str, usize)> {
    let start = range.start();
    let length = start.get(at..)?.iter().position(|byte| *byte == b'/')?;
    let behind = at + length + 1;
    let text = std::str::from_utf8(&start[at..at + length]).ok()?;
    lies_below(range, &start[..behind]).then_some((text, behind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(key: &str, end: &str) -> KeyRange {
        KeyRange::from_wire(Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(end.as_bytes()))
    }

    /// As sentences, which is also how a denied client reads them.
    fn needs(key: &str, end: &str) -> Vec<String> {
        key_read(&range(key, end)).iter().map(|need| format!("{} {}", need.verb, need.target())).collect()
    }

    #[test]
    fn reading_keys_of_objects_needs_what_reading_the_objects_would() {
        let cluster = "in the whole cluster";
        for (key, end, expected) in [
            ("/setpoint.v1/Workload/shop/web", "", "get Workload web in namespace shop".to_owned()),
            ("/setpoint.v1/Node//a1", "", format!("get Node a1 {cluster}")),
            (
                "/setpoint.v1/Workload/shop/",
                "/setpoint.v1/Workload/shop0",
                "list Workload in namespace shop".to_owned(),
            ),
            (
                "/setpoint.v1/Workload/shop/we",
                "/setpoint.v1/Workload/shop/wf",
                "list Workload in namespace shop".to_owned(),
            ),
            ("/setpoint.v1/Workload/", "/setpoint.v1/Workload0", format!("list Workload {cluster}")),
            ("/setpoint.v1/Workload/a/", "/setpoint.v1/Workload/c/", format!("list Workload {cluster}")),
            ("/setpoint.v1/W", "/setpoint.v1/X", format!("list every kind {cluster}")),
            ("/setpoint.v1/", "/setpoint.v10", format!("list every kind {cluster}")),
            ("/setpoint.", "/setpoint/", format!("list every kind {cluster}")),
            ("/setpoint.new/x", "", format!("get every kind {cluster}")),
            ("/setpoint.v1/Workload", "", format!("get every kind {cluster}")),
            ("/setpoint.ledger/node:a1", "", format!("get ledgers node:a1 {cluster}")),
            ("/setpoint.ledger/node:a1/web", "", format!("get ledgers node:a1 {cluster}")),
            ("/setpoint.ledger/n1/", "/setpoint.ledger/n10", format!("list ledgers n1 {cluster}")),
            ("/setpoint.ledger/n", "/setpoint.ledger/o", format!("list ledgers {cluster}")),
            ("/setpoint.ledger/a%2fb", "", format!("get ledgers {cluster}")),
            ("/setpoint.hold/shop/leader", "", "get Lease leader in namespace shop".to_owned()),
            ("/setpoint.epoch/shop/", "/setpoint.epoch/shop0", "list Lease in namespace shop".to_owned()),
            ("/registry/x", "", format!("get keys /registry/x {cluster}")),
        ] {
            assert_eq!(needs(key, end), [expected], "{key} to {end}");
        }
    }

    #[test]
    fn a_range_across_the_border_needs_both_sides() {
        assert_eq!(
            needs("\0", "\0"),
            [
                "list every kind in the whole cluster",
                "list keys from \\0 to /setpoint. in the whole cluster",
                "list keys from /setpoint/ on in the whole cluster",
            ]
        );
        assert_eq!(needs("a", "b"), ["list keys from a to b in the whole cluster"]);
        assert_eq!(needs("b", "a"), ["list keys from b to a in the whole cluster"]);
    }

    fn any_key() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("/setpoint."),
            Just("v1/"),
            Just("Workload"),
            Just("/"),
            Just("shop"),
            Just("0"),
            Just("a"),
            Just("ledger/")
        ];
        proptest::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// INVARIANT A3: no write of etcd's services reaches a key of an object.
        #[test]
        fn a_write_that_touches_a_reserved_key_is_refused(start in any_key(), end in any_key(), inside in any_key()) {
            let written = range(&start, &end);
            let reserved = format!("/setpoint.{inside}");
            let touches = written.contains(reserved.as_bytes());
            if touches {
                prop_assert_eq!(key_delete(written.clone()), Err(ReservedKeys));
            }
            prop_assert_eq!(key_put(Bytes::from(start.clone())).is_err(), start.starts_with("/setpoint."));
        }

        /// Whatever a range contains, its needs speak of it: no key slips through between two of them.
        #[test]
        fn the_needs_of_a_read_cover_every_key_of_it(start in any_key(), end in any_key(), key in any_key()) {
            let read = range(&start, &end);
            if !read.contains(key.as_bytes()) {
                return Ok(());
            }
            let needs = key_watch(&read);
            let own = key_watch(&KeyRange::Single(Bytes::from(key.clone())));
            let [own] = &own[..] else { return Err(TestCaseError::fail("one key, one need")) };
            let covered = needs.iter().any(|need| match (&need.what, &own.what) {
                (What::Keys(range), What::Keys(_)) => range.contains(key.as_bytes()),
                (
                    What::Objects { kind, namespace, name, .. },
                    What::Objects { kind: k, namespace: n, name: m, .. },
                ) => {
                    (kind == EVERYTHING || kind == k)
                        && (namespace.is_empty() || namespace == n)
                        && (name.is_none() || name == m)
                }
                _ => false,
            });
            prop_assert!(covered, "{needs:?} for {key}");
        }
    }
}
