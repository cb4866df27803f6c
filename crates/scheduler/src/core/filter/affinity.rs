//! Rules of nearness: where certain replicas are, or where none of them is.

use crate::core::class::AffinityRule;
use crate::core::cluster::Cluster;
use crate::core::cluster::topology::Domain;

/// Who there is anywhere of those a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    Nobody,
    /// Only such whose bind nobody has answered yet: the server may refuse it.
    Assumed,
    Sure,
}

impl Company {
    pub fn of(cluster: &Cluster, rule: &AffinityRule) -> Self {
        let tallies = cluster.tallies();
        match tallies.counts(rule.tally).is_empty() {
            true => Self::Nobody,
            false if tallies.has_sure(rule.tally) => Self::Sure,
            false => Self::Assumed,
        }
    }
}

/// A replica that wants to be near to its like may be the first of them anywhere; the next follow it before it is answered, for if it
/// is refused, one of them is the first. Otherwise it is near only to those who are there for sure: a node is for good, and the
/// server does not prove this rule.
pub fn is_broken(cluster: &Cluster, rule: &AffinityRule, company: Company, domain: Option<Domain>) -> bool {
    let Some(domain) = domain else { return !rule.is_apart };
    let tallies = cluster.tallies();
    match (rule.is_apart, company) {
        (true, _) => tallies.at(rule.tally, domain) > 0,
        (false, Company::Nobody) => !rule.includes_itself,
        (false, Company::Assumed) if rule.includes_itself => tallies.at(rule.tally, domain) == 0,
        (false, _) => tallies.sure_at(rule.tally, domain) == 0,
    }
}
