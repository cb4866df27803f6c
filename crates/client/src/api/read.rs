//! Reading: one object, lists in pages, the past of an object.

use setpoint_api::setpoint::v1 as pb;
use setpoint_types::Revision;
use setpoint_types::object::Author;

use super::Api;
use crate::call::Call;
use crate::convert;
use crate::error::Error;
use crate::options::{ListOptions, ReadAt};
use crate::shape::Shape;

/// A part of a list. **Guarantees**: all parts are of one revision, whatever is written meanwhile. **Does not promise** that the next one can
/// still be had: after a compaction it is refused ([`Error::is_expired`]), and the list is to be begun anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub objects: Vec<T>,
    /// Of the list: watch from here to miss nothing.
    pub revision: Revision,
    /// How to go on; none on the last page.
    pub next: Option<String>,
    /// How many are left, where that is known.
    pub remaining: Option<u64>,
}

/// A kept version of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<T> {
    /// Its state, or the last one before the deletion.
    pub object: T,
    pub revision: Revision,
    pub deleted: bool,
    pub author: Author,
}

/// Versions of an object, newest first. **Guarantees**: between the newest and the oldest of them none is left out. **Does not promise** what
/// is older than `oldest_kept`.
#[derive(Clone, Debug, PartialEq)]
pub struct Versions<T> {
    pub versions: Vec<Version<T>>,
    /// There are older ones.
    pub more: bool,
    /// What is older than this is no longer kept.
    pub oldest_kept: Revision,
}

impl<K: Shape> Api<K> {
    /// The object of this name, as it is after every write acknowledged before.
    pub async fn get(&self, name: &str) -> Result<K::Object, Error> {
        Ok(self.get_at(name, ReadAt::Latest).await?.0)
    }

    /// The object, or none if there is no such.
    pub async fn find(&self, name: &str) -> Result<Option<K::Object>, Error> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object as fresh, or as old, as asked for, and the revision the answer is of.
    pub async fn get_at(&self, name: &str, at: ReadAt) -> Result<(K::Object, Revision), Error> {
        let key = self.key("get", name)?;
        let call = Call::read("get", &key);
        let request = pb::GetRequest {
            key: Some(convert::wire_key(&key)),
            at: Some(convert::wire_at(at)),
            metadata_only: K::METADATA_ONLY,
        };
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.get(request).await });
        let answer = answer.await?;
        Ok((self.object(&call, answer.object)?, Revision::new(answer.revision)))
    }

    /// The first page of a list.
    pub async fn list(&self, options: &ListOptions) -> Result<Page<K::Object>, Error> {
        self.page(options, String::new()).await
    }

    /// The page after another one, at its revision, whatever `options.at` says.
    pub async fn list_next(
        &self,
        options: &ListOptions,
        page: &Page<K::Object>,
    ) -> Result<Option<Page<K::Object>>, Error> {
        match &page.next {
            Some(next) => self.page(options, next.clone()).await.map(Some),
            None => Ok(None),
        }
    }

    /// All pages, and the revision they are of. Holds the whole list in memory. If the revision is compacted in between, that
    /// is [`Error::is_expired`], and nothing is returned.
    pub async fn list_all(&self, options: &ListOptions) -> Result<(Vec<K::Object>, Revision), Error> {
        let mut page = self.list(options).await?;
        let mut objects = std::mem::take(&mut page.objects);
        while let Some(mut next) = self.list_next(options, &page).await? {
            objects.append(&mut next.objects);
            page = next;
        }
        Ok((objects, page.revision))
    }

    async fn page(&self, options: &ListOptions, token: String) -> Result<Page<K::Object>, Error> {
        let call = Call::read("list", self.whole());
        let request = pb::ListRequest {
            kind: self.kind.to_string(),
            namespace: self.scope.name().to_owned(),
            label_selector: options.labels.clone(),
            field_selector: options.fields.clone(),
            at: Some(convert::wire_at(options.at)),
            metadata_only: K::METADATA_ONLY,
            limit: options.page,
            r#continue: token,
        };
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.list(request).await });
        let answer = answer.await?;
        let mut objects = Vec::with_capacity(answer.objects.len());
        for object in answer.objects {
            objects.push(self.object(&call, Some(object))?);
        }
        Ok(Page {
            objects,
            revision: Revision::new(answer.revision),
            next: (!answer.r#continue.is_empty()).then_some(answer.r#continue),
            remaining: answer.remaining,
        })
    }

    /// The kept versions of an object, newest first, at most so many (0: 100), only those before a revision if one is given.
    pub async fn history(
        &self,
        name: &str,
        limit: u32,
        before: Option<Revision>,
    ) -> Result<Versions<K::Object>, Error> {
        let key = self.key("history", name)?;
        let call = Call::read("history", &key);
        let before = before.map_or(0, Revision::get);
        let request = pb::HistoryRequest { key: Some(convert::wire_key(&key)), limit, before };
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.history(request).await });
        let answer = answer.await?;
        let mut versions = Vec::with_capacity(answer.versions.len());
        for version in answer.versions {
            versions.push(Version {
                object: self.object(&call, version.object)?,
                revision: Revision::new(version.revision),
                deleted: version.deleted,
                author: convert::author(version.author.unwrap_or_default()),
            });
        }
        Ok(Versions { versions, more: answer.more, oldest_kept: Revision::new(answer.oldest_kept) })
    }

    /// An object of an answer, read.
    pub(super) fn object(&self, call: &Call, object: Option<pb::Object>) -> Result<K::Object, Error> {
        let object = object.ok_or_else(|| call.unreadable("the object is missing"))?;
        K::read(convert::parts(object)).map_err(|problem| call.bad_field(&problem))
    }
}
