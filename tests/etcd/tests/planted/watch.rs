//! Wrong behaviour of watches.

use setpoint_api::etcdserverpb as pb;
use setpoint_api::mvccpb::{Event, KeyValue};
use setpoint_etcd_tests::answer::{Answer, Arrived, Received, Refusal};

use super::{Entry, change, raise_revision};

pub const PLANTS: &[Entry] = &[
    ("created: header revision", |a| raise_revision(a, |a| matches!(a, Answer::WatchCreated(_)))),
    ("created: id", |a| change(created(a), |r| r.watch_id += 1)),
    ("created: not flagged", |a| change(created(a), |r| r.created = false)),
    ("created: refused", |a| change(created(a).filter(|r| !r.canceled), |r| r.canceled = true)),
    ("created: reason", |a| change(created(a), |r| r.cancel_reason.push('x'))),
    ("created: no answer", |a| match a {
        Answer::WatchCreated(response) => response.take().is_some(),
        _ => false,
    }),
    ("canceled: header revision", |a| raise_revision(a, |a| matches!(a, Answer::WatchCanceled(_)))),
    ("canceled: no answer", |a| match a {
        Answer::WatchCanceled(response) => response.take().is_some(),
        _ => false,
    }),
    ("canceled: unknown watch", |a| match a {
        Answer::WatchCanceled(response @ None) => {
            *response = Some(pb::WatchResponse { canceled: true, ..Default::default() });
            true
        }
        _ => false,
    }),
    ("progress: revision", |a| match a {
        Answer::Progress(Some(response)) => change(response.header.as_mut(), |header| header.revision -= 1),
        _ => false,
    }),
    ("progress: missing", |a| match a {
        Answer::Progress(response) => response.take().is_some(),
        _ => false,
    }),
    ("progress: invented", |a| match a {
        Answer::Progress(response @ None) => {
            *response = Some(pb::WatchResponse { watch_id: -1, ..Default::default() });
            true
        }
        _ => false,
    }),
    ("event lost", |a| change(events(a, 1), |r| drop(r.events.pop()))),
    ("event twice", |a| change(events(a, 1), |r| r.events.push(r.events[r.events.len() - 1].clone()))),
    ("event type", |a| change(event(a), |e| e.r#type = 1 - e.r#type)),
    ("event key", |a| change(kv(a), |kv| kv.key = b"elsewhere".to_vec().into())),
    ("event value", |a| change(kv(a), |kv| kv.value = b"wrong".to_vec().into())),
    ("event create revision", |a| change(kv(a), |kv| kv.create_revision += 1)),
    ("event version", |a| change(kv(a), |kv| kv.version += 1)),
    ("event lease", |a| change(kv(a), |kv| kv.lease += 1)),
    ("event mod revision", |a| change(kv(a), |kv| kv.mod_revision -= 1)),
    ("event previous lost", |a| {
        let place = received(a).and_then(|r| {
            let mut events = responses(r).flat_map(|response| &mut response.events);
            events.find(|event| event.prev_kv.is_some())
        });
        change(place, |event| event.prev_kv = None)
    }),
    ("event previous invented", |a| {
        change(event(a).filter(|e| e.prev_kv.is_none()), |e| e.prev_kv = Some(KeyValue::default()))
    }),
    ("events of one revision in another order", |a| {
        let place = received(a).and_then(|r| {
            responses(r).find_map(|response| {
                let pair =
                    response.events.windows(2).position(|pair| revision(&pair[0]) == revision(&pair[1]))?;
                Some((response, pair))
            })
        });
        change(place, |(response, pair)| response.events.swap(pair, pair + 1))
    }),
    ("revision split over two responses", |a| {
        let Some(received) = received(a) else { return false };
        let split = received.responses.iter().enumerate().find_map(|(index, arrived)| {
            let events = &arrived.response.events;
            let place = events.windows(2).position(|pair| revision(&pair[0]) == revision(&pair[1]))?;
            Some((index, place + 1))
        });
        change(split, |(index, place)| {
            let mut second = received.responses[index].clone();
            second.response.events.drain(..place);
            received.responses[index].response.events.truncate(place);
            received.responses.insert(index + 1, second);
        })
    }),
    ("header behind the events", |a| {
        let place = events(a, 1).and_then(|r| r.header.as_mut());
        change(place, |header| header.revision = 1)
    }),
    ("event belongs to another watch", |a| change(events(a, 1), |r| r.watch_id += 100)),
    ("event after progress", |a| {
        let Some(received) = received(a) else { return false };
        let place = received.responses.iter().position(|arrived| !arrived.response.events.is_empty());
        change(place, |index| {
            let header = Some(pb::ResponseHeader { revision: i64::MAX, ..Default::default() });
            let response = pb::WatchResponse { watch_id: -1, header, ..Default::default() };
            received.responses.insert(index, Arrived { response, reported: false });
        })
    }),
    ("empty response", |a| {
        change(received(a), |received| {
            let response = pb::WatchResponse { watch_id: 4242, ..Default::default() };
            received.responses.push(Arrived { response, reported: false });
        })
    }),
    ("event after cancellation", |a| {
        let Some(received) = received(a) else { return false };
        let canceled =
            received.responses.iter().find(|arrived| arrived.response.canceled && !arrived.response.created);
        let id = canceled.map(|arrived| arrived.response.watch_id);
        change(id, |watch_id| {
            let response =
                pb::WatchResponse { watch_id, events: vec![Event::default()], ..Default::default() };
            received.responses.push(Arrived { response, reported: false });
        })
    }),
    ("cancellation by compaction lost", |a| {
        let Some(received) = received(a) else { return false };
        let place = received.responses.iter().position(|arrived| arrived.response.compact_revision != 0);
        change(place, |index| drop(received.responses.remove(index)))
    }),
    ("cancellation: compact revision", |a| change(compacted(a), |r| r.compact_revision += 1)),
    ("cancellation: reason", |a| change(compacted(a), |r| r.cancel_reason.push_str("gone"))),
    ("cancellation: header", |a| change(compacted(a).and_then(|r| r.header.as_mut()), |h| h.revision = 5)),
    ("watch canceled without reason", |a| change(events(a, 1), |r| r.canceled = true)),
    ("fragment unasked", |a| change(events(a, 1).filter(|r| !r.fragment), |r| r.fragment = true)),
    ("stream ended", |a| change(received(a), |r| r.ended = Some(Ok(())))),
    ("stream broken", |a| {
        let refusal = Refusal { code: tonic::Code::Unavailable, message: String::new() };
        change(received(a), |r| r.ended = Some(Err(refusal)))
    }),
];

fn created(answer: &mut Answer) -> Option<&mut pb::WatchResponse> {
    match answer {
        Answer::WatchCreated(response) => response.as_mut(),
        _ => None,
    }
}

/// A stream that received something.
fn received(answer: &mut Answer) -> Option<&mut Received> {
    match answer {
        Answer::Settled(streams) => {
            streams.iter_mut().map(|(_, received)| received).find(|received| !received.responses.is_empty())
        }
        _ => None,
    }
}

/// The responses that are compared here, and not with the step they answer.
fn responses(received: &mut Received) -> impl Iterator<Item = &mut pb::WatchResponse> {
    received.responses.iter_mut().filter(|arrived| !arrived.reported).map(|arrived| &mut arrived.response)
}

/// A response with at least so many events.
fn events(answer: &mut Answer, least: usize) -> Option<&mut pb::WatchResponse> {
    responses(received(answer)?).find(|response| response.events.len() >= least)
}

fn event(answer: &mut Answer) -> Option<&mut Event> {
    events(answer, 1)?.events.first_mut()
}

fn kv(answer: &mut Answer) -> Option<&mut KeyValue> {
    event(answer)?.kv.as_mut()
}

fn compacted(answer: &mut Answer) -> Option<&mut pb::WatchResponse> {
    responses(received(answer)?).find(|response| response.compact_revision != 0)
}

fn revision(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}
