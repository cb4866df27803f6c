//! What every watch stream must obey by itself, whatever the other server does.
//!
//! The comparison in `compare` ignores how events are batched into responses, because that is timing. These rules
//! cover what clients rely on within that freedom. They run on both servers alike: a complaint is part of the
//! answer, so that one only our server causes shows up as a difference.
//!
//! - Ordered: the event revisions of a watch never decrease.
//! - Atomic: a revision is never split over two responses (fragments of one response count as one).
//! - Covered: a response's header revision is not below its last event.
//! - Bookmarkable: after progress R, no event at or below R; progress never goes back.
//! - Fragments are sent only where asked for, are contiguous on the stream, and are small enough.
//! - Solicited: a watch is created only if asked for.
//! - Quiet: no event follows a cancellation; a response without events is sent only where progress was asked for.

use std::collections::{HashMap, VecDeque};

use prost::Message;
use setpoint_api::etcdserverpb as pb;

use crate::answer::Arrived;
use crate::stream::{NO_WATCH, is_progress};

/// etcd splits responses at its request limit plus overhead: 1.5 MiB + 512 KiB.
const FRAGMENT_BYTES_MAX: usize = 2 * 1024 * 1024;

#[derive(Debug, Default)]
struct WatchState {
    fragment_asked: bool,
    progress_asked: bool,
    /// The revision of the last event delivered.
    last_event: i64,
    /// Progress said that everything up to here was delivered.
    floor: i64,
    canceled: bool,
}

/// The rules of one stream, with what they need to remember between looks at it.
#[derive(Debug, Default)]
pub struct StreamRules {
    watches: HashMap<i64, WatchState>,
    /// The watches asked for whose creation was not judged yet, in order.
    asked: VecDeque<WatchState>,
    progress: i64,
    /// The watch whose fragmented response is not complete yet.
    open_fragment: Option<i64>,
}

impl StreamRules {
    /// A watch was asked for with these options; its creation is among the next responses.
    pub fn asked(&mut self, fragment_asked: bool, progress_asked: bool) {
        self.asked.push_back(WatchState { fragment_asked, progress_asked, ..WatchState::default() });
    }

    /// Judges responses in order of arrival.
    pub fn judge(&mut self, responses: &[Arrived]) -> Vec<String> {
        let mut complaints = Vec::new();
        for Arrived { response, .. } in responses {
            if response.created {
                self.judge_created(response, &mut complaints);
                continue;
            }
            self.judge_fragment(response, &mut complaints);
            if is_progress(response) {
                self.judge_progress(response, &mut complaints);
            } else {
                self.judge_watch(response, &mut complaints);
            }
        }
        complaints
    }

    /// The id may be one that an ended watch had.
    fn judge_created(&mut self, response: &pb::WatchResponse, complaints: &mut Vec<String>) {
        match self.asked.pop_front() {
            None => complaints.push(format!("watch {} was created but not asked for", response.watch_id)),
            Some(_) if response.canceled => {}
            Some(state) => {
                self.watches.insert(response.watch_id, state);
            }
        }
    }

    fn judge_fragment(&mut self, response: &pb::WatchResponse, complaints: &mut Vec<String>) {
        let id = response.watch_id;
        if let Some(open) = self.open_fragment
            && open != id
        {
            complaints.push(format!("response of watch {id} between the fragments of watch {open}"));
        }
        let asked = self.watches.get(&id).is_some_and(|watch| watch.fragment_asked);
        if response.fragment && !asked {
            complaints.push(format!("watch {id} did not ask for fragments"));
        }
        if asked && response.events.len() > 1 && response.encoded_len() > FRAGMENT_BYTES_MAX {
            complaints.push(format!("watch {id} asked for fragments but got an oversized response"));
        }
    }

    fn judge_progress(&mut self, response: &pb::WatchResponse, complaints: &mut Vec<String>) {
        let id = response.watch_id;
        let revision = header_revision(response);
        if id == NO_WATCH {
            if revision < self.progress {
                complaints.push(format!("progress went back from {} to {revision}", self.progress));
            }
            self.progress = self.progress.max(revision);
            for watch in self.watches.values_mut() {
                watch.floor = watch.floor.max(revision);
            }
            return;
        }
        let watch = self.watches.entry(id).or_default();
        if !watch.progress_asked {
            complaints.push(format!("watch {id} got a response without events"));
        }
        if revision < watch.floor || revision < watch.last_event {
            complaints.push(format!("progress of watch {id} went back to {revision}"));
        }
        watch.floor = watch.floor.max(revision);
    }

