//! How fast the number may change: what a stabilization window looks back on, and steps per period. Pure.
//!
//! Both look back on what the Autoscaler's status keeps, so that another process goes on where one stopped.

use std::time::Duration;

use setpoint_types::Timestamp;
use setpoint_types::kinds::{Recommendation, ScaleBehaviour, ScaleChange, ScaleRule};

/// Entries that are kept of either. Beyond that the oldest are forgotten, which makes a window shorter, and limits no looser.
const KEPT_MAX: usize = 64;

/// Unless the rule says otherwise: up at once, down when it was so for five minutes.
const WINDOW_UP: Duration = Duration::ZERO;
const WINDOW_DOWN: Duration = Duration::from_secs(300);
const STEP_UP_MIN: u32 = 4;
const STEP_DOWN_MIN: u32 = 1;

/// The longest time that a rule can look back, which is as long as anything is kept.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// Adds what is recommended now, if it is another number than before.
pub fn recommend(kept: &[Recommendation], replicas: u32, now: Timestamp) -> Vec<Recommendation> {
    if kept.last().is_some_and(|last| last.replicas == replicas) {
        return kept.to_vec();
    }
    // The one before the oldest that counts is in force when that begins.
    let stale = kept.iter().skip(1).take_while(|it| now.since(it.time) > KEPT_FOR).count();
    let mut all = kept[stale.min(kept.len())..].to_vec();
    all.push(Recommendation { time: now, replicas });
    all.split_off(all.len().saturating_sub(KEPT_MAX))
}

/// Adds a change.
pub fn change(kept: &[ScaleChange], from: u32, to: u32, now: Timestamp) -> Vec<ScaleChange> {
    let mut all: Vec<ScaleChange> =
        kept.iter().filter(|it| now.since(it.time) <= KEPT_FOR).copied().collect();
    all.push(ScaleChange { time: now, from, to });
    all.split_off(all.len().saturating_sub(KEPT_MAX))
}

/// What of a recommendation is followed now: of everything that was recommended within the window, what changes least.
pub fn stabilised(
    kept: &[Recommendation],
    wanted: u32,
    current: u32,
    behaviour: &ScaleBehaviour,
    now: Timestamp,
) -> u32 {
    if wanted > current {
        let window = window(&behaviour.up, WINDOW_UP);
        let least = within(kept, window, now, current).min().unwrap_or(wanted).min(wanted);
        least.max(current)
    } else {
        let window = window(&behaviour.down, WINDOW_DOWN);
        let most = within(kept, window, now, current).max().unwrap_or(wanted).max(wanted);
        most.min(current)
    }
}

/// How far it may go now, given what was changed within the period.
pub fn stepped(
    changes: &[ScaleChange],
    wanted: u32,
    current: u32,
    behaviour: &ScaleBehaviour,
    now: Timestamp,
) -> u32 {
    let rule = if wanted > current { &behaviour.up } else { &behaviour.down };
    if rule.disabled {
        return current;
    }
    let period = Duration::from_secs(rule.period_seconds.into());
    let recent = changes.iter().filter(|it| now.since(it.time) < period);
    if wanted > current {
        let added: u32 = recent.map(|it| it.to.saturating_sub(it.from)).fold(0, u32::saturating_add);
        let start = current.saturating_sub(added);
        let step = rule.max_step.rounded_up(start).max(rule.min_step.unwrap_or(STEP_UP_MIN));
        wanted.min(start.saturating_add(step).max(current))
    } else {
        let removed: u32 = recent.map(|it| it.from.saturating_sub(it.to)).fold(0, u32::saturating_add);
        let start = current.saturating_add(removed);
        let step = rule.max_step.rounded_down(start).max(rule.min_step.unwrap_or(STEP_DOWN_MIN));
        wanted.max(start.saturating_sub(step).min(current))
    }
}

fn window(rule: &ScaleRule, default: Duration) -> Duration {
    rule.stabilization_seconds.map_or(default, |seconds| Duration::from_secs(seconds.into()))
}

