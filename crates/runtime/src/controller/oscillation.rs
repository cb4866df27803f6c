//! Two managers that undo each other's work, found out from who wrote what. Pure.
//!
//! A sets a part of an object to one state, B to another, A to the first again, B to the second again: neither will stop, and each
//! is right by itself. Spec and status are looked at apart, so that a status which follows the spec is not one.

use std::collections::VecDeque;
use std::time::Duration;

/// As many as it takes to be sure: to, fro, to, fro.
const TURNS: usize = 4;

/// The last writes of one part of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    turns: VecDeque<Turn>,
    /// So many turns have to follow until it is told again.
    told: bool,
}

/// One write that changed the part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Of the manager, of what it set, and when.
    pub manager: String,
    pub state: u64,
    pub at: Duration,
}

/// Two managers in disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Oscillation {
    pub managers: [String; 2],
}

impl Track {
    /// Takes in a write. Tells of an oscillation when it begins, and again only after it has stopped in between.
    pub fn note(&mut self, turn: Turn, window: Duration) -> Option<Oscillation> {
        self.turns.push_back(turn);
        if self.turns.len() > TURNS {
            self.turns.pop_front();
        }
        let found = self.oscillation(window);
        let is_new = found.is_some() && !self.told;
        self.told = found.is_some();
        found.filter(|_| is_new)
    }

    /// Whether it goes on: the last turn was within the window.
    pub fn goes_on(&self, now: Duration, window: Duration) -> Option<Oscillation> {
        let last = self.turns.back()?;
        (now.saturating_sub(last.at) <= window).then(|| self.oscillation(window)).flatten()
    }

    fn oscillation(&self, window: Duration) -> Option<Oscillation> {
        let mut turns = self.turns.iter();
        let (a, b, c, d) = (turns.next()?, turns.next()?, turns.next()?, turns.next()?);
        let same = |one: &Turn, other: &Turn| one.manager == other.manager && one.state == other.state;
        let disagree = a.manager != b.manager && a.state != b.state;
        let within = d.at.saturating_sub(a.at) <= window;
        (disagree && same(a, c) && same(b, d) && within).then(|| {
            let mut managers = [a.manager.clone(), b.manager.clone()];
            managers.sort();
            Oscillation { managers }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    /// Turns as `A1` (manager A sets state 1), each so many seconds after the one before, and how often one was told of.
    fn told(turns: &str, apart: u64) -> usize {
        let mut track = Track::default();
        let mut told = 0;
        for (number, turn) in turns.split_whitespace().enumerate() {
            let (manager, state) = turn.split_at(1);
            let at = Duration::from_secs(number as u64 * apart);
            let turn = Turn { manager: manager.into(), state: state.parse().expect("a number"), at };
            told += usize::from(track.note(turn, WINDOW).is_some());
        }
        told
    }

    #[test]
    fn to_and_fro_twice_is_told_once() {
        assert_eq!(told("A1 B2 A1", 1), 0);
        assert_eq!(told("A1 B2 A1 B2", 1), 1);
        assert_eq!(told("A1 B2 A1 B2 A1 B2 A1 B2", 1), 1);
        assert_eq!(told("A1 B2 A1 B2 A3 B4 A3 B4 A3", 1), 2, "it stopped in between");
    }

    #[test]
    fn progress_one_manager_and_rare_changes_are_none() {
        assert_eq!(told("A1 B2 A3 B4 A5 B6", 1), 0);
        assert_eq!(told("A1 A2 A1 A2 A1 A2", 1), 0);
        assert_eq!(told("A1 B2 C1 B2 A1 B2", 1), 0);
        assert_eq!(told("A1 B2 A1 B2 A1 B2", 30), 0, "90 s for four turns is slow");
    }

    #[test]
    fn it_is_over_when_nobody_writes_any_more() {
        let mut track = Track::default();
        for number in 0..4 {
            let manager = if number % 2 == 0 { "A" } else { "B" }.to_owned();
            track.note(Turn { manager, state: number % 2, at: Duration::from_secs(number) }, WINDOW);
        }
        let managers = ["A".to_owned(), "B".to_owned()];
        assert_eq!(track.goes_on(Duration::from_secs(5), WINDOW), Some(Oscillation { managers }));
        assert_eq!(track.goes_on(Duration::from_secs(64), WINDOW), None);
    }
}
