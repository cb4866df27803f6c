//! What a request is about, as roles see it.

use std::fmt;

use setpoint_types::KeyRange;

/// The kind of plain keys, which only etcd's services serve. Their names are the keys.
pub const KEYS: &str = "keys";
/// The kind of ledgers, which only transactions write.
pub const LEDGERS: &str = "ledgers";
/// The members of the cluster, and the upkeep of their data. Its names are operations: `compact`, `member-add`.
pub const CLUSTER: &str = "cluster";
/// Stands for every kind at once.
pub const EVERYTHING: &str = "*";

/// What of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it but what the other parts are about.
    #[default]
    Object,
    /// Only the status is written.
    Status,
    /// What a replica has written.
    Logs,
    /// Running commands in a replica. Nothing but its own name means it: neither `*` nor `Replica/*`.
    Exec,
}

const PARTS: [(Part, &str); 4] =
    [(Part::Object, ""), (Part::Status, "status"), (Part::Logs, "logs"), (Part::Exec, "exec")];

impl Part {
    pub fn all() -> impl Iterator<Item = Self> {
        PARTS.iter().map(|(part, _)| *part)
    }

    /// As it is written behind the kind: `status`. None if there is no such part.
    pub fn of(name: &str) -> Option<Self> {
        PARTS.iter().find(|(_, known)| !known.is_empty() && *known == name).map(|(part, _)| *part)
    }

    /// `/status`; nothing for the object.
    pub fn suffix(self) -> String {
        match PARTS[self as usize].1 {
            "" => String::new(),
            name => format!("/{name}"),
        }
    }
}

/// One object, many, or keys.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub kind: &'a str,
    pub part: Part,
    /// None for what belongs to the whole cluster, and for all namespaces at once: both need a grant for the whole
    /// cluster.
    pub namespace: Option<&'a str>,
    pub name: Name<'a>,
}

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// Any number of them, or one whose name is not known yet. Needs a grant that is not limited to names.
    Any,
    One(&'a str),
    /// Whichever: a grant of some is enough.
    Some,
    /// Of the kind [`KEYS`]. One grant must cover the whole range.
    Keys(&'a KeyRange),
}

impl<'a> Target<'a> {
    /// One object. An empty namespace is that of a kind of the whole cluster.
    pub fn object(kind: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { kind, part: Part::Object, namespace: some(namespace), name: Name::One(name) }
    }

    /// All objects of a kind, in one namespace or, if that is empty, in all of them.
    pub fn all(kind: &'a str, namespace: &'a str) -> Self {
        Self { kind, part: Part::Object, namespace: some(namespace), name: Name::Any }
    }

    pub fn ledger(name: &'a str) -> Self {
        Self { kind: LEDGERS, part: Part::Object, namespace: None, name: Name::One(name) }
    }

    pub fn keys(range: &'a KeyRange) -> Self {
        Self { kind: KEYS, part: Part::Object, namespace: None, name: Name::Keys(range) }
    }

    /// The same, but only this part.
    #[must_use]
    pub fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// As a phrase in a sentence. What a client sent is cut and escaped: it has no say in the form of our messages.
impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.part.suffix();
        if self.kind == EVERYTHING {
            write!(f, "every kind")?;
        } else {
            write!(f, "{}{part}", Brief(self.kind))?;
        }
        match self.name {
            Name::Any => {}
            Name::Some => write!(f, " of whatever name")?,
            Name::One(name) => write!(f, " {}", Brief(name))?,
            Name::Keys(range) => {
                let start = String::from_utf8_lossy(range.start());
                match range {
                    KeyRange::Single(_) => write!(f, " {}", Brief(&start))?,
                    KeyRange::Span { end, .. } => {
                        write!(f, " from {} to {}", Brief(&start), Brief(&String::from_utf8_lossy(end)))?;
                    }
                    KeyRange::From(_) => write!(f, " from {} on", Brief(&start))?,
                }
            }
        }
        match self.namespace {
            Some(namespace) => write!(f, " in namespace {}", Brief(namespace)),
            None => write!(f, " in the whole cluster"),
        }
    }
}

/// A client's text in our words: no control characters, and not much of it.
pub struct Brief<'a>(pub &'a str);

const BRIEF_LETTERS: usize = 80;

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = self.0.chars();
        for letter in letters.by_ref().take(BRIEF_LETTERS) {
            write!(f, "{}", letter.escape_debug())?;
        }
        if letters.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}
