//! Who a request comes from: a class, a name and groups, whatever the proof was.
//!
//! A name and its groups come from a certificate or a token; the class follows from the groups, so that both ways give
//! the same principal. Names are checked here, once, and are then safe in logs, keys and messages.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// May do everything, whatever the roles say: somebody has to write the first role.
pub const ADMINS: &str = "setpoint:admins";
/// Hosts. A member is of the class `node`.
pub const NODES: &str = "setpoint:nodes";
/// Controllers and schedulers. A member is of the class `controller`.
pub const CONTROLLERS: &str = "setpoint:controllers";
/// Everybody who has proved who they are. Given by the server only.
pub const AUTHENTICATED: &str = "setpoint:authenticated";
/// Everybody who has not. Given by the server only.
pub const UNAUTHENTICATED: &str = "setpoint:unauthenticated";

const RESERVED: &str = "setpoint:";
/// As for the names of objects, so that a principal can be named in one.
const NAME_BYTES_MAX: usize = 253;
/// A principal's decision looks at each group; a certificate could name thousands.
const GROUPS_MAX: usize = 64;

/// What sort of client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    User,
    Node,
    Controller,
    Anonymous,
}

/// Somebody, proved or not. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    class: Class,
    /// With its class: `user:jane`.
    full: Arc<str>,
    /// Sorted, without repetition.
    groups: Arc<[Arc<str>]>,
}

/// Why a name or group cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    #[error("the name is empty or longer than {NAME_BYTES_MAX} bytes")]
    NameLength,
    #[error("the name has characters other than letters, digits, ASCII punctuation and inner spaces")]
    NameCharacters,
    #[error("a group's name is empty or longer than {NAME_BYTES_MAX} bytes")]
    GroupLength,
    #[error("a group's name has characters other than letters, digits, ASCII punctuation and inner spaces")]
    GroupCharacters,
    #[error("more than {GROUPS_MAX} groups")]
    TooManyGroups,
    #[error("the group {0:?} is none that can be given: names that begin with {RESERVED:?} are reserved")]
    ReservedGroup(String),
    #[error("both {NODES} and {CONTROLLERS}: a principal is one of them at most")]
    TwoClasses,
}

impl Principal {
    /// Somebody who has proved to be `name`, in `groups`.
    pub fn new<'g>(name: &str, groups: impl IntoIterator<Item = &'g str>) -> Result<Self, NameProblem> {
        check(name, NameProblem::NameLength, NameProblem::NameCharacters)?;
        let mut given: Vec<Arc<str>> = Vec::new();
        for group in groups {
            check(group, NameProblem::GroupLength, NameProblem::GroupCharacters)?;
            if group.starts_with(RESERVED) && ![ADMINS, NODES, CONTROLLERS].contains(&group) {
                return Err(NameProblem::ReservedGroup(group.to_owned()));
            }
            if given.len() == GROUPS_MAX {
                return Err(NameProblem::TooManyGroups);
            }
            given.push(group.into());
        }
        let is_in = |wanted: &str| given.iter().any(|group| &**group == wanted);
        let class = match (is_in(NODES), is_in(CONTROLLERS)) {
            (true, true) => return Err(NameProblem::TwoClasses),
            (true, false) => Class::Node,
            (false, true) => Class::Controller,
            (false, false) => Class::User,
        };
        given.push(AUTHENTICATED.into());
        given.sort_unstable();
        given.dedup();
        Ok(Self { class, full: format!("{class}:{name}").into(), groups: given.into() })
    }

    /// Somebody who has shown nothing.
    pub fn anonymous() -> Self {
        // One for all: every request has a principal, also where nobody is asked who they are.
        static ANONYMOUS: LazyLock<Principal> = LazyLock::new(|| Principal {
            class: Class::Anonymous,
            full: "anonymous".into(),
            groups: Arc::new([UNAUTHENTICATED.into()]),
        });
        ANONYMOUS.clone()
    }

    pub fn class(&self) -> Class {
        self.class
    }

    /// `user:jane`, `node:a1`, `controller:autoscaler` or `anonymous`: as it is stored with what they write.
    pub fn as_str(&self) -> &str {
        &self.full
    }

    /// The same, shared.
    pub fn shared(&self) -> Arc<str> {
        self.full.clone()
    }

    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|given| &**given == group)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Node => "node",
            Self::Controller => "controller",
            Self::Anonymous => "anonymous",
        })
    }
}

/// Nothing that a terminal, a log or a reader could take for something else: no control characters, nothing invisible.
fn check(name: &str, length: NameProblem, characters: NameProblem) -> Result<(), NameProblem> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(length);
    }
    let fits = |letter: char| letter.is_alphanumeric() || letter.is_ascii_graphic() || letter == ' ';
    if name.starts_with(' ') || name.ends_with(' ') || !name.chars().all(fits) {
        return Err(characters);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_decide_the_class_and_everybody_proved_is_authenticated() {
        for (groups, full) in [
            (&["b", "a", "b"][..], "user:a1"),
            (&[NODES], "node:a1"),
            (&[CONTROLLERS, "x"], "controller:a1"),
            (&[ADMINS], "user:a1"),
        ] {
            let principal = Principal::new("a1", groups.iter().copied()).expect("names that fit");
            assert_eq!(principal.as_str(), full);
            assert!(principal.is_in(AUTHENTICATED) && groups.iter().all(|group| principal.is_in(group)));
            assert!(principal.groups().windows(2).all(|pair| pair[0] < pair[1]), "{:?}", principal.groups());
        }
        assert_eq!(Principal::anonymous().as_str(), "anonymous");
        assert!(!Principal::anonymous().is_in(AUTHENTICATED));
    }

    #[test]
    fn a_name_cannot_pretend_to_be_of_another_class() {
        let pretender = Principal::new("node:a1", []).expect("a name");
        let node = Principal::new("a1", [NODES]).expect("a name");
        assert_eq!(pretender.as_str(), "user:node:a1");
        assert_ne!(pretender.as_str(), node.as_str());
        assert_eq!(Principal::new("anonymous", []).expect("a name").as_str(), "user:anonymous");
    }

    #[test]
    fn names_that_could_mislead_are_refused() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", " a", "a ", "a\nb", "a\0", "\u{202e}evil", "a\u{200b}b", &long] {
            assert!(Principal::new(name, []).is_err(), "{name:?}");
            assert!(Principal::new("a", [name]).is_err(), "{name:?} as a group");
        }
        for group in [AUTHENTICATED, UNAUTHENTICATED, "setpoint:admin", "setpoint:"] {
            let refused = Principal::new("a", [group]);
            assert_eq!(refused, Err(NameProblem::ReservedGroup(group.to_owned())));
        }
        assert_eq!(Principal::new("a", [NODES, CONTROLLERS]), Err(NameProblem::TwoClasses));
        let many: Vec<String> = (0..=GROUPS_MAX).map(|number| number.to_string()).collect();
        assert_eq!(Principal::new("a", many.iter().map(String::as_str)), Err(NameProblem::TooManyGroups));
        assert!(Principal::new("Zoë O'Neil (ops)", ["team-ø"]).is_ok());
    }
}
