//! Objects of a kind, for pages: in pages by name, the newest, or one.
//!
//! The newest are found by looking at all, up to a bound, because lists come in the order of names; an answer says when it did not see all.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1::{GetRequest, ListRequest, ListResponse, Object, ObjectKey};

use super::Console;
use super::call::Call;
use super::refusal::Refused;
use super::shape;

/// Objects in one answer: more than anybody reads.
pub const PAGE_MAX: u32 = 500;
/// Objects that are looked at for one answer.
pub const LOOKED_AT_MAX: usize = 20_000;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    kind: String,
    namespace: String,
    name: String,
    labels: String,
    fields: String,
    limit: Option<u32>,
    #[serde(rename = "continue")]
    after: String,
}

impl Asked {
    pub fn of(kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..Self::default() }
    }

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX)
    }

    fn request(&self, limit: u32, after: String) -> ListRequest {
        ListRequest {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit,
            r#continue: after,
            ..ListRequest::default()
        }
    }
}

pub async fn page(_: State<Console>, call: Call, Query(asked): Query<Asked>) -> Result<Json<Value>, Refused> {
    let request = asked.request(asked.limit(), asked.after.clone());
    let found = call.objects().list(call.request(request)).await?.into_inner();
    let ListResponse { objects, revision, r#continue: after, remaining } = found;
    let objects: Vec<Value> = objects.into_iter().map(shape::object).collect();
    Ok(Json(json!({ "objects": objects, "revision": revision, "continue": after, "remaining": remaining })))
}

pub async fn newest(
    _: State<Console>,
    call: Call,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, Refused> {
    let most = asked.limit() as usize;
    let mut newest: Vec<Object> = Vec::new();
    let seen = walk(&call, &asked, |object| {
        newest.push(object);
        // Sorted once in a while, so that it costs little and never keeps more than twice what is asked for.
        if newest.len() >= 2 * most {
            keep(&mut newest, most);
        }
    })
    .await?;
    keep(&mut newest, most);
    let objects: Vec<Value> = newest.into_iter().map(shape::object).collect();
    let Walked { revision, objects: looked_at, complete } = seen;
    Ok(Json(json!({ "objects": objects, "revision": revision, "lookedAt": looked_at, "complete": complete })))
}

fn keep(objects: &mut Vec<Object>, most: usize) {
    let revision = |object: &Object| object.metadata.as_ref().map_or(0, |metadata| metadata.revision);
    objects.sort_by_key(|object| std::cmp::Reverse(revision(object)));
    objects.truncate(most);
}

pub struct Walked {
    pub revision: u64,
    pub objects: usize,
    /// There are none that were not looked at.
    pub complete: bool,
}

/// Every object that is asked for, page by page at one revision, up to a bound.
pub async fn walk(call: &Call, asked: &Asked, mut each: impl FnMut(Object)) -> Result<Walked, Refused> {
    let mut walked = Walked { revision: 0, objects: 0, complete: false };
    let mut after = String::new();
    while walked.objects < LOOKED_AT_MAX {
        let request = asked.request(PAGE_MAX, after);
        let found = call.objects().list(call.request(request)).await?.into_inner();
        walked.revision = found.revision;
        walked.objects += found.objects.len();
        found.objects.into_iter().for_each(&mut each);
        after = found.r#continue;
        if after.is_empty() {
            walked.complete = true;
            break;
        }
    }
    Ok(walked)
}

pub async fn object(
    _: State<Console>,
    call: Call,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, Refused> {
    let Asked { kind, namespace, name, .. } = asked;
    let request = GetRequest { key: Some(ObjectKey { kind, namespace, name }), ..GetRequest::default() };
    let found = call.objects().get(call.request(request)).await?.into_inner();
    let missing = || Refused::new(StatusCode::NOT_FOUND, "there is no such object");
    let object = shape::object(found.object.ok_or_else(missing)?);
    Ok(Json(json!({ "object": object, "revision": found.revision })))
}

#[cfg(test)]
mod tests {
    use setpoint_api::setpoint::v1::Metadata;

    use super::*;

    #[test]
    fn the_newest_are_kept_and_come_first() {
        let of = |revision| Object {
            metadata: Some(Metadata { revision, ..Metadata::default() }),
            ..Object::default()
        };
        let mut objects: Vec<Object> = [3, 9, 1, 7].map(of).to_vec();
        keep(&mut objects, 2);
        assert_eq!(objects, [9, 7].map(of));
    }

    #[test]
    fn nobody_gets_more_at_once_than_the_bound() {
        let limit = |limit| Asked { limit, ..Asked::default() }.limit();
        assert_eq!(
            [limit(None), limit(Some(0)), limit(Some(20)), limit(Some(u32::MAX))],
            [PAGE_MAX, 1, 20, PAGE_MAX]
        );
    }
}
