//! The book, driven by hand and by chance.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use setpoint_types::kinds::{Event, EventSpec, EventStatus};
use setpoint_types::object::ObjectReference;
use setpoint_types::{Revision, Timestamp, Uid};

use super::super::tally::class_of;
use super::*;

/// Few of everything, so that every limit is met.
fn small() -> RecorderSettings {
    RecorderSettings {
        tallies_max: 6,
        reserved_percent: 34,
        variants_max: 2,
        settle_ms: 1000,
        object_burst: 3,
        object_interval_ms: 5000,
        backoff_first_ms: 100,
        backoff_max_ms: 1000,
        ..RecorderSettings::default()
    }
}

fn at(ms: u64) -> Moment {
    Moment::at(Duration::from_millis(ms))
}

fn told(object: u8, reason: u8, message: &str, ms: u64) -> Box<Told<Event>> {
    let object = ObjectReference { uid: Uid::new(object.to_string()), ..ObjectReference::default() };
    let topic = Topic { component: "c".into(), object, reason: reason.to_string() };
    let spec = EventSpec { message: message.to_owned(), ..EventSpec::default() };
    let (class, namespace) = (class_of(message), "default".to_owned());
    Box::new(Told { topic, class, namespace, spec, at: Timestamp(ms), latest: Revision::new(ms) })
}

/// A server that takes everything: records by name.
#[derive(Default)]
struct Server(BTreeMap<String, (EventSpec, EventStatus)>);

impl Server {
    fn take(&mut self, job: &Job<Event>) -> Wrote<Event> {
        let (_, status) =
            self.0.entry(job.name.clone()).or_insert_with(|| (job.spec.clone(), EventStatus::default()));
        Event::add(status, &job.delta);
        Wrote::Done(Known { revision: Revision::new(1), status: status.clone() })
    }

    fn told(&self) -> u64 {
        self.0.values().map(|(_, status)| status.count + status.dropped).sum()
    }
}

/// Writes all that is due, and says how much that was.
fn write_due(book: &mut Book<Event>, server: &mut Server, now: Moment) -> usize {
    let mut writes = 0;
    while let Some(job) = book.next(now) {
        let wrote = server.take(&job);
        book.done(job.id, wrote, now, 0.5);
        writes += 1;
    }
    writes
}

#[test]
fn repetitions_are_counted_and_written_together_after_a_while() {
    let (mut book, mut server) = (Book::<Event>::new(&small()), Server::default());
    assert!(book.tell(told(1, 1, "failed 0 times", 0), at(0)).is_ok());
    assert_eq!(write_due(&mut book, &mut server, at(0)), 1, "the first is written at once");
    for time in 1..500 {
        assert!(book.tell(told(1, 1, &format!("failed {time} times"), time), at(time)).is_ok());
    }
    assert_eq!(write_due(&mut book, &mut server, at(1000)), 0);
    assert_eq!(write_due(&mut book, &mut server, at(1001)), 1);
    let (spec, status) = server.0.values().next().expect("one record");
    assert_eq!((server.0.len(), spec.message.as_str()), (1, "failed 0 times"));
    assert_eq!((status.count, status.dropped), (500, 0));
    assert_eq!((status.first, status.last), (Timestamp(0), Timestamp(499)));
    assert_eq!(status.revision, Revision::new(499));
}

#[test]
fn variants_beyond_those_told_apart_are_counted_together() {
    let settings = RecorderSettings { tallies_max: 100, object_burst: 100, ..small() };
    let (mut book, mut server) = (Book::<Event>::new(&settings), Server::default());
    for message in ["a", "b", "c", "d", "a"] {
        assert!(book.tell(told(1, 1, message, 0), at(0)).is_ok());
    }
    write_due(&mut book, &mut server, at(0));
    let mut said: Vec<_> = server
        .0
        .values()
        .map(|(spec, status)| (spec.message.as_str(), status.count, status.dropped))
        .collect();
    said.sort_unstable();
    assert_eq!(said, [("a", 2, 0), ("b", 1, 0), ("several messages, such as: c", 2, 0)]);
}

#[test]
fn variants_that_come_too_fast_are_dropped_and_said_to_be() {
    let settings = RecorderSettings { tallies_max: 100, variants_max: 50, ..small() };
    let (mut book, mut server) = (Book::<Event>::new(&settings), Server::default());
    for message in ["a", "b", "c", "d", "e"] {
        assert!(book.tell(told(1, 1, message, 0), at(0)).is_ok());
    }
    write_due(&mut book, &mut server, at(0));
    let dropped: u64 = server.0.values().map(|(_, status)| status.dropped).sum();
    assert_eq!((server.0.len(), dropped), (3, 2), "the burst is 3");
    assert!(book.tell(told(1, 1, "f", 5000), at(5000)).is_ok());
    write_due(&mut book, &mut server, at(5000));
    assert_eq!(server.0.len(), 4, "there is a token again");
}

#[test]
fn a_first_waits_while_everything_is_unwritten_and_goes_in_once_something_is() {
    let (mut book, mut server) = (Book::<Event>::new(&small()), Server::default());
    for object in 0..6 {
        assert!(book.tell(told(object, 1, "x", 0), at(0)).is_ok());
    }
    let refused = book.tell(told(6, 1, "x", 0), at(0)).expect_err("there is no room");
    assert!(book.tell(told(5, 1, "x", 0), at(0)).is_ok(), "what is known does not wait");
    let job = book.next(at(0)).expect("something is due");
    let wrote = server.take(&job);
    book.done(job.id, wrote, at(0), 0.5);
    assert!(book.tell(refused, at(0)).is_ok());
    assert_eq!(book.len(), 6);
}

