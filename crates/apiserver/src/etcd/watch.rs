//! Watch: one bidirectional stream, any number of watches.

use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use prost::Message;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::watch_create_request::FilterType;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use setpoint_api::etcdserverpb::watch_server::Watch;
use setpoint_api::mvccpb;
use setpoint_types::{KeyRange, Revision};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::context::{Context, leader_required};
use super::convert;
use super::error::EtcdError;
use super::permit;
use crate::access::Denied;
use crate::watch::{Command, Event, Filters, Output, StreamEnd, StreamOptions, WatchSpec, WatchStream};

/// Answers on their way to one client. Small: what waits here was taken out of the shared ring.
const OUTPUT_QUEUE: usize = 4;
/// What a response may hold beyond the largest request, before it is cut into fragments.
const FRAGMENT_SLACK: usize = 512 << 10;

pub struct WatchService(pub Context);

type Responses = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Watch for WatchService {
    type WatchStream = Responses;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let context = self.0.clone();
        let watches = context.load.watches_of(request.extensions());
        let needs_leader = leader_required(request.metadata());
        let (standing, asked) = (context.gate.standing(&request), context.gate.standing(&request));
        let permitted = move |request| command(request, |create| asked.check(|| permit::watch(create)));
        let commands = request
            .into_inner()
            .filter_map(move |request| std::future::ready(request.map(&permitted).transpose()));
        let (output, answers) = mpsc::channel(OUTPUT_QUEUE);
        let options = StreamOptions {
            progress_interval: jittered(context.limits.watch_progress_interval),
            response_bytes: context.limits.request_bytes,
            watches_max: context.limits.watches_per_stream,
        };
        let stream = WatchStream::new(
            context.replica.hub.clone(),
            context.replica.store.clone(),
            options,
            output.clone(),
        )
        .counted(watches)
        .guarded(standing);
        let leader_lost = leader_lost(context.clone());
        tokio::spawn(async move {
            let end = tokio::select! {
                end = stream.run(commands) => end,
                () = leader_lost, if needs_leader => StreamEnd::NoLeader,
            };
            tracing::debug!(%end, "a watch stream ended");
            // A client that left does not hear it.
            let _ = output.send(Output::Ended(end)).await;
        });
        let responses = ReceiverStream::new(answers)
            .flat_map(move |output| futures::stream::iter(answer(&context, output)));
        Ok(Response::new(Box::pin(responses)))
    }
}

/// Resolves once this node has known no leader for three elections, as etcd counts it.
async fn leader_lost(context: Context) {
    let mut status = context.replica.node.status();
    let patience = context.limits.election_timeout * 3;
    loop {
        if status.wait_for(|status| status.leader.is_none()).await.is_err() {
            return;
        }
        let returned = status.wait_for(|status| status.leader.is_some());
        if tokio::time::timeout(patience, returned).await.is_err() {
            return;
        }
    }
}

/// Spreads the notifications of many streams.
fn jittered(interval: std::time::Duration) -> std::time::Duration {
    #[expect(clippy::disallowed_methods, reason = "timing only: no answer depends on it")]
    let share = rand::random::<f64>() * 0.1;
    interval.mul_f64(1.0 + share)
}

/// What a request asks for; a request that asks for nothing is ignored.
fn command(
    request: pb::WatchRequest,
    check: impl FnOnce(&pb::WatchCreateRequest) -> Result<(), Denied>,
) -> Option<Command> {
    match request.request_union? {
        RequestUnion::CreateRequest(create) => Some(match check(&create) {
            Ok(()) => create_command(create),
            // As etcd does: this watch is refused, those beside it on the stream go on.
            Err(denied) => Command::Refuse { reason: permit::denied(denied).message().to_owned() },
        }),
        RequestUnion::CancelRequest(cancel) => Some(Command::Cancel { id: cancel.watch_id }),
        RequestUnion::ProgressRequest(_) => Some(Command::Progress),
    }
}

fn create_command(create: pb::WatchCreateRequest) -> Command {
    let refuse = |reason: &str| Command::Refuse { reason: reason.to_owned() };
    // In this order: a request with both faults is refused for the first, as by etcd.
    let Ok(start) = u64::try_from(create.start_revision) else {
        return refuse("etcdserver: mvcc: required revision has been compacted");
    };
    let key = if create.key.is_empty() { Bytes::from_static(&[0]) } else { create.key.clone() };
    let range = KeyRange::from_wire(key, create.range_end.clone());
    if range.is_empty() {
        return refuse("mvcc: watcher range is empty");
    }
    let filters = Filters {
        no_puts: create.filters().any(|filter| filter == FilterType::Noput),
        no_deletes: create.filters().any(|filter| filter == FilterType::Nodelete),
    };
    let spec = WatchSpec {
        range,
        start: (start > 0).then_some(Revision::new(start)),
        filters,
        previous: create.prev_kv,
        progress: create.progress_notify,
        fragment: create.fragment,
    };
    Command::Create { id: (create.watch_id != 0).then_some(create.watch_id), spec }
}

