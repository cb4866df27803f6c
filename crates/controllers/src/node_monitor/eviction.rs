//! When a replica has to leave a node because of the node's taints. Pure.

use std::time::Duration;

use setpoint_types::Timestamp;
use setpoint_types::kinds::{Taint, TaintEffect, Toleration};

/// When a replica has to leave, and because of which taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub at: Timestamp,
    pub taint: String,
}

/// The earliest time at which a taint that evicts is no longer borne; none if all are borne for ever. `since` says from when a taint
/// counts.
pub fn due(taints: &[Taint], tolerations: &[Toleration], since: impl Fn(&Taint) -> Timestamp) -> Option<Due> {
    let evicting = taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute);
    let dues = evicting.filter_map(|taint| {
        let at = match borne(taint, tolerations) {
            Borne::ForEver => return None,
            Borne::For(time) => since(taint).plus(time),
        };
        Some(Due { at, taint: taint.key.clone() })
    });
    dues.min_by_key(|due| due.at)
}

enum Borne {
    For(Duration),
    ForEver,
}

/// The most patient toleration counts.
fn borne(taint: &Taint, tolerations: &[Toleration]) -> Borne {
    let mut longest = Duration::ZERO;
    for toleration in tolerations.iter().filter(|it| tolerates(it, taint)) {
        match toleration.seconds {
            None => return Borne::ForEver,
            Some(seconds) => longest = longest.max(Duration::from_secs(seconds.into())),
        }
    }
    Borne::For(longest)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.key.is_empty() || toleration.key == taint.key)
        && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
        && toleration.effect.is_none_or(|effect| effect == taint.effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.to_owned(), value: "v".to_owned(), effect, since: None }
    }

    fn toleration(key: &str, seconds: Option<u32>) -> Toleration {
        Toleration { key: key.to_owned(), value: None, effect: Some(TaintEffect::NoExecute), seconds }
    }

    #[test]
    fn a_replica_leaves_when_the_least_borne_taint_says_so() {
        let taints = [taint("a", TaintEffect::NoExecute), taint("b", TaintEffect::NoExecute)];
        let check = |tolerations: &[Toleration], expected: Option<(u64, &str)>| {
            let found =
                due(&taints, tolerations, |taint| Timestamp(if taint.key == "a" { 1_000 } else { 2_000 }));
            assert_eq!(found.as_ref().map(|due| (due.at.0, due.taint.as_str())), expected, "{tolerations:?}");
        };
        check(&[], Some((1_000, "a")));
        check(&[toleration("a", None)], Some((2_000, "b")));
        check(&[toleration("a", Some(60)), toleration("b", Some(5))], Some((7_000, "b")));
        check(&[toleration("", Some(30))], Some((31_000, "a")));
        check(&[toleration("", Some(30)), toleration("", None)], None);
        let other = Toleration { value: Some("other".to_owned()), ..toleration("a", None) };
        check(&[other], Some((1_000, "a")));
    }

    #[test]
    fn only_taints_that_evict_count() {
        let taints = [taint("a", TaintEffect::NoSchedule), taint("b", TaintEffect::PreferNoSchedule)];
        assert_eq!(due(&taints, &[], |_| Timestamp(0)), None);
    }
}
