//! Whose reservations are nobody's: pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use setpoint_types::Uid;

/// Owners whose reservations are given back in one run. The rest is found by the next look.
const OWNERS_MAX: usize = 64;

/// Everything the plan is made from, at one revision.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Bindings that are not released.
    pub holders: BTreeSet<Owner>,
    /// By ledger that does not say what bindings say: the owners of what is reserved there.
    pub reserved: BTreeMap<String, Vec<String>>,
}

/// `{namespace}/{binding}/{uid of the binding}`: what reservations of a binding are under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Owner {
    pub namespace: String,
    pub binding: String,
    pub uid: String,
}

impl Owner {
    pub fn of(namespace: &str, binding: &str, uid: &Uid) -> Self {
        Self { namespace: namespace.to_owned(), binding: binding.to_owned(), uid: uid.as_str().to_owned() }
    }

    /// None for what is under another name: that is somebody else's, and stays.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (namespace, binding, uid) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && ![namespace, binding, uid].contains(&"");
        is_whole.then(|| Self::of(namespace, binding, &Uid::new(uid)))
    }

    pub fn text(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.binding, self.uid)
    }
}

/// What is to be given back, if the server agrees that the binding is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// By owner: the ledgers.
    pub give_back: Vec<(Owner, Vec<String>)>,
}

pub fn plan(observed: &Observed) -> Plan {
    let mut leaked: BTreeMap<Owner, Vec<String>> = BTreeMap::new();
    for (ledger, owners) in &observed.reserved {
        for owner in owners.iter().filter_map(|it| Owner::parse(it)) {
            if !observed.holders.contains(&owner) {
                leaked.entry(owner).or_default().push(ledger.clone());
            }
        }
    }
    Plan { give_back: leaked.into_iter().take(OWNERS_MAX).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(holders: &[&str], reserved: &[(&str, &[&str])]) -> Observed {
        let owners = |owners: &[&str]| owners.iter().map(|it| (*it).to_owned()).collect();
        Observed {
            holders: holders.iter().filter_map(|it| Owner::parse(it)).collect(),
            reserved: reserved.iter().map(|(ledger, it)| ((*ledger).to_owned(), owners(it))).collect(),
        }
    }

    #[test]
    fn what_no_binding_has_reserved_is_given_back_in_all_its_ledgers() {
        let seen = observed(
            &["d/web-0/u1"],
            &[("node/a", &["d/web-0/u1", "d/web-1/u2"]), ("quota/d", &["d/web-0/u1", "d/web-1/u2"])],
        );
        let leaked = Owner::of("d", "web-1", &Uid::new("u2"));
        let ledgers = vec!["node/a".to_owned(), "quota/d".to_owned()];
        assert_eq!(plan(&seen).give_back, [(leaked, ledgers)]);
    }

    #[test]
    fn a_later_binding_of_the_name_does_not_cover_for_an_earlier_one() {
        let seen = observed(&["d/web-0/new"], &[("node/a", &["d/web-0/new", "d/web-0/old"])]);
        let given: Vec<String> = plan(&seen).give_back.iter().map(|(owner, _)| owner.text()).collect();
        assert_eq!(given, ["d/web-0/old"]);
    }

    #[test]
    fn what_is_not_a_bindings_stays() {
        let seen = observed(&[], &[("quota/d", &["somebody", "a/b", "a/b/c/d", "//"])]);
        assert_eq!(plan(&seen), Plan::default());
    }

    #[test]
    fn a_run_gives_back_a_bounded_number() {
        let owners: Vec<String> = (0..OWNERS_MAX + 9).map(|it| format!("d/web-{it}/u")).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        assert_eq!(plan(&observed(&[], &[("quota/d", &owners)])).give_back.len(), OWNERS_MAX);
    }
}
