//! One object, followed until somebody has seen enough: every state of it that the server tells of, and that it is gone.

use std::time::Duration;

use setpoint_client::{Api, Dynamic, Error, WatchEvent, WatchOptions};
use setpoint_types::object::Object;
use tokio::time::{Instant, sleep, timeout_at};

use crate::failure::Failure;

/// What is known of an object at a time.
pub enum Seen<'o> {
    There(&'o Object),
    NotThere,
}

/// How following ended.
pub enum Ended<T> {
    /// Enough was seen.
    Enough(T),
    /// Time is up.
    Late,
}

/// Between two tries to go on with a stream that broke.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long a server that was there is waited for: longer than one takes to start again.
const GONE_MAX: Duration = Duration::from_secs(60);

/// Follows an object until `look` returns something, or the deadline. None: for ever.
pub async fn follow<T>(
    api: &Api<Dynamic>,
    name: &str,
    deadline: Option<Instant>,
    mut look: impl FnMut(Seen<'_>) -> Result<Option<T>, Failure>,
) -> Result<Ended<T>, Failure> {
    // Nobody waits for thirty years; a far date is simpler than none.
    let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400 * 365 * 30));
    let options = WatchOptions { fields: format!("metadata.name={name}"), ..WatchOptions::default() };
    let mut gone_since: Option<Instant> = None;
    loop {
        let mut there = false;
        let Ok(opened) = timeout_at(deadline, api.watch(&options)).await else { return Ok(Ended::Late) };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) if goes_on(&error) && gone_since.is_some_and(|since| since.elapsed() < GONE_MAX) => {
                sleep(AGAIN_AFTER).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        loop {
            let Ok(next) = timeout_at(deadline, stream.next()).await else { return Ok(Ended::Late) };
            let events = match next {
                Ok(Some(events)) => events,
                Ok(None) => break,
                Err(error) if goes_on(&error) => break,
                Err(error) => return Err(error.into()),
            };
            for event in events {
                let found = match &event {
                    WatchEvent::Added { object, .. } | WatchEvent::Modified { object, .. } => {
                        there = true;
                        look(Seen::There(object))?
                    }
                    WatchEvent::Deleted { .. } => {
                        there = false;
                        look(Seen::NotThere)?
                    }
                    WatchEvent::Bookmark { initial_state_end: true, .. } if !there => look(Seen::NotThere)?,
                    WatchEvent::Bookmark { .. } => None,
                };
                if let Some(found) = found {
                    return Ok(Ended::Enough(found));
                }
            }
        }
        gone_since = Some(Instant::now());
        if timeout_at(deadline, sleep(AGAIN_AFTER)).await.is_err() {
            return Ok(Ended::Late);
        }
    }
}

/// The stream can be opened again, with the state as it is then.
fn goes_on(error: &Error) -> bool {
    error.is_transient() || error.is_expired()
}