/// What to send for one output: several pieces if it is cut, an error if the stream ends.
fn answer(context: &Context, output: Output) -> Vec<Result<pb::WatchResponse, Status>> {
    match output {
        Output::Ended(StreamEnd::ClientGone) => Vec::new(),
        Output::Ended(StreamEnd::NoLeader) => vec![Err(EtcdError::NoLeader.into())],
        Output::Ended(StreamEnd::Storage(failure)) => vec![Err(context.storage_failure(&failure))],
        output => responses(context, output).into_iter().map(Ok).collect(),
    }
}

fn responses(context: &Context, output: Output) -> Vec<pb::WatchResponse> {
    let base = |id: i64, revision: Revision| pb::WatchResponse {
        header: context.header(revision),
        watch_id: id,
        ..Default::default()
    };
    match output {
        Output::Created { id, revision } => vec![pb::WatchResponse { created: true, ..base(id, revision) }],
        Output::Refused { reason, revision } => {
            vec![pb::WatchResponse {
                created: true,
                canceled: true,
                cancel_reason: reason,
                ..base(-1, revision)
            }]
        }
        Output::Events { id, revision, events, fragment } => {
            let events = events.into_iter().map(event).collect();
            let response = pb::WatchResponse { events, ..base(id, revision) };
            if fragment {
                fragments(response, context.limits.request_bytes + FRAGMENT_SLACK)
            } else {
                vec![response]
            }
        }
        Output::Canceled { id, revision } => vec![pb::WatchResponse { canceled: true, ..base(id, revision) }],
        Output::Compacted { id, compacted } => {
            context.metrics.watches_overtaken.inc();
            let compact_revision = compacted.wire();
            vec![pb::WatchResponse { canceled: true, compact_revision, ..base(id, Revision::NONE) }]
        }
        Output::Denied { id, denied } => {
            let cancel_reason = permit::denied(denied).message().to_owned();
            let revision = context.replica.store.revision();
            vec![pb::WatchResponse { canceled: true, cancel_reason, ..base(id, revision) }]
        }
        Output::Progress { id, revision } => vec![base(id.unwrap_or(-1), revision)],
        Output::Ended(_) => Vec::new(),
    }
}

fn event(event: Event) -> mvccpb::Event {
    use mvccpb::event::EventType;
    let kind = if event.deleted { EventType::Delete } else { EventType::Put };
    mvccpb::Event {
        r#type: kind.into(),
        kv: Some(convert::key_value(event.current)),
        prev_kv: event.previous.map(convert::key_value),
    }
}

/// Cuts a response between events so that each piece stays below `bytes_max`, if its events allow that.
fn fragments(response: pb::WatchResponse, bytes_max: usize) -> Vec<pb::WatchResponse> {
    if response.encoded_len() < bytes_max || response.events.len() < 2 {
        return vec![response];
    }
    let empty = pb::WatchResponse { events: Vec::new(), ..response.clone() };
    let mut pieces = vec![empty.clone()];
    let mut size = empty.encoded_len();
    for event in response.events {
        let bytes = event.encoded_len() + 8;
        let last = pieces.last_mut().expect("starts with one and only grows");
        if size + bytes >= bytes_max && !last.events.is_empty() {
            last.fragment = true;
            pieces.push(empty.clone());
            size = empty.encoded_len();
        }
        size += bytes;
        pieces.last_mut().expect("starts with one and only grows").events.push(event);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(sizes: &[usize]) -> pb::WatchResponse {
        let event = |size: &usize| mvccpb::Event {
            kv: Some(mvccpb::KeyValue { value: vec![0; *size].into(), ..Default::default() }),
            ..Default::default()
        };
        pb::WatchResponse { watch_id: 3, events: sizes.iter().map(event).collect(), ..Default::default() }
    }

    #[test]
    fn fragments_keep_every_event_in_order_and_flag_all_but_the_last() {
        let whole = response(&[400, 300, 500, 900, 10, 2000, 5]);
        let pieces = fragments(whole.clone(), 1000);
        assert!(pieces.len() > 2);
        let joined: Vec<_> = pieces.iter().flat_map(|piece| piece.events.clone()).collect();
        assert_eq!(joined, whole.events);
        let flags: Vec<_> = pieces.iter().map(|piece| piece.fragment).collect();
        assert_eq!(flags.iter().filter(|flag| !**flag).count(), 1);
        assert_eq!(flags.last(), Some(&false));
        assert!(pieces.iter().all(|piece| piece.encoded_len() < 1000 || piece.events.len() == 1));
    }

    #[test]
    fn a_watch_is_refused_for_its_start_before_its_range() {
        let reason = |key: &'static str, end: &'static str, start_revision| {
            let (key, range_end) = (key.into(), end.into());
            match create_command(pb::WatchCreateRequest {
                key,
                range_end,
                start_revision,
                ..Default::default()
            }) {
                Command::Refuse { reason } => reason,
                other => format!("{other:?}"),
            }
        };
        assert_eq!(reason("b", "a", -1), "etcdserver: mvcc: required revision has been compacted");
        assert_eq!(reason("b", "a", 0), "mvcc: watcher range is empty");
    }

    #[test]
    fn a_small_response_stays_whole() {
        assert_eq!(fragments(response(&[10, 10]), 1000).len(), 1);
    }
}
