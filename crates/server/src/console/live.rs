//! What keeps a page live: a stream of server-sent events that says which kinds have changed, and up to which revision the page can be.
//!
//! It is made of ordinary watches. Events carry no objects: a page that hears of a change asks again for what it shows. So a stream costs
//! the same however much changes, and a page can miss nothing by being slow: what happens meanwhile is one more beat. A stream says
//! its revision also when nothing happens. A node that knows no leader cannot, which is how a page finds out that it is behind.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_api::setpoint::v1::{WatchRequest, WatchResponse};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::Console;
use super::call::Call;
use super::refusal::Refused;

/// Kinds one stream may follow: a page shows fewer.
const KINDS_MAX: usize = 8;
/// Between two beats; faster nobody reads.
const BEAT_EVERY: Duration = Duration::from_millis(500);
/// Between two signs of life of a quiet stream.
const SIGN_EVERY_MS: u32 = 5_000;
/// A stream ends after this time and the page opens another: a token that is no longer good does not last.
const LASTS_MS: u32 = 600_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    /// `Workload,Node`
    kinds: String,
    /// The revision the page shows; 0: from now on.
    from: u64,
}

type Watched = (String, Result<WatchResponse, Status>);

pub async fn stream(
    State(console): State<Console>,
    call: Call,
    Query(asked): Query<Asked>,
) -> Result<Response, Refused> {
    let kinds: Vec<&str> = asked.kinds.split(',').filter(|kind| !kind.is_empty()).collect();
    if kinds.is_empty() || kinds.len() > KINDS_MAX {
        let sentence = format!("name the kinds to follow, {KINDS_MAX} at most: kinds=Workload,Node");
        return Err(Refused::new(StatusCode::BAD_REQUEST, sentence));
    }
    let Ok(place) = console.live.clone().try_acquire_owned() else {
        let sentence =
            "as many pages are live at this node as it allows; close one, or use another node's console";
        return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, sentence));
    };
    let mut watches = SelectAll::new();
    for kind in kinds {
        watches.push(watch(&call, kind, asked.from).await?);
    }
    let pulse = Pulse { watches, news: News::default(), due: Instant::now(), ended: false, _place: place };
    let body = Body::from_stream(stream::unfold(pulse, Pulse::next));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

async fn watch(call: &Call, kind: &str, from_revision: u64) -> Result<BoxStream<'static, Watched>, Refused> {
    let request = WatchRequest {
        kind: kind.to_owned(),
        from_revision,
        metadata_only: true,
        bookmark_interval_ms: SIGN_EVERY_MS,
        timeout_ms: LASTS_MS,
        ..WatchRequest::default()
    };
    let answers = call.objects().watch(call.request(request)).await?.into_inner();
    let kind = kind.to_owned();
    Ok(answers.map(move |answer| (kind.clone(), answer)).boxed())
}

/// What is to be told at the next beat.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    /// Changes, by kind.
    changes: BTreeMap<String, u64>,
    /// Up to where each kind was followed.
    come_to: BTreeMap<String, u64>,
    /// Something was heard at all.
    heard: bool,
    /// Why it ends.
    end: Option<String>,
}

impl News {
    fn hear(&mut self, kind: String, answer: Result<WatchResponse, Status>) {
        self.heard = true;
        let events = match answer {
            Ok(answer) => answer.events,
            Err(status) => return self.end = Some(status.message().to_owned()),
        };
        for event in events {
            match event.r#type() {
                Type::Error => self.end = Some(event.error.unwrap_or_default().message),
                Type::Bookmark => {
                    self.come_to.insert(kind.clone(), event.revision);
                }
                _ => {
                    *self.changes.entry(kind.clone()).or_default() += 1;
                    self.come_to.insert(kind.clone(), event.revision);
                }
            }
        }
    }

    /// The beat, and a clean sheet.
    fn tell(&mut self) -> Value {
        self.heard = false;
        let revision = self.come_to.values().max().copied().unwrap_or(0);
        json!({ "revision": revision, "changes": std::mem::take(&mut self.changes), "end": self.end })
    }
}

struct Pulse {
    watches: SelectAll<BoxStream<'static, Watched>>,
    news: News,
    due: Instant,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Pulse {
    /// Pulled by the connection: a page that does not read holds up its own watches, which wait as any slow client's.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.due), if self.news.heard => break,
                watched = self.watches.next() => match watched {
                    Some((kind, answer)) => self.news.hear(kind, answer),
                    None => self.news.end = Some("the stream has lasted its time".to_owned()),
                },
            }
            if self.news.end.is_some() {
                self.ended = true;
                break;
            }
        }
        self.due = Instant::now() + BEAT_EVERY;
        let beat = format!("data: {}\n\n", self.news.tell());
        Some((Ok(Bytes::from(beat)), self))
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::setpoint::v1::{Error, WatchEvent};

    use super::*;

    fn answer(kind: Type, revision: u64) -> Result<WatchResponse, Status> {
        let error =
            (kind == Type::Error).then(|| Error { message: "compacted".to_owned(), ..Error::default() });
        Ok(WatchResponse {
            events: vec![WatchEvent { r#type: kind.into(), revision, error, ..WatchEvent::default() }],
        })
    }

    #[test]
    fn a_beat_tells_all_that_happened_since_the_last_one_and_only_that() {
        let mut news = News::default();
        news.hear("Node".to_owned(), answer(Type::Added, 4));
        news.hear("Workload".to_owned(), answer(Type::Modified, 5));
        news.hear("Workload".to_owned(), answer(Type::Deleted, 6));
        assert_eq!(
            news.tell(),
            json!({ "revision": 6, "changes": { "Node": 1, "Workload": 2 }, "end": null })
        );
        news.hear("Node".to_owned(), answer(Type::Bookmark, 9));
        assert_eq!(news.tell(), json!({ "revision": 9, "changes": {}, "end": null }));
    }

    #[test]
    fn a_watch_that_ends_is_told_with_its_reason() {
        let mut news = News::default();
        news.hear("Node".to_owned(), answer(Type::Error, 0));
        assert_eq!(news.end.as_deref(), Some("compacted"));
        let mut news = News::default();
        news.hear("Node".to_owned(), Err(Status::unavailable("the node stops")));
        assert_eq!(news.tell()["end"], "the node stops");
    }
}
