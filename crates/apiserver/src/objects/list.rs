//! List: the objects of a kind, in pages of one revision.
//!
//! Without selectors a page is the next piece of the range, read at the list's revision. With selectors the index says
//! which objects there are, and only those are read; where it cannot (a revision too old for it, a kind too large), objects are
//! looked at one after the other, a bounded number per page.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::raw::RawObject;
use setpoint_api::raw::v1 as raw;
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::command::Range;
use setpoint_store::{KeyValue, PageMax, Pages, ReadFailure, Store};
use setpoint_types::{KeyRange, Revision};

use super::error::Refusal;
use super::event::View;
use super::freshness::{At, Settled};
use super::get::part;
use super::index::{Selected, Wanted};
use super::key::{self, ObjectName};
use super::reader::{OVERTAKEN_MAX, Reader, blocking};
use super::scope::Scope;
use super::selection::Selection;
use super::token::Token;

/// Objects looked at between two looks at how many were found.
const SCANNED_TOGETHER: usize = 512;
/// Objects the index found that are read together before it is known how large they are, and at most.
const TOGETHER_FIRST: usize = 32;
const TOGETHER_MAX: usize = 256;

/// A page before it is written down.
struct Page {
    revision: Revision,
    found: Vec<KeyValue>,
    /// The last key that was looked at, if there may be more behind it.
    rest_after: Option<Vec<u8>>,
    remaining: Option<u64>,
}

#[derive(Clone, Copy)]
struct PageLimits {
    objects: usize,
    bytes: usize,
    scanned: usize,
}

impl Reader {
    pub async fn list(&self, request: pb::ListRequest) -> Result<raw::ListResponse, Refusal> {
        let at = match request.r#continue.is_empty() {
            true => At::from_wire(request.at)?,
            false => At::Cached,
        };
        let at = self.ready(&request.kind, at).await?;
        let kind = self.catalog.served(&request.kind)?;
        let selection = Selection::parse(&kind, &request.label_selector, &request.field_selector)?;
        let scope = Scope::of(kind, &request.namespace, &selection)?;
        let view = Arc::new(View { kind: scope.kind.clone(), selection, part: part(request.metadata_only) });
        let limits = self.page_limits(request.limit);
        let page = if request.r#continue.is_empty() {
            self.first_page(at, &scope, &view, limits).await?
        } else {
            let token = Token::decode(&request.r#continue, &request, &scope.range)?;
            self.settle(At::Exact(token.revision)).await?;
            self.later_page(token, &scope, &view, limits).await?
        };
        let token = page
            .rest_after
            .map(|last| Token { revision: page.revision, last, remaining: page.remaining }.encode(&request));
        let object = |kv: KeyValue| RawObject::of(kv.value, kv.modified.get(), view.part);
        Ok(raw::ListResponse {
            objects: page.found.into_iter().map(object).collect(),
            revision: page.revision.get(),
            remaining: page.remaining.filter(|remaining| *remaining > 0 && token.is_some()),
            r#continue: token.unwrap_or_default(),
        })
    }

    fn page_limits(&self, limit: u32) -> PageLimits {
        let most = self.limits.page_objects;
        let objects = if limit == 0 { most } else { most.min(limit as usize) };
        PageLimits { objects, bytes: self.limits.page_bytes, scanned: self.limits.scanned_objects }
    }

    async fn first_page(
        &self,
        at: At,
        scope: &Scope,
        view: &Arc<View>,
        limits: PageLimits,
    ) -> Result<Page, Refusal> {
        for _ in 0..OVERTAKEN_MAX {
            let settled = self.settle(at).await?;
            let read = match self.indexed(scope, view, settled, "", limits.objects).await {
                Some(selected) => self.read_selected(view, selected, limits).await?,
                None => self.read_range(scope, view, settled, limits).await?,
            };
            match read {
                // The newest state was overtaken by writes and a compaction: there is a newer one to read.
                Err(ReadFailure::Overtaken | ReadFailure::Rejected(_)) if settled == Settled::Newest => {}
                read => return read.map_err(|failure| self.read_failure(failure)),
            }
        }
        Err(Refusal::expired(self.oldest_kept()))
    }

    async fn later_page(
        &self,
        token: Token,
        scope: &Scope,
        view: &Arc<View>,
        limits: PageLimits,
    ) -> Result<Page, Refusal> {
        let last = ObjectName::within_kind(&token.last).map_or("", |(_, name)| name);
        let at = Settled::Exactly(token.revision);
        if let Some(selected) = self.indexed(scope, view, at, last, limits.objects).await {
            let read = self.read_selected(view, selected, limits).await?;
            return read.map_err(|failure| self.read_failure(failure));
        }
        let range = key::after(scope.range.clone(), &token.last);
        let (store, view) = (self.store.clone(), view.clone());
        let page = blocking(move || {
            let pages = store.open_pages_at(range, token.revision)?;
            let mut page = scan(&store, pages, token.revision, &view, limits)?;
            page.remaining = token.remaining.map(|left| left.saturating_sub(page.found.len() as u64));
            Ok(page)
        });
        page.await?.map_err(|failure| self.read_failure(failure))
    }

    /// What the index finds behind a `namespace/name`, if there is something to select by and it knows, or soon will know, the
    /// right revision.
    pub(super) async fn indexed(
        &self,
        scope: &Scope,
        view: &View,
        settled: Settled,
        after: &str,
        limit: usize,
    ) -> Option<Selected> {
        if view.selection.is_everything() || scope.is_one_object() {
            return None;
        }
        let wanted =
            Wanted { namespace: scope.namespace.as_deref(), selection: &view.selection, after, limit };
        let (fresh_enough, at) = match settled {
            Settled::Newest => (self.store.revision(), None),
            Settled::Exactly(revision) => (revision, Some(revision)),
        };
        tokio::time::timeout(self.limits.wait, self.index.reached(fresh_enough)).await.ok()?;
        self.index.select(&scope.kind, &wanted, at)
    }

    /// Reads what the index found.
    async fn read_selected(
        &self,
        view: &Arc<View>,
        selected: Selected,
        limits: PageLimits,
    ) -> Result<Result<Page, ReadFailure>, Refusal> {
        let (store, view) = (self.store.clone(), view.clone());
        blocking(move || {
            let Selected { revision, names, mut more, sure } = selected;
            let (mut found, mut bytes, mut last) = (Vec::with_capacity(names.len()), 0, None);
            let mut left = &names[..];
            while !left.is_empty() && found.len() < limits.objects && bytes < limits.bytes {
                let some = &left[..together(found.len(), bytes, limits.bytes).min(left.len())];
                for (name, kv) in some.iter().zip(read_some(&store, &view, some, revision, sure)?) {
                    if found.len() == limits.objects || bytes >= limits.bytes {
                        break;
                    }
                    left = &left[1..];
                    last = Some(name);
                    bytes += kv.as_ref().map_or(0, |kv| kv.value.len());
                    found.extend(kv);
                }
            }
            more |= !left.is_empty();
            let rest_after = last.filter(|_| more).map(|name| key_of(&view, name).to_vec());
            Ok(Page { revision, found, rest_after, remaining: None })
        })
        .await
    }

    async fn read_range(
        &self,
        scope: &Scope,
        view: &Arc<View>,
        settled: Settled,
        limits: PageLimits,
    ) -> Result<Result<Page, ReadFailure>, Refusal> {
        let (store, range, view) = (self.store.clone(), scope.range.clone(), view.clone());
        blocking(move || {
            let (pages, revision, count) = open(&store, range, settled)?;
            let mut page = scan(&store, pages, revision, &view, limits)?;
            if view.selection.is_everything() {
                page.remaining = count.map(|count| count.saturating_sub(page.found.len() as u64));
            }
            Ok(page)
        })
        .await
    }
}