/// Everything that was recommended within a window that ends now. What was before anything was kept is the current number: nobody said
/// that it was wrong.
fn within(
    kept: &[Recommendation],
    window: Duration,
    now: Timestamp,
    current: u32,
) -> impl Iterator<Item = u32> {
    let (before, inside): (Vec<Recommendation>, Vec<Recommendation>) =
        kept.iter().partition(|it| now.since(it.time) >= window);
    let at_begin = before.last().map_or(current, |it| it.replicas);
    let looks_back = !window.is_zero();
    let begin = looks_back.then_some(at_begin);
    begin.into_iter().chain(inside.into_iter().filter(move |_| looks_back).map(|it| it.replicas))
}

#[cfg(test)]
mod tests {
    use setpoint_types::quantity::CountOrPercent;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(10_000_000 + seconds * 1_000)
    }

    fn said(said: &[(u64, u32)]) -> Vec<Recommendation> {
        said.iter().map(|(time, replicas)| Recommendation { time: at(*time), replicas: *replicas }).collect()
    }

    #[test]
    fn fewer_only_after_it_was_so_for_the_whole_window() {
        let behaviour = ScaleBehaviour::default();
        let down =
            |kept: &[(u64, u32)], wanted, now| stabilised(&said(kept), wanted, 10, &behaviour, at(now));
        assert_eq!(down(&[(0, 10), (100, 4)], 4, 399), 10);
        assert_eq!(down(&[(0, 10), (100, 4)], 4, 400), 4);
        assert_eq!(down(&[(0, 10), (100, 4), (200, 7), (210, 4)], 4, 450), 7);
        assert_eq!(down(&[], 4, 450), 10, "of a past that nobody knows nothing follows");
        assert_eq!(down(&[(0, 10), (100, 12)], 12, 101), 12, "more is wanted at once");
    }

    #[test]
    fn a_window_towards_more_takes_the_least() {
        let up = ScaleRule { stabilization_seconds: Some(60), ..ScaleRule::default() };
        let behaviour = ScaleBehaviour { up, ..ScaleBehaviour::default() };
        let follow = |kept: &[(u64, u32)], now| stabilised(&said(kept), 9, 3, &behaviour, at(now));
        assert_eq!(follow(&[(0, 3), (100, 6), (120, 9)], 150), 3);
        assert_eq!(follow(&[(0, 3), (100, 6), (120, 9)], 170), 6);
        assert_eq!(follow(&[(0, 3), (100, 6), (120, 9)], 180), 9);
    }

    #[test]
    fn a_period_has_one_step_however_often_it_is_looked() {
        let rule = ScaleRule {
            max_step: CountOrPercent::Percent(50),
            min_step: Some(1),
            period_seconds: 60,
            ..ScaleRule::default()
        };
        let behaviour = ScaleBehaviour { up: rule.clone(), down: rule };
        let changes = change(&[], 10, 13, at(0));
        assert_eq!(stepped(&[], 40, 10, &behaviour, at(0)), 15);
        assert_eq!(stepped(&changes, 40, 13, &behaviour, at(30)), 15);
        assert_eq!(stepped(&changes, 40, 13, &behaviour, at(60)), 20);
        assert_eq!(stepped(&change(&[], 10, 5, at(0)), 1, 5, &behaviour, at(30)), 5);
        assert_eq!(stepped(&[], 1, 10, &behaviour, at(0)), 5);
        let off = ScaleRule { disabled: true, ..ScaleRule::default() };
        let behaviour = ScaleBehaviour { up: off.clone(), down: off };
        assert_eq!((stepped(&[], 9, 5, &behaviour, at(0)), stepped(&[], 1, 5, &behaviour, at(0))), (5, 5));
    }

    #[test]
    fn what_is_kept_is_bounded_and_only_grows_with_news() {
        let kept = said(&[(0, 3)]);
        assert_eq!(recommend(&kept, 3, at(100)), kept);
        let mut many = Vec::new();
        for number in 0..200 {
            many = recommend(&many, number % 7, at(u64::from(number)));
        }
        assert_eq!(many.len(), KEPT_MAX);
        let old = said(&[(0, 3), (10, 4), (20, 5)]);
        assert_eq!(recommend(&old, 6, at(8_000)).len(), 2, "the one in force an hour ago, and the new one");
    }
}
