//! Whether a version may be given more weight: has everybody seen it, is what is known new enough, and do its replicas fare no worse. Pure.
//!
//! What cannot be told is not a yes. It is not a no either: nothing is rolled back because somebody was not heard.

use std::time::Duration;

use setpoint_types::Revision;
use setpoint_types::kinds::PolicyGate;

use super::census::Census;

/// What a holder of one of a component's leases has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Whose lease: `scheduler.shard-0-of-1`.
    pub lease: String,
    /// The kind it is behind most with, and how far it has come there; none if it tells of nothing.
    pub slowest: Option<(String, Revision)>,
    /// How long ago it was heard; none if that is not known.
    pub age: Option<Duration>,
}

/// A component that has to have seen the activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: String,
    pub witnesses: Vec<Witness>,
}

/// What a gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// It cannot be told: one word, and a sentence.
    Inconclusive(&'static str, String),
    /// Its replicas fare worse.
    Failed(String),
}

/// Judges. `own` is how far our own view of replicas has come.
pub fn judge(
    gate: &PolicyGate,
    activation: Revision,
    components: &[Component],
    census: &Census,
    own: Revision,
) -> Verdict {
    let freshness = components.iter().find_map(|component| freshness(gate, activation, component));
    if let Some((reason, why)) = freshness {
        return Verdict::Inconclusive(reason, why);
    }
    if own < activation {
        let why = format!("replicas were seen up to revision {own}, and the activation is at {activation}");
        return Verdict::Inconclusive("OwnViewBehind", why);
    }
    let (ours, rest, most) = (&census.ours, &census.rest, gate.max_pending_percent);
    if ours.total == 0 {
        let why = "no replica is placed by it yet".to_owned();
        return Verdict::Inconclusive("NoReplicas", why);
    }
    let told = format!(
        "{} of its {} replicas are pending, {} of the other {}",
        ours.pending, ours.total, rest.pending, rest.total
    );
    if ours.is_over(most) {
        // Where all are pending alike, it is not the version's doing.
        return match rest.total == 0 || ours.is_worse_than(rest) {
            true => Verdict::Failed(told),
            false => Verdict::Inconclusive("AllPending", told),
        };
    }
    if ours.may_be_over(most) {
        let why = format!("{} of its replicas were not looked at since the activation", ours.undetermined);
        return Verdict::Inconclusive("NotEvaluated", why);
    }
    Verdict::Good
}

/// What is missing of a component, if anything is.
fn freshness(
    gate: &PolicyGate,
    activation: Revision,
    component: &Component,
) -> Option<(&'static str, String)> {
    let name = &component.name;
    if component.witnesses.is_empty() {
        return Some(("ComponentMissing", format!("nobody holds a lease of {name}")));
    }
    let age_max = Duration::from_secs(gate.signal_max_age_seconds.into());
    for witness in &component.witnesses {
        let lease = &witness.lease;
        let Some((kind, revision)) = &witness.slowest else {
            return Some(("NotReported", format!("{lease} does not tell what it has seen")));
        };
        if witness.age.is_none_or(|age| age > age_max) {
            let limit = age_max.as_secs();
            return Some(("SignalTooOld", format!("nothing was heard of {lease} for more than {limit} s")));
        }
        if *revision < activation {
            let why = format!("{lease} has yet to see {kind} up to revision {activation}");
            return Some(("NotObserved", why));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::census::Share;
    use super::*;

    fn component(slowest: Option<(&str, u64)>, age: u64) -> Component {
        let slowest = slowest.map(|(kind, revision)| (kind.to_owned(), Revision::new(revision)));
        let witness = Witness {
            lease: "scheduler.shard-0-of-1".to_owned(),
            slowest,
            age: Some(Duration::from_secs(age)),
        };
        Component { name: "scheduler".to_owned(), witnesses: vec![witness] }
    }

    fn census(ours: (u64, u64, u64), rest: (u64, u64)) -> Census {
        Census {
            ours: Share { total: ours.0, pending: ours.1, undetermined: ours.2 },
            rest: Share { total: rest.0, pending: rest.1, undetermined: 0 },
        }
    }

    fn check(component: Component, census: Census, own: u64, expected: &str) {
        let gate = PolicyGate::default();
        let found = match judge(&gate, Revision::new(100), &[component], &census, Revision::new(own)) {
            Verdict::Good => "good".to_owned(),
            Verdict::Inconclusive(reason, _) => reason.to_owned(),
            Verdict::Failed(_) => "failed".to_owned(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn everybody_has_to_have_seen_it_and_to_have_said_so_lately() {
        let well = || census((20, 0, 0), (80, 0));
        check(component(Some(("Node", 100)), 5), well(), 100, "good");
        check(component(Some(("Node", 99)), 5), well(), 100, "NotObserved");
        check(component(Some(("Node", 100)), 31), well(), 100, "SignalTooOld");
        check(component(None, 5), well(), 100, "NotReported");
        check(component(Some(("Node", 100)), 5), well(), 99, "OwnViewBehind");
        let missing = Component { witnesses: Vec::new(), ..component(None, 0) };
        check(missing, well(), 100, "ComponentMissing");
    }

    #[test]
    fn only_its_own_regression_is_a_failure() {
        let seen = || component(Some(("Node", 100)), 5);
        check(seen(), census((20, 1, 0), (80, 0)), 100, "good");
        check(seen(), census((20, 2, 0), (80, 0)), 100, "failed");
        check(seen(), census((20, 4, 0), (80, 16)), 100, "AllPending");
        check(seen(), census((20, 5, 0), (80, 16)), 100, "failed");
        check(seen(), census((20, 1, 1), (80, 0)), 100, "NotEvaluated");
        check(seen(), census((0, 0, 0), (80, 0)), 100, "NoReplicas");
        check(seen(), census((20, 2, 0), (0, 0)), 100, "failed");
    }

    #[test]
    fn a_stale_view_is_never_a_reason_to_roll_back() {
        check(component(Some(("Node", 99)), 5), census((20, 20, 0), (80, 0)), 100, "NotObserved");
    }
}
