//! How the replicas fare that a version places, beside those that it does not. Pure.

use std::collections::BTreeMap;

use setpoint_types::kinds::{PlacementPolicySpec, PolicyScope, ReplicaSpec, ReplicaStatus, Stage};
use setpoint_types::{Revision, Uid};

/// Replicas in scope: those of the version, and those that are left to the versions before it. What a newer version takes tells nothing
/// about this one, and is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub ours: Share,
    pub rest: Share,
}

/// Some replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub total: u64,
    /// Without a node, and looked at since the activation.
    pub pending: u64,
    /// Without a node, and not looked at since then: nothing can be said about them.
    pub undetermined: u64,
}

impl Share {
    /// More than so much of it is pending.
    pub fn is_over(&self, percent: u32) -> bool {
        self.pending * 100 > self.total * u64::from(percent)
    }

    /// The same if all that cannot be told were pending.
    pub fn may_be_over(&self, percent: u32) -> bool {
        (self.pending + self.undetermined) * 100 > self.total * u64::from(percent)
    }

    /// A larger part of it is pending than of the other one.
    pub fn is_worse_than(&self, other: &Self) -> bool {
        self.pending * other.total > other.pending * self.total
    }
}

impl Census {
    /// Counts a replica, if it is in scope and no newer version that is in force takes it.
    pub fn count(
        &mut self,
        policy: &PlacementPolicySpec,
        newer: &[&PlacementPolicySpec],
        replica: &Seen<'_>,
        activation: Revision,
    ) {
        if !is_in_scope(&policy.scope, replica) {
            return;
        }
        let before_us: u32 =
            newer.iter().filter(|it| is_in_scope(&it.scope, replica)).map(|it| it.weight).sum();
        let drawn = policy.draw(replica.uid.as_str());
        if drawn < before_us {
            return;
        }
        let share = if drawn < before_us + policy.weight { &mut self.ours } else { &mut self.rest };
        share.total += 1;
        let status = replica.status;
        let stage = status.map(|status| status.stage).unwrap_or_default();
        if !matches!(stage, Stage::Admitted | Stage::Queued | Stage::Scheduled) {
            return;
        }
        let looked_at = status.and_then(|status| status.blocked.as_ref()).map(|blocked| blocked.revision);
        match looked_at.is_some_and(|revision| revision >= activation) {
            true => share.pending += 1,
            false => share.undetermined += 1,
        }
    }
}

/// A replica.
pub struct Seen<'a> {
    pub namespace: &'a str,
    pub uid: &'a Uid,
    pub labels: &'a BTreeMap<String, String>,
    pub spec: &'a ReplicaSpec,
    pub status: Option<&'a ReplicaStatus>,
}

/// Whether a policy is for a replica. Of zones it counts where the replica may be, as long as it is nowhere.
fn is_in_scope(scope: &PolicyScope, replica: &Seen<'_>) -> bool {
    let named = |names: &[String], name: &str| names.is_empty() || names.iter().any(|it| it == name);
    let template = &replica.spec.template;
    let zones = &template.placement.zones;
    let in_zones =
        scope.zones.is_empty() || zones.is_empty() || zones.iter().any(|zone| scope.zones.contains(zone));
    named(&scope.namespaces, replica.namespace)
        && scope.replicas.matches(replica.labels)
        && named(&scope.priority_classes, template.priority_class.as_deref().unwrap_or_default())
        && in_zones
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::Blocked;

    use super::*;

    fn count(
        census: &mut Census,
        policy: &PlacementPolicySpec,
        namespace: &str,
        stage: Stage,
        looked_at: Option<u64>,
    ) {
        let (spec, labels, uid) = (ReplicaSpec::default(), BTreeMap::new(), Uid::new("r"));
        let blocked =
            looked_at.map(|revision| Blocked { revision: Revision::new(revision), ..Blocked::default() });
        let status = ReplicaStatus { stage, blocked, ..ReplicaStatus::default() };
        let seen = Seen { namespace, uid: &uid, labels: &labels, spec: &spec, status: Some(&status) };
        census.count(policy, &[], &seen, Revision::new(10));
    }

    #[test]
    fn what_was_not_looked_at_since_the_activation_proves_nothing() {
        let scope = PolicyScope { namespaces: vec!["risk".into()], ..PolicyScope::default() };
        let policy = PlacementPolicySpec { weight: 100, scope, ..PlacementPolicySpec::default() };
        let mut census = Census::default();
        count(&mut census, &policy, "risk", Stage::Serving, None);
        count(&mut census, &policy, "risk", Stage::Queued, Some(9));
        count(&mut census, &policy, "risk", Stage::Queued, Some(10));
        count(&mut census, &policy, "risk", Stage::Admitted, None);
        count(&mut census, &policy, "other", Stage::Queued, Some(10));
        assert_eq!(census.ours, Share { total: 4, pending: 1, undetermined: 2 });
        assert_eq!(census.rest, Share::default());
        assert!(census.ours.is_over(24) && !census.ours.is_over(25) && census.ours.may_be_over(74));
    }

    #[test]
    fn what_a_newer_version_takes_is_not_held_against_this_one() {
        let of_weight = |weight| PlacementPolicySpec { weight, ..PlacementPolicySpec::default() };
        let (older, newer) = (of_weight(20), of_weight(50));
        let (spec, labels) = (ReplicaSpec::default(), BTreeMap::new());
        let blocked = Some(Blocked { revision: Revision::new(10), ..Blocked::default() });
        let mut census = Census::default();
        for number in 0..1_000 {
            let uid = Uid::new(format!("r{number}"));
            let stage = if newer.takes(&uid) { Stage::Queued } else { Stage::Serving };
            let status = ReplicaStatus { stage, blocked: blocked.clone(), ..ReplicaStatus::default() };
            let seen =
                Seen { namespace: "n", uid: &uid, labels: &labels, spec: &spec, status: Some(&status) };
            census.count(&older, &[&newer], &seen, Revision::new(10));
        }
        assert_eq!((census.ours.pending, census.rest.pending), (0, 0));
        let is_about = |share: Share, wanted: u64| share.total.abs_diff(wanted) < 50;
        assert!(is_about(census.ours, 200) && is_about(census.rest, 300), "{census:?}");
    }

    #[test]
    fn shares_are_compared_and_not_numbers() {
        let share = |total, pending| Share { total, pending, undetermined: 0 };
        assert!(share(10, 2).is_worse_than(&share(100, 10)));
        assert!(!share(10, 1).is_worse_than(&share(100, 10)));
    }
}
