//! The checker is tested by planting each violation into a history that is right.

use std::time::Duration;

use setpoint_cluster_tests::check::{Violation, check, check_watch};
use setpoint_cluster_tests::cut::{Cut, check_cuts};
use setpoint_cluster_tests::history::{Action, History, Keys, Op, Outcome, Version};
use setpoint_cluster_tests::model::Change;

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn version(key: &str, value: &str, created: i64, modified: i64, version: i64) -> Version {
    Version { key: key.to_owned(), value: value.to_owned(), created, modified, version }
}

fn op(call: u64, ret: u64, action: Action, outcome: Outcome) -> Op {
    Op { client: 0, node: 0, call: at(call), ret: at(ret), action, outcome }
}

fn put(key: &str, value: &str) -> Action {
    Action::Put { key: key.to_owned(), value: value.to_owned() }
}

fn read(key: &str) -> Action {
    Action::Read { keys: Keys::One(key.to_owned()), stale: false }
}

fn written(revision: i64) -> Outcome {
    Outcome::Written { revision, deleted: 0 }
}

fn change(now: Version) -> Change {
    Change { revision: now.modified, deleted: false, now }
}

/// a=1, b=2, a=3 (unknown to its client), delete of a, a failed swap, and reads between them.
fn right() -> (History, Vec<Change>) {
    let deleted = Change { revision: 5, deleted: true, now: version("a", "", 0, 5, 0) };
    let log = vec![
        change(version("a", "1", 2, 2, 1)),
        change(version("b", "2", 3, 3, 1)),
        change(version("a", "3", 2, 4, 2)),
        deleted,
        change(version("mark", "4", 5, 5, 1)),
    ];
    let delete = Action::Delete { key: "a".to_owned(), mark: "mark".to_owned(), value: "4".to_owned() };
    let swap = Action::Swap { key: "b".to_owned(), expected: 9, value: "never".to_owned() };
    let ops = vec![
        op(0, 10, put("a", "1"), written(2)),
        op(5, 20, read("a"), Outcome::Seen { revision: 2, found: vec![version("a", "1", 2, 2, 1)] }),
        op(11, 30, put("b", "2"), written(3)),
        op(31, 40, read("a"), Outcome::Seen { revision: 3, found: vec![version("a", "1", 2, 2, 1)] }),
        op(41, 50, put("a", "3"), Outcome::Unknown("timed out".to_owned())),
        op(41, 60, put("b", "lost"), Outcome::NotApplied("no leader".to_owned())),
        op(61, 70, delete, Outcome::Written { revision: 5, deleted: 1 }),
        op(71, 80, read("a"), Outcome::Seen { revision: 5, found: Vec::new() }),
        op(81, 90, swap, Outcome::Seen { revision: 5, found: vec![version("b", "2", 3, 3, 1)] }),
    ];
    (History { ops, sightings: vec![(at(75), 5)] }, log)
}

