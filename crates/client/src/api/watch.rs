//! Watching: one stream of changes, from a revision or with the current state first.
//!
//! A stream ends: nodes stop, connections break, time runs out. Going on where it ended is its reader's business, or that of
//! the informer in `setpoint-runtime`, which does it right.

use std::marker::PhantomData;
use std::time::Duration;

use http::uri::PathAndQuery;
use setpoint_api::codec::SizedCodec;
use setpoint_api::raw::{ReceivedEvent, ReceivedEvents};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_types::Revision;
use setpoint_types::object::Author;
use tonic::client::Grpc;
use tonic::{Request, Response, Status, Streaming};

use super::Api;
use crate::attempt::{Health, Safety, judge};
use crate::call::Call;
use crate::convert;
use crate::error::Error;
use crate::options::ReadAt;
use crate::parts::Parts;
use crate::pool::Slot;
use crate::refusal::Refusal;
use crate::shape::Shape;
use crate::wire::Wire;

/// What to watch, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    pub labels: String,
    pub fields: String,
    /// Changes after this revision. None: the current state first, as fresh as `at` asks.
    pub after: Option<Revision>,
    pub at: ReadAt,
    /// A bookmark whenever nothing else was sent for so long; none leaves it to the server, which sends one a minute.
    pub bookmarks: Option<Duration>,
    /// The stream ends by itself after so long; none leaves it to the server.
    pub lasts: Option<Duration>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<T> {
    /// It is new, or has come into the selection.
    Added {
        object: T,
        revision: Revision,
        author: Option<Author>,
    },
    Modified {
        object: T,
        revision: Revision,
        author: Option<Author>,
    },
    /// It is gone, or has left the selection. This is its last state, with the revision that ended it.
    Deleted {
        object: T,
        revision: Revision,
        author: Option<Author>,
    },
    /// Everything up to the revision was sent.
    Bookmark {
        revision: Revision,
        initial_state_end: bool,
    },
}

/// Events with their objects still encoded: what caches are fed with.
///
/// **Guarantees**: events of one answer come together, and an answer holds whole revisions; so after each answer of changes,
/// everything up to its last revision was sent. Bookmarks say the same without a change.
pub struct RawWatch {
    stream: Streaming<ReceivedEvents>,
    slot: Slot,
    call: Call,
}

/// Events with their objects read. **Guarantees**: those of [`RawWatch`].
pub struct Watch<K> {
    raw: RawWatch,
    shape: PhantomData<fn() -> K>,
}

impl<K: Shape> Api<K> {
    /// Opens a stream of changes.
    pub async fn watch(&self, options: &WatchOptions) -> Result<Watch<K>, Error> {
        Ok(Watch { raw: self.watch_raw(options).await?, shape: PhantomData })
    }

    /// The same without reading the objects.
    pub async fn watch_raw(&self, options: &WatchOptions) -> Result<RawWatch, Error> {
        let call = Call::read("watch", self.whole());
        let millis = |time: Option<Duration>| {
            time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
        };
        let request = pb::WatchRequest {
            kind: self.kind.to_string(),
            namespace: self.scope.name().to_owned(),
            label_selector: options.labels.clone(),
            field_selector: options.fields.clone(),
            from_revision: options.after.map_or(0, Revision::get),
            initial_state: options.after.is_none(),
            at: Some(convert::wire_at(options.at)),
            metadata_only: K::METADATA_ONLY,
            bookmark_interval_ms: millis(options.bookmarks),
            timeout_ms: millis(options.lasts),
        };
        let bytes_max = self.client.answer_bytes_max();
        let opened = self.client.open(&call, request, |wire, request| open(wire, request, bytes_max));
        let (answer, slot) = opened.await?;
        Ok(RawWatch { stream: answer.into_inner(), slot, call })
    }
}

/// As the generated client does it, but for the type of the answers.
async fn open(
    wire: Wire,
    request: Request<pb::WatchRequest>,
    bytes_max: usize,
) -> Result<Response<Streaming<ReceivedEvents>>, Status> {
    let mut grpc = Grpc::new(wire).max_decoding_message_size(bytes_max);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/setpoint.v1.Objects/Watch");
    grpc.server_streaming(request, path, SizedCodec::<pb::WatchRequest, ReceivedEvents>::default()).await
}

impl RawWatch {
    /// The next answer. None: the stream has ended in order, and can be gone on with after the last revision.
    ///
    /// Safe to drop and call again: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Vec<ReceivedEvent>>, Error> {
        let answer = match self.stream.message().await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(status) => return Err(self.broken(status)),
        };
        let mut events = Vec::with_capacity(answer.events.len());
        for event in &answer.events {
            let event = ReceivedEvent::read(event).map_err(|problem| self.call.unreadable(problem))?;
            if event.kind() == Type::Error {
                return Err(self.refused(&event));
            }
            events.push(event);
        }
        Ok(Some(events))
    }

    fn refused(&self, event: &ReceivedEvent) -> Error {
        match event.error() {
            Ok(error) => Error::Refused {
                operation: self.call.operation,
                target: self.call.target.clone(),
                refusal: Box::new(Refusal::of_error(error.unwrap_or_default())),
            },
            Err(problem) => self.call.unreadable(problem),
        }
    }

    fn broken(&mut self, status: Status) -> Error {
        let judgement = judge(&status, Safety::Repeatable);
        self.slot.report(judgement.health, None);
        let (operation, target) = (self.call.operation, self.call.target.clone());
        match judgement.next {
            crate::attempt::Next::Answer(refusal) => Error::Refused { operation, target, refusal },
            _ => Error::Unanswered {
                operation,
                target,
                attempts: 1,
                ambiguous: false,
                last: Box::new(status.into()),
            },
        }
    }

    /// Nothing comes from this endpoint any more: others are preferred for a while.
    pub fn report_stalled(&mut self) {
        self.slot.report(Health::Unreachable, None);
    }
}

impl<K: Shape> Watch<K> {
    /// The next answer, with all its events. None: the stream has ended in order.
    pub async fn next(&mut self) -> Result<Option<Vec<WatchEvent<K::Object>>>, Error> {
        let Some(events) = self.raw.next().await? else { return Ok(None) };
        events
            .into_iter()
            .filter_map(|event| self.read(event).transpose())
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn read(&self, event: ReceivedEvent) -> Result<Option<WatchEvent<K::Object>>, Error> {
        let call = &self.raw.call;
        let revision = Revision::new(event.revision);
        let kind = event.kind();
        if kind == Type::Bookmark {
            return Ok(Some(WatchEvent::Bookmark { revision, initial_state_end: event.initial_state_end }));
        }
        let author = event.author().map_err(|problem| call.unreadable(problem))?.map(convert::author);
        let object = event.object.ok_or_else(|| call.unreadable("the object is missing"))?;
        let object = Parts::decode(object).and_then(K::read).map_err(|problem| call.bad_field(&problem))?;
        Ok(match kind {
            Type::Added => Some(WatchEvent::Added { object, revision, author }),
            Type::Modified => Some(WatchEvent::Modified { object, revision, author }),
            Type::Deleted => Some(WatchEvent::Deleted { object, revision, author }),
            // Of a newer server; what it means, only a newer client knows.
            Type::Unspecified | Type::Bookmark | Type::Error => None,
        })
    }
}