/// Opens a range at the revision to read it at, and counts it if that costs nothing.
pub(super) fn open(
    store: &Store,
    range: KeyRange,
    settled: Settled,
) -> Result<(Pages, Revision, Option<u64>), ReadFailure> {
    match settled {
        Settled::Newest => {
            let pages = store.open_pages(&Range::latest(range))?;
            let (revision, count) = (pages.whole().revision, pages.whole().count);
            Ok((pages, revision, Some(count)))
        }
        Settled::Exactly(revision) => Ok((store.open_pages_at(range, revision)?, revision, None)),
    }
}

/// How many of those the index found are read together, while none or so many are there and of so many bytes: as many as still
/// fit, if the rest are like these.
pub(super) fn together(found: usize, bytes: usize, bytes_max: usize) -> usize {
    let Some(each) = bytes.checked_div(found) else { return TOGETHER_FIRST };
    (bytes_max.saturating_sub(bytes) / each.max(1)).clamp(1, TOGETHER_MAX)
}

/// Objects that the index found, at a revision, each in its place. If that was not sure, none for one that was not there, or
/// not selected.
pub(super) fn read_some(
    store: &Store,
    view: &View,
    names: &[Arc<str>],
    revision: Revision,
    sure: bool,
) -> Result<Vec<Option<KeyValue>>, ReadFailure> {
    let keys: Vec<Bytes> = names.iter().map(|name| key_of(view, name)).collect();
    let mut read = store.get_many(&keys, revision)?;
    if sure && read.iter().any(Option::is_none) {
        return Err(ReadFailure::Overtaken);
    }
    if !sure {
        read.iter_mut().for_each(|it| drop(it.take_if(|kv| !view.selects(&kv.key, &kv.value))));
    }
    Ok(read)
}

/// The key of an object of the view's kind, from its `namespace/name`.
fn key_of(view: &View, within_kind: &str) -> Bytes {
    let (namespace, name) = within_kind.split_once('/').unwrap_or(("", within_kind));
    ObjectName { kind: view.kind.name(), namespace, name }.key()
}

/// Takes what is selected out of a range, until the page is full or enough was looked at.
fn scan(
    store: &Store,
    mut pages: Pages,
    revision: Revision,
    view: &View,
    limits: PageLimits,
) -> Result<Page, ReadFailure> {
    let (mut found, mut bytes, mut scanned, mut last) = (Vec::new(), 0, 0, None);
    let everything = view.selection.is_everything();
    loop {
        let wanted = limits.objects - found.len();
        let keys = if everything { wanted } else { SCANNED_TOGETHER };
        let max = PageMax { keys, bytes: limits.bytes - bytes };
        let piece = store.next_page(&mut pages, max)?;
        for kv in piece.kvs {
            // What was read beyond the page comes again with the next one.
            if found.len() == limits.objects || bytes >= limits.bytes {
                return Ok(Page { revision, found, rest_after: last, remaining: None });
            }
            scanned += 1;
            last = Some(kv.key.to_vec());
            if view.selects(&kv.key, &kv.value) {
                bytes += kv.value.len();
                found.push(kv);
            }
        }
        if piece.last {
            return Ok(Page { revision, found, rest_after: None, remaining: None });
        }
        if found.len() >= limits.objects || bytes >= limits.bytes || scanned >= limits.scanned {
            return Ok(Page { revision, found, rest_after: last, remaining: None });
        }
    }
}
