//! Who is silent in which zone, and who may be given up next. Pure.
//!
//! One silent node is a broken node; many at once are a broken network, and all of them are us. So nodes are given up one after the
//! other, with a pause that grows with the share of a zone that is silent, and none at all while every zone is. What was given up when
//! is read off the nodes themselves: nothing is remembered, and another process goes on at the same pace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_types::Timestamp;

use super::settings::NodeMonitorSettings;

/// What counts of a node here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub zone: String,
    pub state: MemberState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Its agent is heard.
    Heard,
    /// Its keep-alives are late.
    Late,
    /// Its lease is over since then, and it waits for its turn.
    Silent { since: Timestamp },
    /// The same, and it was given up then.
    GivenUp { at: Timestamp },
}

/// All nodes, by zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    zones: BTreeMap<String, Zone>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Zone {
    nodes: u64,
    silent: u64,
    /// In the order of their turns.
    waiting: BTreeSet<(Timestamp, String)>,
    last_given_up: Option<Timestamp>,
}

/// Whether a silent node may be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    Now,
    /// Not before this time.
    Wait {
        for_at_least: Duration,
        disrupted: bool,
    },
    /// Every zone is silent: nothing is given up.
    Stop,
}

impl Fleet {
    pub fn of(members: impl IntoIterator<Item = Member>) -> Self {
        let mut fleet = Self::default();
        for member in members {
            let zone = fleet.zones.entry(member.zone).or_default();
            zone.nodes += 1;
            zone.silent += u64::from(member.state != MemberState::Heard);
            match member.state {
                MemberState::Heard | MemberState::Late => {}
                MemberState::Silent { since } => drop(zone.waiting.insert((since, member.name))),
                MemberState::GivenUp { at } => zone.last_given_up = zone.last_given_up.max(Some(at)),
            }
        }
        fleet
    }

    /// Whether every zone is silent. Nobody can be told from the one who is deaf then.
    pub fn is_silent(&self, settings: &NodeMonitorSettings) -> bool {
        !self.zones.is_empty() && self.zones.values().all(|zone| zone.is_over(settings.silent_percent))
    }

    /// Whether it is this node's turn to be given up.
    pub fn turn(&self, zone: &str, node: &str, now: Timestamp, settings: &NodeMonitorSettings) -> Turn {
        if self.is_silent(settings) {
            return Turn::Stop;
        }
        let disrupted = self.is_disrupted(zone, settings);
        let pause = match disrupted {
            true => settings.give_up_every_seconds_disrupted,
            false => settings.give_up_every_seconds,
        };
        let pause = Duration::from_secs(pause.into());
        let wait = |time: Duration| Turn::Wait { for_at_least: time, disrupted };
        let Some(zone) = self.zones.get(zone) else { return wait(settings.period()) };
        let Some(place) = zone.waiting.iter().position(|(_, waiting)| waiting == node) else {
            // What it is was not written yet, or was not seen yet.
            return wait(settings.period());
        };
        let free = zone.last_given_up.map_or(now, |last| last.plus(pause)).max(now);
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let turn = free.plus(pause.saturating_mul(place));
        // Without a pause the others still take turns, so that each sees the one before it.
        if place == 0 && turn <= now { Turn::Now } else { wait(turn.since(now)) }
    }

    /// Whether so much of a zone is silent that rather the network is broken.
    pub fn is_disrupted(&self, zone: &str, settings: &NodeMonitorSettings) -> bool {
        self.zones.get(zone).is_some_and(|zone| {
            zone.silent >= settings.disrupted_nodes_min.into() && zone.is_over(settings.disrupted_percent)
        })
    }

    /// Nodes, and silent ones of them, by zone.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.zones.iter().map(|(name, zone)| (name.as_str(), zone.nodes, zone.silent))
    }
}

