//! A rule as it is decided by: parsed, and with where it counts and where it comes from.

use std::sync::Arc;

use super::pattern::{KindPattern, NamePatterns, PatternProblem};
use super::policy::Source;
use super::role::Rule;
use super::target::Target;
use super::verb::{UnknownVerb, Verb, VerbSet};

/// A rule that was understood.
#[derive(Clone, Debug)]
pub struct ParsedRule {
    pub verbs: VerbSet,
    pub kinds: Vec<KindPattern>,
    pub names: NamePatterns,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    #[error(transparent)]
    Verb(#[from] UnknownVerb),
    #[error(transparent)]
    Pattern(#[from] PatternProblem),
}

impl ParsedRule {
    pub fn parse(rule: &Rule) -> Result<Self, RuleProblem> {
        let kinds = rule.kinds.iter().map(|kind| KindPattern::parse(kind)).collect::<Result<_, _>>()?;
        Ok(Self { verbs: VerbSet::parse(&rule.verbs)?, kinds, names: NamePatterns::parse(&rule.names)? })
    }

    /// Whether it allows anything of this kind.
    pub fn concerns(&self, kind: &str) -> bool {
        self.kinds.iter().any(|own| own.concerns(kind))
    }

    fn allows(&self, verb: Verb, target: &Target<'_>) -> bool {
        self.verbs.contains(verb)
            && self.kinds.iter().any(|kind| kind.matches(target))
            && self.names.matches(target)
    }
}

/// Where a grant counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaces(Arc<[Box<str>]>),
}

impl Scope {
    /// These namespaces; everywhere, if there are none.
    pub fn of(namespaces: &[String]) -> Self {
        match namespaces {
            [] => Self::Cluster,
            some => Self::Namespaces(some.iter().map(|namespace| namespace.as_str().into()).collect()),
        }
    }

    pub fn contains(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::Cluster, _) => true,
            (Self::Namespaces(_), None) => false,
            (Self::Namespaces(own), Some(namespace)) => own.iter().any(|own| **own == *namespace),
        }
    }

    pub fn covers(&self, other: &Self) -> bool {
        match other {
            Self::Cluster => *self == Self::Cluster,
            Self::Namespaces(other) => other.iter().all(|namespace| self.contains(Some(namespace))),
        }
    }
}

/// One rule of one subject.
#[derive(Clone, Debug)]
pub struct Grant {
    pub rule: Arc<ParsedRule>,
    pub scope: Scope,
    pub source: Arc<Source>,
}

impl Grant {
    pub fn allows(&self, verb: Verb, target: &Target<'_>) -> bool {
        self.scope.contains(target.namespace) && self.rule.allows(verb, target)
    }

    /// Whether this grant alone allows all that a rule would, for one verb and kind.
    pub fn covers(&self, verb: Verb, kind: &KindPattern, names: &NamePatterns, scope: &Scope) -> bool {
        self.scope.covers(scope)
            && self.rule.verbs.contains(verb)
            && self.rule.kinds.iter().any(|own| own.covers(kind))
            && self.rule.names.covers(names)
    }
}