fn found(history: &History, logs: &[Vec<Change>]) -> Vec<Violation> {
    let mut found: Vec<Violation> =
        check(history, logs).into_iter().map(|finding| finding.violation).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn same(log: &[Change]) -> Vec<Vec<Change>> {
    vec![log.to_vec(); 3]
}

#[test]
fn a_right_history_passes() {
    let (history, log) = right();
    assert_eq!(found(&history, &same(&log)), []);
}

#[test]
fn a_lost_write_is_found() {
    let (mut history, log) = right();
    history.ops.push(op(100, 110, put("a", "gone"), written(6)));
    assert_eq!(found(&history, &same(&log)), [Violation::LostWrite]);
}

#[test]
fn a_write_at_another_revision_is_found() {
    let (mut history, log) = right();
    history.ops[0].outcome = written(3);
    assert!(found(&history, &same(&log)).contains(&Violation::LostWrite));
}

#[test]
fn a_stale_read_is_found() {
    let (mut history, log) = right();
    history.ops[7].outcome = Outcome::Seen { revision: 4, found: vec![version("a", "3", 2, 4, 2)] };
    assert_eq!(found(&history, &same(&log)), [Violation::StaleRead]);
    let Action::Read { stale, .. } = &mut history.ops[7].action else { panic!("the eighth is a read") };
    *stale = true;
    assert_eq!(found(&history, &same(&log)), [], "a serializable read may be old");
}

#[test]
fn a_read_older_than_what_a_watch_showed_is_found() {
    let (mut history, log) = right();
    history.sightings.push((at(30), 4));
    let found = found(&history, &same(&log));
    assert_eq!(
        found,
        [Violation::StaleRead, Violation::ReorderedWrite],
        "also the write that the watch saw early"
    );
}

#[test]
fn a_wrong_read_is_found() {
    let (mut history, log) = right();
    history.ops[3].outcome = Outcome::Seen { revision: 3, found: vec![version("a", "3", 2, 4, 2)] };
    assert_eq!(found(&history, &same(&log)), [Violation::WrongRead]);
}

#[test]
fn a_reordered_write_is_found() {
    let (mut history, log) = right();
    (history.ops[0].call, history.ops[0].ret) = (at(35), at(36));
    assert!(found(&history, &same(&log)).contains(&Violation::ReorderedWrite));
}

#[test]
fn a_write_that_was_made_twice_is_found() {
    let (history, mut log) = right();
    log.push(change(version("b", "2", 3, 6, 2)));
    assert_eq!(found(&history, &same(&log)), [Violation::DuplicateApply, Violation::LostWrite]);
}

#[test]
fn a_hole_is_found() {
    let (mut history, mut log) = right();
    log.remove(2);
    history.ops.remove(4);
    assert!(found(&history, &same(&log)).contains(&Violation::Hole));
}

#[test]
fn divergence_is_found() {
    let (history, log) = right();
    let mut logs = same(&log);
    logs[1].pop();
    assert_eq!(found(&history, &logs), [Violation::Divergence]);
    let mut logs = same(&log);
    logs[2][1].now.value = "other".to_owned();
    assert_eq!(found(&history, &logs), [Violation::Divergence]);
}

#[test]
fn a_phantom_is_found() {
    let (history, mut log) = right();
    log.push(change(version("c", "nobody's", 6, 6, 1)));
    assert_eq!(found(&history, &same(&log)), [Violation::Phantom]);
}

#[test]
fn a_lied_failure_is_found() {
    let (mut history, log) = right();
    history.ops[4].outcome = Outcome::NotApplied("no leader".to_owned());
    assert_eq!(found(&history, &same(&log)), [Violation::LiedFailure]);
}

#[test]
fn a_version_that_does_not_follow_is_found() {
    let (history, mut log) = right();
    log[2].now.version = 7;
    assert_eq!(found(&history, &same(&log)), [Violation::ModelMismatch]);
}

#[test]
fn a_swap_over_another_version_is_found() {
    let (mut history, log) = right();
    history.ops[2].action = Action::Swap { key: "b".to_owned(), expected: 2, value: "2".to_owned() };
    assert_eq!(found(&history, &same(&log)), [Violation::ModelMismatch]);
}

#[test]
fn watches_must_be_the_log() {
    let (_, log) = right();
    let whole = vec![log[..2].to_vec(), log[2..].to_vec()];
    assert!(check_watch(1, &whole, &log).is_empty());
    assert!(!check_watch(1, &[log[1..].to_vec()], &log).is_empty(), "the first is missing");
    assert!(!check_watch(1, &[log[..1].to_vec(), log[2..].to_vec()], &log).is_empty(), "one is skipped");
    assert!(!check_watch(1, &[log[..2].to_vec(), log[1..].to_vec()], &log).is_empty(), "one is repeated");
    assert!(!check_watch(1, &[log[..4].to_vec(), log[4..].to_vec()], &log).is_empty(), "a revision is torn");
    assert!(!check_watch(1, &[log[..4].to_vec()], &log).is_empty(), "a revision is cut");
    assert!(check_watch(3, &[log[1..].to_vec()], &log).is_empty());
}

#[test]
fn f13_a_write_of_a_minority_and_a_majority_that_stands_still_are_found() {
    let (mut history, _) = right();
    for op in &mut history.ops {
        op.node = 1;
    }
    let cut = |node| [Cut { node, from: at(5), to: at(75) }];
    let found = |history: &History, node| -> Vec<Violation> {
        check_cuts(history, &cut(node)).into_iter().map(|it| it.violation).collect()
    };
    assert_eq!(found(&history, 0), []);
    // What was asked before the cut is answered by either side.
    history.ops[0].node = 0;
    assert_eq!(found(&history, 0), []);
    history.ops[2].node = 0;
    assert_eq!(found(&history, 0), [Violation::MinorityWrite]);
    history.ops[2].outcome = Outcome::Unknown("timed out".to_owned());
    history.ops[6].outcome = Outcome::NotApplied("no leader".to_owned());
    assert_eq!(found(&history, 0), [Violation::MajorityStood]);
}