impl Zone {
    fn is_over(&self, percent: u32) -> bool {
        self.nodes > 0 && self.silent * 100 >= self.nodes * u64::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp(1_000_000);

    fn member(number: usize, zone: &str, state: MemberState) -> Member {
        Member { name: format!("n{number:03}"), zone: zone.to_owned(), state }
    }

    /// So many nodes, of which the first ones are silent since the start.
    fn zone(name: &str, nodes: usize, silent: usize) -> Vec<Member> {
        let state = |number| match number < silent {
            true => MemberState::Silent { since: START },
            false => MemberState::Heard,
        };
        (0..nodes).map(|number| member(number, name, state(number))).collect()
    }

    fn turn(members: Vec<Member>, node: &str) -> Turn {
        Fleet::of(members).turn("a", node, START, &NodeMonitorSettings::default())
    }

    fn wait(seconds: u64, disrupted: bool) -> Turn {
        Turn::Wait { for_at_least: Duration::from_secs(seconds), disrupted }
    }

    #[test]
    fn the_first_goes_at_once_and_the_others_one_after_the_other() {
        assert_eq!(turn(zone("a", 10, 3), "n000"), Turn::Now);
        assert_eq!(turn(zone("a", 10, 3), "n001"), wait(10, false));
        assert_eq!(turn(zone("a", 10, 3), "n002"), wait(20, false));
        let mut later = zone("a", 10, 3);
        later[1].state = MemberState::GivenUp { at: Timestamp(START.0 - 4_000) };
        assert_eq!(turn(later, "n000"), wait(6, false));
    }

    #[test]
    fn a_zone_that_is_mostly_silent_is_given_up_slowly() {
        assert_eq!(turn(zone("a", 10, 6), "n001"), wait(100, true));
        assert_eq!(turn(zone("a", 10, 5), "n001"), wait(10, false));
        // Two of three are more than half, and too few to be a pattern.
        assert_eq!(turn(zone("a", 3, 2), "n001"), wait(10, false));
    }

    #[test]
    fn late_nodes_are_part_of_the_pattern() {
        let mut members = zone("a", 10, 1);
        members[1..6].iter_mut().for_each(|it| it.state = MemberState::Late);
        members[1].state = MemberState::Silent { since: Timestamp(START.0 + 1) };
        assert_eq!(turn(members, "n001"), wait(100, true));
    }

    #[test]
    fn while_every_zone_is_silent_nothing_is_given_up() {
        let mut members = zone("a", 3, 3);
        assert_eq!(turn(members.clone(), "n000"), Turn::Stop);
        members.extend(zone("b", 3, 2));
        assert_eq!(turn(members, "n000"), Turn::Now);
    }

    proptest! {
        /// Whatever falls silent when, and however often it is looked at: between two that are given up lies the pause, and of
        /// those that were silent all the time each has its turn in the end.
        #[test]
        fn never_more_are_given_up_than_the_pace_allows(
            nodes in 2..30usize,
            silent in prop::collection::vec((0..30usize, 0..200u64), 1..30),
            looks in prop::collection::vec(1..30u64, 20..200),
        ) {
            let settings = NodeMonitorSettings::default();
            let mut members = zone("a", nodes, 0);
            members.extend(zone("b", 1, 0));
            let falls: BTreeMap<usize, u64> = silent.into_iter().map(|(node, at)| (node % nodes, at)).collect();
            let mut now = START;
            let mut given_up: Vec<(Timestamp, bool)> = Vec::new();
            for look in looks {
                now = now.plus(Duration::from_secs(look));
                for (node, at) in &falls {
                    let since = START.plus(Duration::from_secs(*at));
                    if since <= now && members[*node].state == MemberState::Heard {
                        members[*node].state = MemberState::Silent { since };
                    }
                }
                for number in 0..nodes {
                    let fleet = Fleet::of(members.clone());
                    let name = members[number].name.clone();
                    if fleet.turn("a", &name, now, &settings) == Turn::Now {
                        let is_silent = matches!(members[number].state, MemberState::Silent { .. });
                        prop_assert!(is_silent, "{name} is heard");
                        given_up.push((now, fleet.is_disrupted("a", &settings)));
                        members[number].state = MemberState::GivenUp { at: now };
                    }
                }
            }
            for pair in given_up.windows(2) {
                let pause = pair[1].0.since(pair[0].0).as_secs();
                let least = if pair[1].1 { 100 } else { 10 };
                prop_assert!(pause >= least, "{pause} s, disrupted: {}", pair[1].1);
            }
            if now.since(START).as_secs() > 200 {
                prop_assert!(!given_up.is_empty());
            }
        }
    }
}
