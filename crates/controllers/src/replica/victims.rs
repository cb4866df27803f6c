//! Which replicas go when there are too many. Pure.
//!
//! Those that nobody would miss come first: what ended, what has no node, what is out of reach, what is not ready, what is not
//! ready for long enough. Of the same worth, those go whose zone or node has most of them, so that what stays is spread; of these the
//! youngest, which has least to lose.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::facts::{Life, ReplicaFacts};

/// So many of them go, in this order.
pub fn victims(candidates: &[(Life, &ReplicaFacts)], count: usize) -> Vec<String> {
    let mut ranked: Vec<_> = ranks(candidates)
        .into_iter()
        .map(|(life, zone, node, replica)| {
            ((worth(life), Reverse(zone), Reverse(node), Reverse(replica.created)), replica.name.clone())
        })
        .collect();
    ranked.sort();
    ranked.into_iter().take(count).map(|(_, name)| name).collect()
}

/// What comes first goes first.
fn worth(life: Life) -> u32 {
    match life {
        Life::Stopping | Life::Lost | Life::Ended => 0,
        Life::Pending => 1,
        Life::Releasing => 2,
        Life::Unknown => 3,
        Life::Starting => 4,
        Life::Ready => 5,
        Life::Available => 6,
    }
}

/// Each with how many of its worth its zone and its node have, counted down from the youngest: whoever takes the highest numbers
/// first, takes from the fullest each time.
fn ranks<'a>(candidates: &[(Life, &'a ReplicaFacts)]) -> Vec<(Life, usize, usize, &'a ReplicaFacts)> {
    let mut oldest_first: Vec<_> = candidates.to_vec();
    oldest_first.sort_by_key(|(_, replica)| (replica.created, Reverse(replica.name.as_str())));
    let (mut zones, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    let count = |(life, replica): (Life, &'a ReplicaFacts)| {
        let Some(binding) = &replica.binding else { return (life, 0, 0, replica) };
        let zone: &mut usize = zones.entry((worth(life), binding.zone.as_str())).or_default();
        *zone += 1;
        let node: &mut usize = nodes.entry((worth(life), binding.node.as_str())).or_default();
        *node += 1;
        (life, *zone, *node, replica)
    };
    oldest_first.into_iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;

    use super::*;
    use crate::facts::BindingFacts;

    fn replica(name: &str, created: u64, place: Option<(&str, &str)>) -> ReplicaFacts {
        let binding = place.map(|(zone, node)| BindingFacts {
            zone: zone.to_owned(),
            node: node.to_owned(),
            ..BindingFacts::default()
        });
        ReplicaFacts {
            name: name.to_owned(),
            created: Timestamp(created),
            binding,
            ..ReplicaFacts::default()
        }
    }

    fn check(candidates: &[(Life, &ReplicaFacts)], expected: &[&str]) {
        assert_eq!(victims(candidates, expected.len()), expected);
    }

    #[test]
    fn who_is_missed_least_goes_first() {
        let on = |name| replica(name, 1, Some(("z", name)));
        let [available, ready, starting, unknown, releasing] = ["a", "b", "c", "d", "e"].map(on);
        let (pending, ended) = (replica("f", 1, None), replica("g", 1, None));
        let candidates = [
            (Life::Available, &available),
            (Life::Ready, &ready),
            (Life::Starting, &starting),
            (Life::Unknown, &unknown),
            (Life::Releasing, &releasing),
            (Life::Pending, &pending),
            (Life::Ended, &ended),
        ];
        check(&candidates, &["g", "f", "e", "d", "c", "b", "a"]);
    }

    #[test]
    fn of_the_same_worth_the_fullest_place_gives_first_and_there_the_youngest() {
        let all = [
            replica("a1", 1, Some(("za", "n1"))),
            replica("a2", 2, Some(("za", "n1"))),
            replica("a3", 3, Some(("za", "n2"))),
            replica("b1", 9, Some(("zb", "n3"))),
        ];
        let candidates: Vec<_> = all.iter().map(|it| (Life::Available, it)).collect();
        check(&candidates, &["a3", "a2", "b1", "a1"]);
    }

    #[test]
    fn of_those_without_a_place_the_youngest_goes() {
        let all = [replica("a", 1, None), replica("b", 3, None), replica("c", 2, None)];
        let candidates: Vec<_> = all.iter().map(|it| (Life::Pending, it)).collect();
        check(&candidates, &["b", "c", "a"]);
    }
}