#[test]
fn a_failed_write_is_tried_again_later_and_as_it_was() {
    let mut book = Book::<Event>::new(&small());
    assert!(book.tell(told(1, 1, "x", 0), at(0)).is_ok());
    let job = book.next(at(0)).expect("the first");
    book.done(job.id, Wrote::Failed { unsure: None }, at(0), 1.0);
    assert!(book.tell(told(1, 1, "x", 5), at(5)).is_ok());
    assert!(book.next(at(99)).is_none(), "not before its time");
    let again = book.next(at(100)).expect("after the wait");
    assert_eq!(again.delta, job.delta, "what was told since is not mixed in");
    book.done(again.id, Wrote::Failed { unsure: None }, at(100), 1.0);
    assert_eq!(book.next_due(), Some(at(300)), "the wait doubles");
}

#[test]
fn what_the_server_refuses_for_good_is_lost_and_counted() {
    let mut book = Book::<Event>::new(&small());
    assert!(book.tell(told(1, 1, "x", 0), at(0)).is_ok());
    let job = book.next(at(0)).expect("the first");
    book.done(job.id, Wrote::Refused, at(0), 0.5);
    assert_eq!((book.lost(), book.unwritten(), book.next_due()), (1, 0, None));
}

#[test]
fn a_shutdown_waits_for_nothing_but_failures() {
    let (mut book, mut server) = (Book::<Event>::new(&small()), Server::default());
    for object in 0..3 {
        assert!(book.tell(told(object, 1, "x", 0), at(0)).is_ok());
    }
    let failed = book.next(at(0)).expect("one of them");
    book.done(failed.id, Wrote::Failed { unsure: None }, at(0), 1.0);
    write_due(&mut book, &mut server, at(0));
    for object in 0..3 {
        assert!(book.tell(told(object, 1, "x", 1), at(1)).is_ok());
    }
    book.hurry(at(2));
    assert_eq!(write_due(&mut book, &mut server, at(2)), 2);
    assert_eq!(book.next_due(), Some(at(100)));
    book.abandon();
    assert_eq!((server.told(), book.lost(), book.len()), (4, 2, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Tell { object: u8, reason: u8, message: u8 },
    Wait(u64),
    Start,
    Succeed,
    Fail,
    Refuse,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u8..8, 0u8..3, 0u8..5).prop_map(|(object, reason, message)| Step::Tell { object, reason, message }),
        2 => (0u64..3000).prop_map(Step::Wait),
        4 => Just(Step::Start),
        4 => Just(Step::Succeed),
        1 => Just(Step::Fail),
        1 => Just(Step::Refuse),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn counts_add_up_memory_is_bounded_and_no_first_is_dropped(steps in steps()) {
        let settings = small();
        let (mut book, mut server) = (Book::<Event>::new(&settings), Server::default());
        let (mut now, mut all) = (0u64, 0u64);
        let mut under_way: Vec<Job<Event>> = Vec::new();
        let mut firsts: BTreeMap<Topic, bool> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Tell { object, reason, message } => {
                    let told = told(object, reason, &"m".repeat(message.into()), now);
                    let topic = told.topic.clone();
                    let is_known = book.topics.contains_key(&topic);
                    match book.tell(told, at(now)) {
                        Ok(counted) => {
                            all += 1;
                            prop_assert!(is_known || counted == Counted::Counted, "a first is counted");
                            firsts.entry(topic).or_insert(true);
                        }
                        Err(_) => {
                            prop_assert!(!is_known, "only a first waits");
                            let dirty: std::collections::BTreeSet<_> = book
                                .tallies
                                .values()
                                .filter(|it| it.sending.is_some() || !it.pending.is_empty())
                                .map(|it| &it.topic)
                                .collect();
                            prop_assert_eq!(dirty.len(), book.topics.len(), "and only if all is unwritten");
                        }
                    }
                }
                Step::Wait(ms) => now += ms,
                Step::Start => under_way.extend(book.next(at(now))),
                Step::Succeed => {
                    if let Some(job) = under_way.pop() {
                        let wrote = server.take(&job);
                        book.done(job.id, wrote, at(now), 0.5);
                    }
                }
                Step::Fail => {
                    if let Some(job) = under_way.pop() {
                        book.done(job.id, Wrote::Failed { unsure: None }, at(now), 0.5);
                    }
                }
                Step::Refuse => {
                    if let Some(job) = under_way.pop() {
                        let tally = book.tallies.get(&job.id).expect("what is under way is not forgotten");
                        firsts.insert(Topic::clone(&tally.topic), false);
                        book.done(job.id, Wrote::Refused, at(now), 0.5);
                    }
                }
            }
            prop_assert!(book.len() <= settings.tallies_max);
            prop_assert_eq!(all, server.told() + book.unwritten() + book.lost());
        }
        // The server takes everything from here on: whatever is not lost is written.
        for job in under_way {
            let wrote = server.take(&job);
            book.done(job.id, wrote, at(now), 0.5);
        }
        for _ in 0..1000 {
            now += 10_000;
            write_due(&mut book, &mut server, at(now));
        }
        prop_assert_eq!((book.unwritten(), book.next_due()), (0, None));
        prop_assert_eq!(all, server.told() + book.lost());
        for (topic, _) in firsts.into_iter().filter(|(_, taken)| *taken) {
            let variants = (0..5).map(|it| Variant::Class("m".repeat(it))).chain([Variant::Others]);
            let count: u64 = variants
                .filter_map(|variant| server.0.get(&name(&topic, &variant)))
                .map(|(_, status)| status.count)
                .sum();
            prop_assert!(count > 0, "{topic:?}");
        }
    }
}