    fn judge_watch(&mut self, response: &pb::WatchResponse, complaints: &mut Vec<String>) {
        let id = response.watch_id;
        let watch = self.watches.entry(id).or_default();
        // A second cancellation is not one too many: clients may cancel what compaction has canceled.
        if watch.canceled && !response.events.is_empty() {
            complaints.push(format!("watch {id} delivered after its cancellation"));
        }
        watch.canceled |= response.canceled;

        let continues = self.open_fragment == Some(id);
        self.open_fragment = response.fragment.then_some(id);
        let revisions = response.events.iter().map(|event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision));
        for (index, revision) in revisions.enumerate() {
            if revision < watch.last_event {
                complaints.push(format!("watch {id} delivered {revision} after {}", watch.last_event));
            }
            if index == 0 && !continues && revision == watch.last_event {
                complaints.push(format!("watch {id} got revision {revision} split over two responses"));
            }
            if revision <= watch.floor {
                complaints.push(format!("watch {id} delivered {revision} after progress {}", watch.floor));
            }
            watch.last_event = revision;
        }
        if !response.events.is_empty() && header_revision(response) < watch.last_event {
            complaints.push(format!("watch {id}: header revision below event revision {}", watch.last_event));
        }
    }
}

fn header_revision(response: &pb::WatchResponse) -> i64 {
    response.header.as_ref().map_or(0, |header| header.revision)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{etcdserverpb as pb, mvccpb};

    use super::StreamRules;
    use crate::answer::Arrived;

    fn header(revision: i64) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader { revision, ..Default::default() })
    }

    fn events(revisions: &[i64]) -> pb::WatchResponse {
        let event = |revision: &i64| mvccpb::Event {
            kv: Some(mvccpb::KeyValue { mod_revision: *revision, ..Default::default() }),
            ..Default::default()
        };
        pb::WatchResponse {
            header: header(revisions.last().copied().unwrap_or(0)),
            watch_id: 1,
            events: revisions.iter().map(event).collect(),
            ..Default::default()
        }
    }

    fn progress(revision: i64) -> pb::WatchResponse {
        pb::WatchResponse { header: header(revision), watch_id: -1, ..Default::default() }
    }

    fn judge(fragments: bool, responses: &[pb::WatchResponse]) -> Vec<String> {
        let created = pb::WatchResponse { watch_id: 1, created: true, ..Default::default() };
        let all = std::iter::once(&created).chain(responses);
        let arrived: Vec<Arrived> =
            all.map(|response| Arrived { response: response.clone(), reported: false }).collect();
        let mut rules = StreamRules::default();
        rules.asked(fragments, false);
        rules.judge(&arrived)
    }

    #[test]
    fn a_regular_stream_gives_no_complaint() {
        let mut first = events(&[2, 3, 3]);
        first.fragment = true;
        let stream = [events(&[1]), first, events(&[3, 4]), progress(4), progress(4), events(&[5])];
        assert_eq!(judge(true, &stream), Vec::<String>::new());
    }

    #[test]
    fn each_broken_rule_gives_a_complaint() {
        let mut fragment = events(&[2]);
        fragment.fragment = true;
        let mut other = events(&[3]);
        other.watch_id = 2;
        let mut behind = events(&[7]);
        behind.header = header(6);
        let mut canceled = events(&[]);
        canceled.canceled = true;
        let mut own_progress = progress(1);
        own_progress.watch_id = 1;
        let unasked = pb::WatchResponse { watch_id: 2, created: true, ..Default::default() };
        let cases: [(&str, bool, Vec<pb::WatchResponse>); 10] = [
            ("order", false, vec![events(&[3, 2])]),
            ("atomic", false, vec![events(&[2, 3]), events(&[3, 4])]),
            ("covered", false, vec![behind]),
            ("bookmark", false, vec![progress(5), events(&[5])]),
            ("progress back", false, vec![progress(5), progress(4)]),
            ("fragment not asked", false, vec![fragment.clone()]),
            ("fragment interleaved", true, vec![fragment, other]),
            ("after cancel", false, vec![canceled, events(&[2])]),
            ("empty response", false, vec![own_progress]),
            ("not asked for", false, vec![unasked]),
        ];
        for (name, fragments, responses) in cases {
            assert_eq!(judge(fragments, &responses).len(), 1, "{name}");
        }
    }
}
