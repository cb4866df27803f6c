//! Kinds and names as rules write them, with `*`.

use bytes::Bytes;
use setpoint_types::KeyRange;

use super::target::{KEYS, Name, Part, Target};

/// Which kinds, and which part of their objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindPattern {
    /// None for every kind.
    kind: Option<Box<str>>,
    /// By the number of the part.
    parts: [bool; 4],
}

/// Everything but what has to be named: commands are not run by way of a star.
const ALL_BUT_EXEC: [bool; 4] = [true, true, true, false];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    #[error(
        "{0:?} is no kind: write `Workload`, `Workload/status`, `Replica/logs`, `Replica/exec`, `Workload/*`, `*/status` or `*`"
    )]
    Kind(String),
    #[error("{0:?} is no name: `*` may only stand at its end")]
    Name(String),
}

impl KindPattern {
    pub fn parse(text: &str) -> Result<Self, PatternProblem> {
        let (kind, part) = text.split_once('/').map_or((text, None), |(kind, part)| (kind, Some(part)));
        let only = |one: Part| [0, 1, 2, 3].map(|part| part == one as usize);
        let parts = match part {
            // Every kind means everything; one kind means what its other writers do not mind.
            None if kind == "*" => ALL_BUT_EXEC,
            None => only(Part::Object),
            Some("*") => ALL_BUT_EXEC,
            Some(part) => only(Part::of(part).ok_or_else(|| PatternProblem::Kind(text.to_owned()))?),
        };
        match kind {
            "*" => Ok(Self { kind: None, parts }),
            "" => Err(PatternProblem::Kind(text.to_owned())),
            _ if kind.contains('*') => Err(PatternProblem::Kind(text.to_owned())),
            _ => Ok(Self { kind: Some(kind.into()), parts }),
        }
    }

    pub fn matches(&self, target: &Target<'_>) -> bool {
        self.parts[target.part as usize] && self.kind.as_deref().is_none_or(|kind| kind == target.kind)
    }

    /// Whether it is about this kind, in whatever part.
    pub fn concerns(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|own| own == kind)
    }

    /// Whether everything that `other` matches is matched by this one.
    pub fn covers(&self, other: &Self) -> bool {
        let parts = self.parts.iter().zip(&other.parts).all(|(own, other)| *own || !other);
        parts && (self.kind.is_none() || self.kind == other.kind)
    }
}

/// Which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    Exact(Box<str>),
    /// All that begin so.
    Prefix(Box<str>),
}

impl NamePattern {
    pub fn parse(text: &str) -> Result<Self, PatternProblem> {
        match text.split_once('*') {
            None if text.is_empty() => Err(PatternProblem::Name(text.to_owned())),
            None => Ok(Self::Exact(text.into())),
            Some((start, "")) => Ok(Self::Prefix(start.into())),
            Some(_) => Err(PatternProblem::Name(text.to_owned())),
        }
    }

    fn matches(&self, name: &Name<'_>) -> bool {
        match (self, name) {
            (_, Name::Some) => true,
            (Self::Exact(own), Name::One(name)) => **own == **name,
            (Self::Prefix(start), Name::One(name)) => name.starts_with(&**start),
            (Self::Prefix(start), Name::Any) => start.is_empty(),
            (Self::Exact(_), Name::Any) => false,
            (Self::Exact(own), Name::Keys(KeyRange::Single(key))) => own.as_bytes() == &key[..],
            (Self::Exact(_), Name::Keys(_)) => false,
            (Self::Prefix(start), Name::Keys(range)) => lies_below(range, start.as_bytes()),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(own), Self::Exact(other)) => own == other,
            (Self::Exact(_), Self::Prefix(_)) => false,
            (Self::Prefix(own), Self::Exact(other) | Self::Prefix(other)) => other.starts_with(&**own),
        }
    }
}

/// The names of a rule; an empty list is all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePatterns(Vec<NamePattern>);

impl NamePatterns {
    pub fn parse(texts: &[String]) -> Result<Self, PatternProblem> {
        texts.iter().map(|text| NamePattern::parse(text)).collect::<Result<_, _>>().map(Self)
    }

    pub fn matches(&self, target: &Target<'_>) -> bool {
        // A range of keys makes sense for keys only, whatever the caller says.
        if matches!(target.name, Name::Keys(_)) && target.kind != KEYS {
            return false;
        }
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(&target.name))
    }

    pub fn covers(&self, other: &Self) -> bool {
        let covered = |other: &NamePattern| self.0.iter().any(|own| own.covers(other));
        let all = NamePattern::Prefix("".into());
        self.0.is_empty() || if other.0.is_empty() { covered(&all) } else { other.0.iter().all(covered) }
    }
}

/// Whether every key of the range begins with `prefix`.
pub fn lies_below(range: &KeyRange, prefix: &[u8]) -> bool {
    if range.is_empty() {
        // Nothing is asked for; but a client that asks for nothing outside of its keys is told so all the same.
        return range.start().starts_with(prefix);
    }
    match (range.end(), after(prefix)) {
        _ if !range.start().starts_with(prefix) => false,
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(end), Some(after)) => end <= after,
    }
}

/// The first key past all that begin with `prefix`; none if there is none.
pub fn after(prefix: &[u8]) -> Option<Bytes> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = prefix[..=kept].to_vec();
    next[kept] += 1;
    Some(next.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: &'static [u8], end: &'static [u8]) -> KeyRange {
        KeyRange::from_wire(Bytes::from_static(start), Bytes::from_static(end))
    }

    #[test]
    fn a_range_lies_below_a_prefix_if_no_key_of_it_does_not() {
        for (range, prefix, expected) in [
            (span(b"/a/x", b""), &b"/a/"[..], true),
            (span(b"/a/", b"/a0"), b"/a/", true),
            (span(b"/a/", b"/a1"), b"/a/", false),
            (span(b"/a/", b"\0"), b"/a/", false),
            (span(b"/a", b"/a0"), b"/a/", false),
            (span(b"", b"\0"), b"", true),
            (span(b"\xff\xffa", b"\0"), b"\xff\xff", true),
            (span(b"b", b"a"), b"a", false),
            (span(b"ab", b"a"), b"a", true),
        ] {
            assert_eq!(lies_below(&range, prefix), expected, "{range:?} below {prefix:?}");
        }
    }

    #[test]
    fn commands_are_run_only_by_whoever_was_given_just_that() {
        let exec = Target::object("Replica", "shop", "web-0").part(Part::Exec);
        let logs = Target::object("Replica", "shop", "web-0").part(Part::Logs);
        for (pattern, runs, reads) in [
            ("*", false, true),
            ("Replica", false, false),
            ("Replica/*", false, true),
            ("*/*", false, true),
            ("Replica/status", false, false),
            ("Replica/logs", false, true),
            ("Replica/exec", true, false),
            ("*/exec", true, false),
            ("Workload/exec", false, false),
        ] {
            let parsed = KindPattern::parse(pattern).expect("a pattern");
            assert_eq!((parsed.matches(&exec), parsed.matches(&logs)), (runs, reads), "{pattern}");
            let named = KindPattern::parse("Replica/exec").expect("a pattern");
            assert_eq!(parsed.covers(&named), runs, "{pattern} gives it away");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for kind in ["", "/status", "Work*", "Workload/scale", "Workload/", "*/*/x"] {
            assert!(KindPattern::parse(kind).is_err(), "{kind:?}");
        }
        for name in ["", "a*b", "**", "*a"] {
            assert!(NamePattern::parse(name).is_err(), "{name:?}");
        }
    }
}
