//! One thing that a request needs to be allowed, with everything that is asked about it.
//!
//! Owned, unlike a [`Target`]: it outlives its request, into the audit log.

use bytes::Bytes;
use setpoint_types::{KeyRange, LeaseId};

use super::keys::{key_delete, key_put};
use super::target::{CLUSTER, KEYS, LEDGERS, Name, Part, Target};
use super::verb::Verb;

/// What commands are run in.
const REPLICA: &str = "Replica";

/// One thing that must be allowed. Those of one request are all needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub verb: Verb,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Keys(KeyRange),
    /// Keys of objects, to be written by an etcd service: nobody may.
    Reserved(KeyRange),
    /// An etcd lease, which has no key of its own and is of use only to whoever may do this to some keys.
    Lease(LeaseId),
    /// An operation on members or data, and what it is about.
    Cluster {
        operation: &'static str,
        detail: String,
    },
    /// No name: all of them, or one whose name is not known yet. No namespace: all of them, or a kind of the whole cluster.
    Objects {
        kind: String,
        part: Part,
        namespace: String,
        name: Option<String>,
    },
    /// A command in a replica.
    Exec {
        namespace: String,
        replica: String,
        command: String,
    },
}

impl Need {
    /// One object, or its status. Without a name it is one that is yet to be named.
    pub fn object(verb: Verb, kind: &str, status: bool, namespace: &str, name: &str) -> Self {
        let part = if status { Part::Status } else { Part::Object };
        Self::part(verb, kind, part, namespace, name)
    }

    /// A part of one object.
    pub fn part(verb: Verb, kind: &str, part: Part, namespace: &str, name: &str) -> Self {
        let (kind, namespace) = (kind.to_owned(), namespace.to_owned());
        let name = (!name.is_empty()).then(|| name.to_owned());
        Self { verb, what: What::Objects { kind, part, namespace, name } }
    }

    /// Running a command in a replica. The command is for the audit log; roles do not look at it.
    pub fn exec(namespace: &str, replica: &str, command: &[String]) -> Self {
        let (namespace, replica) = (namespace.to_owned(), replica.to_owned());
        let is_plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\');
        // Words with blanks are quoted, so that the line can be told apart again.
        let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
            true => word.clone(),
            false => format!("{word:?}"),
        };
        let command = command.iter().map(quoted).collect::<Vec<_>>().join(" ");
        Self { verb: Verb::Create, what: What::Exec { namespace, replica, command } }
    }

    /// All objects of a kind, in one namespace or, if that is empty, in all of them.
    pub fn all(verb: Verb, kind: &str, namespace: &str) -> Self {
        Self::object(verb, kind, false, namespace, "")
    }

    pub fn ledger(verb: Verb, name: &str) -> Self {
        Self::object(verb, LEDGERS, false, "", name)
    }

    /// An operation on the members of the cluster or the upkeep of their data, by its name.
    pub fn cluster(verb: Verb, operation: &'static str) -> Self {
        Self { verb, what: What::Cluster { operation, detail: String::new() } }
    }

    /// With what it is about, for the audit log; roles do not look at it.
    #[must_use]
    pub fn about(mut self, it: impl ToString) -> Self {
        if let What::Cluster { detail, .. } = &mut self.what {
            *detail = it.to_string();
        }
        self
    }

    /// Something with an etcd lease: allowed to whoever may do the same to some keys.
    pub fn lease(verb: Verb, lease: LeaseId) -> Self {
        Self { verb, what: What::Lease(lease) }
    }

    /// What an etcd Put of this key needs.
    pub fn put(key: Bytes) -> Self {
        let reserved = KeyRange::Single(key.clone());
        key_put(key).unwrap_or(Self { verb: Verb::Update, what: What::Reserved(reserved) })
    }

    /// What deleting these keys through an etcd service needs.
    pub fn delete_keys(range: KeyRange) -> Self {
        let reserved = range.clone();
        key_delete(range).unwrap_or(Self { verb: Verb::Delete, what: What::Reserved(reserved) })
    }

    /// What writing anywhere among these keys through an etcd service needs.
    pub fn put_within(range: KeyRange) -> Self {
        Self { verb: Verb::Update, ..Self::delete_keys(range) }
    }

    /// True if no role could allow it.
    pub fn is_reserved(&self) -> bool {
        matches!(self.what, What::Reserved(_))
    }

    pub fn target(&self) -> Target<'_> {
        match &self.what {
            What::Keys(range) | What::Reserved(range) => Target::keys(range),
            What::Lease(_) => Target { name: Name::Some, ..Target::all(KEYS, "") },
            What::Cluster { operation, .. } => {
                Target { name: Name::One(operation), ..Target::all(CLUSTER, "") }
            }
            What::Objects { kind, part, namespace, name } => Target {
                part: *part,
                name: name.as_deref().map_or(Name::Any, Name::One),
                ..Target::all(kind, namespace)
            },
            What::Exec { namespace, replica, .. } => Target {
                part: Part::Exec,
                name: if replica.is_empty() { Name::Any } else { Name::One(replica) },
                ..Target::all(REPLICA, namespace)
            },
        }
    }

    /// What the audit log calls it: kind, namespace, name.
    pub(crate) fn named(&self) -> (String, String, String) {
        let keys = |name: String| (KEYS.to_owned(), String::new(), name);
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        match &self.what {
            What::Lease(lease) => ("leases".to_owned(), String::new(), format!("{:x}", lease.0)),
            What::Cluster { operation, detail } => {
                (CLUSTER.to_owned(), String::new(), format!("{operation} {detail}").trim_end().to_owned())
            }
            What::Keys(range) | What::Reserved(range) => keys(match range {
                KeyRange::Single(key) => text(key),
                KeyRange::Span { start, end } => format!("[{}, {})", text(start), text(end)),
                KeyRange::From(start) => format!("[{}, …)", text(start)),
            }),
            What::Objects { kind, part, namespace, name } => {
                let kind = format!("{kind}{}", part.suffix());
                (kind, namespace.clone(), name.clone().unwrap_or_default())
            }
            What::Exec { namespace, replica, .. } => {
                (format!("{REPLICA}{}", Part::Exec.suffix()), namespace.clone(), replica.clone())
            }
        }
    }

    /// What the audit log adds to that.
    pub(crate) fn command(&self) -> &str {
        match &self.what {
            What::Exec { command, .. } => command,
            _ => "",
        }
    }
}
