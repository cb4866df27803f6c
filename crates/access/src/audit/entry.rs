//! One line of the audit log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use setpoint_types::{Revision, Timestamp};

use crate::principal::Principal;
use crate::rbac::{Need, Verb};

/// Something that was done, or was not allowed to be.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    #[serde(serialize_with = "as_time")]
    pub time: Timestamp,
    #[serde(flatten, serialize_with = "as_who")]
    pub principal: Principal,
    /// None for a request of somebody who was not identified, which was not looked into.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_verb")]
    pub verb: Option<Verb>,
    /// With its part if it was about that alone: `Node/status`; without a verb, the method.
    #[serde(serialize_with = "cut")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty", serialize_with = "cut")]
    pub namespace: String,
    /// Of the object, or the key; empty for many at once.
    #[serde(skip_serializing_if = "String::is_empty", serialize_with = "cut")]
    pub name: String,
    /// What was run in a replica.
    #[serde(skip_serializing_if = "String::is_empty", serialize_with = "cut")]
    pub command: String,
    #[serde(flatten)]
    pub result: AuditResult,
    /// The operation id that the request carried.
    #[serde(skip_serializing_if = "String::is_empty", serialize_with = "cut")]
    pub operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SocketAddr>,
    #[serde(skip_serializing_if = "String::is_empty", serialize_with = "cut")]
    pub trace: String,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "camelCase")]
pub enum AuditResult {
    /// Written at a revision.
    Done {
        #[serde(serialize_with = "as_number")]
        revision: Revision,
    },
    /// Allowed, and begun: it lasts, and nothing is written by it.
    Begun,
    /// Allowed, but refused for a reason of the API: `Conflict`, `Fenced`, `Invalid`.
    Refused {
        #[serde(serialize_with = "cut")]
        reason: String,
    },
    /// Not allowed.
    Denied {
        #[serde(serialize_with = "cut")]
        reason: String,
    },
    /// Allowed, but nobody knows whether it was done: its client left, or it was not confirmed in time.
    Unknown {
        #[serde(serialize_with = "cut")]
        reason: String,
    },
}

impl AuditEntry {
    /// Without anything that a request need not have.
    pub fn new(time: Timestamp, principal: Principal, verb: Verb, kind: &str, result: AuditResult) -> Self {
        let none = String::new;
        Self {
            time,
            principal,
            verb: Some(verb),
            kind: kind.to_owned(),
            namespace: none(),
            name: none(),
            command: none(),
            result,
            operation: none(),
            source: None,
            trace: none(),
        }
    }

    /// About what a request needed.
    pub fn of(time: Timestamp, principal: Principal, need: &Need, result: AuditResult) -> Self {
        let (kind, namespace, name) = need.named();
        let entry = Self::new(time, principal, need.verb, &kind, result);
        Self { namespace, name, command: need.command().to_owned(), ..entry }
    }

    /// About a request of somebody who could not be identified, by its method.
    pub fn unidentified(time: Timestamp, method: &str, reason: String) -> Self {
        let result = AuditResult::Denied { reason };
        Self { verb: None, ..Self::new(time, Principal::anonymous(), Verb::Get, method, result) }
    }

    pub fn is_denial(&self) -> bool {
        matches!(self.result, AuditResult::Denied { .. })
    }

    /// The entry as a line, without its end. JSON has no line ends of its own, so an entry cannot look like two.
    pub fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// A client's text may be as long as a request; a line may not.
const TEXT_BYTES_MAX: usize = 1024;

fn cut<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.len() <= TEXT_BYTES_MAX {
        return serializer.serialize_str(text);
    }
    serializer.collect_str(&format_args!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]))
}

/// The last second that the format can hold.
const SECONDS_MAX: u64 = 253_402_300_799;

fn as_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let since = Duration::from_millis(at.0).min(Duration::from_secs(SECONDS_MAX));
    serializer.collect_str(&humantime::format_rfc3339_millis(UNIX_EPOCH + since))
}

fn as_verb<S: Serializer>(verb: &Option<Verb>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(verb.map_or("", Verb::as_str))
}

fn as_number<S: Serializer>(revision: &Revision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(revision.get())
}

/// `"principal":"user:jane","groups":["deployers"]`
fn as_who<S: Serializer>(principal: &Principal, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Who<'a> {
        principal: &'a str,
        groups: Groups<'a>,
    }
    Who { principal: principal.as_str(), groups: Groups(principal.groups()) }.serialize(serializer)
}

struct Groups<'a>(&'a [Arc<str>]);

impl Serialize for Groups<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for group in self.0 {
            list.serialize_element(&**group)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(entry: &AuditEntry) -> String {
        String::from_utf8(entry.line().expect("an entry is a line")).expect("JSON is text")
    }

    #[test]
    fn a_line_says_who_did_what_and_how_it_went() {
        let jane = Principal::new("jane", ["deployers"]).expect("a name");
        let done = AuditResult::Done { revision: Revision::new(42) };
        let mut entry = AuditEntry::new(Timestamp(1_700_000_000_123), jane, Verb::Apply, "Workload", done);
        entry.namespace = "shop".to_owned();
        entry.name = "web".to_owned();
        entry.operation = "op-1".to_owned();
        entry.source = Some(([127, 0, 0, 1], 4711).into());
        assert_eq!(
            text(&entry),
            r#"{"time":"2023-11-14T22:13:20.123Z","principal":"user:jane","groups":["deployers","setpoint:authenticated"],"verb":"apply","kind":"Workload","namespace":"shop","name":"web","result":"done","revision":42,"operation":"op-1","source":"127.0.0.1:4711"}"#
        );
        entry.result = AuditResult::Denied { reason: "no role".to_owned() };
        assert!(text(&entry).contains(r#""result":"denied","reason":"no role","operation""#));
        let exec = Need::exec("shop", "web-0", &["sh".to_owned(), "-c".to_owned(), "date -u".to_owned()]);
        let entry = AuditEntry::of(Timestamp(0), Principal::anonymous(), &exec, AuditResult::Begun);
        let ending = r#""verb":"create","kind":"Replica/exec","namespace":"shop","name":"web-0","command":"sh -c \"date -u\"","result":"begun"}"#;
        assert!(text(&entry).ends_with(ending), "{}", text(&entry));
    }

    #[test]
    fn an_entry_is_one_line_of_bounded_length_whatever_a_client_sends() {
        let denied = AuditResult::Denied { reason: "\n".repeat(5000) };
        let mut entry =
            AuditEntry::new(Timestamp(u64::MAX), Principal::anonymous(), Verb::Get, "é\n\u{1f}", denied);
        entry.name = "é".repeat(100_000);
        entry.trace = "\"}\r\n{".to_owned();
        let line = text(&entry);
        assert!(!line.contains(['\n', '\r']) && line.len() < 8 * TEXT_BYTES_MAX, "{}", line.len());
        let read: serde_json::Value = serde_json::from_str(&line).expect("one value");
        assert_eq!(read["trace"], "\"}\r\n{");
    }
}
