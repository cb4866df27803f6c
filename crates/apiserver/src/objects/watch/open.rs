//! From a request to a stream: what it is of, and where it begins.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_store::{ReadFailure, Store};
use setpoint_types::{KeyRange, Revision};
use tokio::time::Instant;

use super::initial::{Initial, Source};
use super::stream::{Held, WatchAnswers, Watching};
use crate::objects::error::Refusal;
use crate::objects::event::View;
use crate::objects::feed::Feed;
use crate::objects::freshness::{At, Settled};
use crate::objects::get::part;
use crate::objects::index::Selected;
use crate::objects::list;
use crate::objects::reader::{OVERTAKEN_MAX, Reader, blocking};
use crate::objects::scope::Scope;
use crate::objects::selection::Selection;

/// More than so many objects the index does not list for a watch: reading all of them in order is then no slower.
const FOUND_MAX: usize = 10_000;
/// Bookmarks come no faster, whatever is asked for.
const BOOKMARK_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Where a watch begins.
enum Start {
    /// With what changes after a revision.
    After(Revision),
    With(Initial),
}

impl Reader {
    pub async fn watch(&self, request: pb::WatchRequest) -> Result<WatchAnswers, Refusal> {
        self.watch_holding(request, Held::default()).await
    }

    /// The same, for a client that holds something for it.
    pub async fn watch_holding(
        &self,
        request: pb::WatchRequest,
        held: Held,
    ) -> Result<WatchAnswers, Refusal> {
        let at = At::from_wire(request.at)?;
        if matches!(at, At::Exact(_) | At::Time(_)) && !request.initial_state {
            let text = "needs initial_state, whose revision it is; begin at another with from_revision";
            return Err(Refusal::invalid("at", text));
        }
        let at = if request.from_revision == 0 { at } else { At::Cached };
        let at = self.ready(&request.kind, at).await?;
        let kind = self.catalog.served(&request.kind)?;
        let selection = Selection::parse(&kind, &request.label_selector, &request.field_selector)?;
        let scope = Scope::of(kind, &request.namespace, &selection)?;
        let view = Arc::new(View { kind: scope.kind.clone(), selection, part: part(request.metadata_only) });
        let start = self.start(&request, at, &scope, &view).await?;
        let (initial, after) = match start {
            Start::After(after) => (None, after),
            Start::With(initial) => {
                let after = initial.revision();
                (Some(initial), after)
            }
        };
        let bookmark_interval = match request.bookmark_interval_ms {
            0 => self.limits.bookmark_interval,
            millis => Duration::from_millis(millis.into()).max(BOOKMARK_INTERVAL_MIN),
        };
        let watching = Watching {
            namespace: scope.namespace,
            feed: Feed::open_watch(&self.hub, &self.store, scope.range, after),
            reader: self.clone(),
            view,
            initial,
            held,
            position: after,
            bookmark_interval,
            sent_at: Instant::now(),
            deadline: Instant::now() + self.lasting(request.timeout_ms),
        };
        Ok(watching.into_answers())
    }

    async fn start(
        &self,
        request: &pb::WatchRequest,
        at: At,
        scope: &Scope,
        view: &Arc<View>,
    ) -> Result<Start, Refusal> {
        let from = Revision::new(request.from_revision.min(Revision::MAX.get()));
        if request.initial_state && !from.is_none() {
            let text = "must be 0 with initial_state, which sends the current state and what comes after it";
            return Err(Refusal::invalid("from_revision", text));
        }
        if !from.is_none() {
            // A client that comes from another node may be ahead of this one.
            self.reach(from).await?;
            return Ok(Start::After(from));
        }
        if request.initial_state {
            return self.start_with_state(at, scope, view).await.map(Start::With);
        }
        Ok(Start::After(match self.settle(at).await? {
            Settled::Newest => self.store.revision(),
            Settled::Exactly(revision) => revision,
        }))
    }

    async fn start_with_state(&self, at: At, scope: &Scope, view: &Arc<View>) -> Result<Initial, Refusal> {
        for _ in 0..OVERTAKEN_MAX {
            let settled = self.settle(at).await?;
            let found = self.indexed(scope, view, settled, "", FOUND_MAX).await.filter(|found| !found.more);
            let (revision, source) = match found {
                Some(found) => {
                    let Selected { revision, names, sure, .. } = found;
                    (revision, Source::Found { names: names.into_iter(), sure })
                }
                None => {
                    let (store, range) = (self.store.clone(), scope.range.clone());
                    match blocking(move || open_range(&store, range, settled)).await? {
                        Ok(opened) => opened,
                        Err(ReadFailure::Overtaken | ReadFailure::Rejected(_))
                            if settled == Settled::Newest =>
                        {
                            continue;
                        }
                        Err(failure) => return Err(self.read_failure(failure)),
                    }
                }
            };
            let (store, view, bytes) = (self.store.clone(), view.clone(), self.limits.response_bytes);
            return Ok(Initial::start(store, view, revision, source, bytes));
        }
        Err(Refusal::expired(self.oldest_kept()))
    }

    /// How long a watch lasts.
    fn lasting(&self, timeout_ms: u32) -> Duration {
        if timeout_ms > 0 {
            return Duration::from_millis(timeout_ms.into());
        }
        #[expect(clippy::disallowed_methods, reason = "timing only: no answer depends on it")]
        let share = rand::random::<f64>();
        self.limits.watch_timeout.mul_f64(1.0 + share)
    }
}

/// A state of so many objects is sent in whatever order it can be read in; people, who look at smaller ones, like to see
/// them by name.
const MANY: u64 = 1_024;

/// Opens a range at the revision to read it at.
fn open_range(store: &Store, range: KeyRange, settled: Settled) -> Result<(Revision, Source), ReadFailure> {
    let (pages, revision, count) = list::open(store, range.clone(), settled)?;
    if count.is_some_and(|count| count >= MANY) {
        let census = store.open_census(range);
        return Ok((census.revision(), Source::Census(census)));
    }
    Ok((revision, Source::Range(pages)))
}
