//! A store in this process, just enough of one for a controller: objects of any kind, watches, fences, and a hand on all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_server::CoordinationServer;
use setpoint_api::setpoint::v1::objects_server::{Objects, ObjectsServer};
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_api::status::refused;
use setpoint_client::{Client, ConnectError, Connector, Endpoint, Entropy, Settings, Wire};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};
use tower::ServiceExt;

use crate::leases::Leases;

/// What a wire carries.
type Sent = tonic::codegen::http::Request<tonic::body::Body>;
type Name = (String, String, String);

/// One write that was asked for, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub method: &'static str,
    pub name: String,
    pub manager: String,
    pub epoch: Option<u64>,
    pub trace: Option<String>,
    pub done: bool,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<Name, pb::Object>,
    /// Who applied which conditions.
    applied: BTreeMap<(Name, String), Vec<Value>>,
    log: Vec<pb::WatchEvent>,
    leases: Leases,
    asked: Vec<Asked>,
    operations: BTreeMap<String, pb::WriteResponse>,
    /// Kinds of which watches are told nothing, not even bookmarks.
    held: BTreeSet<String>,
    /// Answers that are lost after the write was done.
    lost_answers: usize,
    lists: usize,
    gets: usize,
    /// Nobody is answered, and streams end.
    down: bool,
}

#[derive(Clone)]
pub struct Store {
    state: Arc<Mutex<State>>,
    moved: watch::Sender<u64>,
}

impl Default for Store {
    fn default() -> Self {
        let state = State { revision: 10, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), moved: watch::Sender::new(0) }
    }
}

fn name_of(object: &pb::Object) -> Name {
    let metadata = object.metadata.clone().unwrap_or_default();
    (object.kind.clone(), metadata.namespace, metadata.name)
}

fn refuse(reason: pb::Reason, message: &str) -> Status {
    let error = pb::Error { reason: reason.into(), message: message.into(), ..Default::default() };
    refused(Code::FailedPrecondition, &error)
}

impl Store {
    pub fn client(&self, seed: u64) -> Client {
        let settings = Settings::new(vec!["server".parse().expect("an endpoint")]);
        Client::with_seams(settings, self, Entropy::seeded(seed)).expect("good settings")
    }

    /// Somebody else writes an object's spec.
    pub fn put(&self, kind: &str, namespace: &str, name: &str, manager: &str, spec: Value) -> u64 {
        let metadata = pb::Metadata { namespace: namespace.into(), name: name.into(), ..Default::default() };
        let object = pb::Object {
            kind: kind.into(),
            metadata: Some(metadata),
            spec: spec.to_string().into(),
            ..Default::default()
        };
        self.write(
            object,
            Part::Spec,
            &pb::WriteOptions { manager: manager.into(), ..Default::default() },
            None,
        )
    }

    pub fn remove(&self, kind: &str, namespace: &str, name: &str) {
        self.erase(&(kind.into(), namespace.into(), name.into()), &pb::WriteOptions::default());
    }

    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<pb::Object> {
        self.state.lock().objects.get(&(kind.into(), namespace.into(), name.into())).cloned()
    }

    pub fn names(&self, kind: &str) -> Vec<String> {
        self.state.lock().objects.keys().filter(|it| it.0 == kind).map(|it| it.2.clone()).collect()
    }

    pub fn status(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let object = self.get(kind, namespace, name).unwrap_or_default();
        serde_json::from_slice(&object.status).unwrap_or(Value::Null)
    }

    /// Writes that were asked for, without those of the recorder.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().asked.clone()
    }

    pub fn revision(&self) -> u64 {
        self.state.lock().revision
    }

    pub fn lists(&self) -> usize {
        self.state.lock().lists
    }

    pub fn gets(&self) -> usize {
        self.state.lock().gets
    }

    pub fn hold(&self, kind: &str, held: bool) {
        let mut state = self.state.lock();
        match held {
            true => drop(state.held.insert(kind.into())),
            false => drop(state.held.remove(kind)),
        }
        drop(state);
        self.moved.send_modify(|it| *it += 1);
    }

    pub fn leases<T>(&self, look: impl FnOnce(&mut Leases) -> T) -> T {
        look(&mut self.state.lock().leases)
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// The server itself writes an object's status.
    pub fn put_status(&self, kind: &str, namespace: &str, name: &str, status: &Value) {
        let metadata = pb::Metadata { namespace: namespace.into(), name: name.into(), ..Default::default() };
        let object = pb::Object {
            kind: kind.into(),
            metadata: Some(metadata),
            spec: "{}".into(),
            status: status.to_string().into(),
        };
        if self.get(kind, namespace, name).is_none() {
            self.write(object.clone(), Part::Spec, &pb::WriteOptions::default(), None);
        }
        self.write(object, Part::Status, &pb::WriteOptions::default(), None);
    }

    /// Nobody is answered, and streams end.
    pub fn down(&self, down: bool) {
        self.state.lock().down = down;
        self.moved.send_modify(|it| *it += 1);
    }

    fn up(&self) -> Result<(), Status> {
        if self.state.lock().down { Err(Status::unavailable("down")) } else { Ok(()) }
    }

    pub fn lose_answers(&self, count: usize) {
        self.state.lock().lost_answers = count;
    }

    /// Takes everything back to an earlier state, as a restored backup does.
    pub fn restore(&self, revision: u64) {
        self.state.lock().revision = revision;
    }

    fn write(&self, sent: pb::Object, part: Part, options: &pb::WriteOptions, trace: Option<String>) -> u64 {
        let mut state = self.state.lock();
        let name = name_of(&sent);
        let (kind, mut object) = match state.objects.get(&name).cloned() {
            Some(object) => (Type::Modified, object),
            None => {
                let mut object = sent.clone();
                object.status = Default::default();
                let uid = format!("u-{}-{}", name.2, state.revision);
                object.metadata.get_or_insert_default().uid = uid;
                (Type::Added, object)
            }
        };
        let before = object.clone();
        match part {
            Part::Spec => {
                object.metadata.get_or_insert_default().generation +=
                    u64::from(object.spec != sent.spec || kind == Type::Added);
                object.spec = sent.spec;
                if let Some(metadata) = &sent.metadata {
                    let kept = object.metadata.get_or_insert_default();
                    kept.owners.clone_from(&metadata.owners);
                    kept.labels.clone_from(&metadata.labels);
                }
            }
            Part::Status => object.status = sent.status,
            Part::Conditions => {
                let wanted: Value = serde_json::from_slice(&sent.status).unwrap_or_default();
                let wanted = wanted["conditions"].as_array().cloned().unwrap_or_default();
                let types = |list: &[Value]| list.iter().map(|it| it["type"].clone()).collect::<Vec<_>>();
                let had = state.applied.insert((name.clone(), options.manager.clone()), types(&wanted));
                let mut status: Value = serde_json::from_slice(&object.status).unwrap_or(json!({}));
                let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                conditions.retain(|it| !had.iter().flatten().any(|had| *had == it["type"]));
                conditions.extend(wanted);
                status["conditions"] = Value::Array(conditions);
                object.status = status.to_string().into();
            }
        }
        if kind == Type::Modified && object == before {
            return state.revision;
        }
        state.revision += 1;
        let revision = state.revision;
        object.metadata.get_or_insert_default().revision = revision;
        state.objects.insert(name, object.clone());
        self.logged(state, kind, object, options, trace);
        revision
    }

    fn erase(&self, name: &Name, options: &pb::WriteOptions) -> Option<u64> {
        let mut state = self.state.lock();
        let object = state.objects.remove(name)?;
        state.revision += 1;
        let revision = state.revision;
        self.logged(state, Type::Deleted, object, options, None);
        Some(revision)
    }

    fn logged(
        &self,
        mut state: parking_lot::MutexGuard<'_, State>,
        kind: Type,
        object: pb::Object,
        options: &pb::WriteOptions,
        trace: Option<String>,
    ) {
        let author = pb::Author {
            manager: options.manager.clone(),
            trace: trace.unwrap_or_default(),
            ..Default::default()
        };
        let revision = state.revision;
        state.log.push(pb::WatchEvent {
            r#type: kind.into(),
            object: Some(object),
            revision,
            author: Some(author),
            ..Default::default()
        });
        drop(state);
        self.moved.send_modify(|it| *it += 1);
    }

    /// A write as it comes from a client: noted, checked, done once.
    async fn accept<T>(
        &self,
        method: &'static str,
        name: Name,
        request: &Request<T>,
        options: &pb::WriteOptions,
        act: impl FnOnce(&Self, Option<String>) -> Result<pb::WriteResponse, Status>,
    ) -> Result<pb::WriteResponse, Status> {
        self.up()?;
        // `00-<trace>-<span>-01`
        let header = request.metadata().get("traceparent").and_then(|it| it.to_str().ok());
        let trace = header.and_then(|it| it.split('-').nth(1)).map(str::to_owned);
        let repeated = self.state.lock().operations.get(&options.operation).cloned();
        let (answer, lost) = match repeated {
            Some(answer) => (Ok(pb::WriteResponse { repeated: true, ..answer }), self.loses()),
            None => {
                let answer = match &options.fence {
                    Some(fence) if !self.is_held_at(fence) => {
                        Err(refuse(pb::Reason::Fenced, "the lease is another's"))
                    }
                    _ => act(self, trace.clone()),
                };
                let mut state = self.state.lock();
                if name.0 != "Event" && name.0 != "Decision" {
                    let epoch = options.fence.as_ref().map(|fence| fence.epoch);
                    let (name, manager) = (name.2, options.manager.clone());
                    state.asked.push(Asked { method, name, manager, epoch, trace, done: answer.is_ok() });
                }
                if let Ok(answer) = &answer {
                    state.operations.insert(options.operation.clone(), answer.clone());
                }
                drop(state);
                (answer, self.loses())
            }
        };
        if lost { Err(Status::unavailable("connection reset")) } else { answer }
    }

    fn loses(&self) -> bool {
        let mut state = self.state.lock();
        let lost = state.lost_answers > 0;
        state.lost_answers = state.lost_answers.saturating_sub(1);
        lost
    }

    fn written(&self, name: &Name, revision: u64) -> pb::WriteResponse {
        let object = self.state.lock().objects.get(name).cloned();
        pb::WriteResponse { object, revision, changed: true, ..Default::default() }
    }

    fn existing(&self, name: &Name) -> Result<pb::Object, Status> {
        let missing = || refuse(pb::Reason::NotFound, &format!("there is no {} {}", name.0, name.2));
        self.state.lock().objects.get(name).cloned().ok_or_else(missing)
    }

    /// What a watch is to be sent that has come to a revision.
    fn after(&self, request: &pb::WatchRequest, from: u64) -> Option<(Vec<pb::WatchEvent>, u64)> {
        let state = self.state.lock();
        if state.held.contains(&request.kind) {
            return None;
        }
        let wanted = |event: &&pb::WatchEvent| {
            let object = event.object.as_ref();
            event.revision > from && object.is_some_and(|object| object.kind == request.kind)
        };
        Some((state.log.iter().filter(wanted).cloned().collect(), state.revision))
    }

    async fn feed(self, request: pb::WatchRequest, answers: mpsc::Sender<Result<pb::WatchResponse, Status>>) {
        let mut moved = self.moved.subscribe();
        let mut from = request.from_revision;
        if request.initial_state {
            let (events, revision) = {
                let state = self.state.lock();
                let of_kind = state.objects.values().filter(|object| object.kind == request.kind);
                let added = |object: &pb::Object| pb::WatchEvent {
                    r#type: Type::Added.into(),
                    revision: object.metadata.as_ref().map_or(0, |metadata| metadata.revision),
                    object: Some(object.clone()),
                    ..Default::default()
                };
                (of_kind.map(added).collect::<Vec<_>>(), state.revision)
            };
            let end = bookmark(revision, true);
            let _ = answers.send(Ok(pb::WatchResponse { events: [events, vec![end]].concat() })).await;
            from = revision;
        }
        let interval = Duration::from_millis(u64::from(request.bookmark_interval_ms).max(100));
        while self.up().is_ok() {
            moved.mark_unchanged();
            match self.after(&request, from) {
                Some((events, revision)) if !events.is_empty() => {
                    from = revision;
                    let events = [events, vec![bookmark(revision, false)]].concat();
                    if answers.send(Ok(pb::WatchResponse { events })).await.is_err() {
                        return;
                    }
                }
                _ => tokio::select! {
                    () = answers.closed() => return,
                    changed = moved.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(interval) => {
                        let Some((events, revision)) = self.after(&request, from) else { continue };
                        if events.is_empty() {
                            from = from.max(revision);
                            let events = vec![bookmark(revision, false)];
                            let _ = answers.send(Ok(pb::WatchResponse { events })).await;
                        }
                    }
                },
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Part {
    Spec,
    Status,
    Conditions,
}

fn bookmark(revision: u64, initial_state_end: bool) -> pb::WatchEvent {
    pb::WatchEvent { r#type: Type::Bookmark.into(), revision, initial_state_end, ..Default::default() }
}

fn name_of_key(key: Option<pb::ObjectKey>) -> Name {
    let key = key.unwrap_or_default();
    (key.kind, key.namespace, key.name)
}

impl Connector for Store {
    fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
        let routes = tonic::service::Routes::new(ObjectsServer::new(self.clone()))
            .add_service(CoordinationServer::new(self.clone()));
        Ok(Wire::new(ServiceExt::<Sent>::map_err(routes, |never| match never {})))
    }
}

#[tonic::async_trait]
impl Objects for Store {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.up()?;
        let (answers, receiver) = mpsc::channel(16);
        tokio::spawn(self.clone().feed(request.into_inner(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<pb::GetResponse>, Status> {
        self.up()?;
        self.state.lock().gets += 1;
        let object = self.existing(&name_of_key(request.into_inner().key))?;
        Ok(Response::new(pb::GetResponse { object: Some(object), revision: self.revision() }))
    }

    async fn list(&self, request: Request<pb::ListRequest>) -> Result<Response<pb::ListResponse>, Status> {
        self.up()?;
        let mut state = self.state.lock();
        state.lists += 1;
        let kind = request.into_inner().kind;
        let objects = state.objects.values().filter(|object| object.kind == kind).cloned().collect();
        Ok(Response::new(pb::ListResponse { objects, revision: state.revision, ..Default::default() }))
    }

    async fn create(
        &self,
        request: Request<pb::CreateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        let message = request.get_ref().clone();
        let (object, options) = (message.object.unwrap_or_default(), message.options.unwrap_or_default());
        let name = name_of(&object);
        let (at, also) = (name.clone(), options.clone());
        let act = move |store: &Self, trace| {
            if store.existing(&at).is_ok() {
                return Err(refuse(pb::Reason::AlreadyExists, "it is there"));
            }
            let revision = store.write(object, Part::Spec, &also, trace);
            Ok(store.written(&at, revision))
        };
        self.accept("create", name, &request, &options, act).await.map(Response::new)
    }

    async fn update(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        self.updated("update", Part::Spec, request).await
    }

    async fn update_status(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        self.updated("update_status", Part::Status, request).await
    }

    async fn apply(&self, request: Request<pb::ApplyRequest>) -> Result<Response<pb::ApplyResponse>, Status> {
        let message = request.get_ref().clone();
        let (object, options) = (message.object.unwrap_or_default(), message.options.unwrap_or_default());
        let (name, part) = (name_of(&object), if message.status { Part::Conditions } else { Part::Spec });
        let (at, also) = (name.clone(), options.clone());
        let act = move |store: &Self, trace| {
            if message.status {
                store.existing(&at)?;
            }
            let revision = store.write(object, part, &also, trace);
            Ok(store.written(&at, revision))
        };
        let write = Some(self.accept("apply", name, &request, &options, act).await?);
        Ok(Response::new(pb::ApplyResponse { write, taken: Vec::new() }))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::DeleteResponse>, Status> {
        let message = request.get_ref().clone();
        let (name, options) = (name_of_key(message.key), message.options.unwrap_or_default());
        let (at, also) = (name.clone(), options.clone());
        let act = move |store: &Self, _| {
            let object = Some(store.existing(&at)?);
            let revision = store.erase(&at, &also).unwrap_or_default();
            Ok(pb::WriteResponse { object, revision, changed: true, ..Default::default() })
        };
        let answer = self.accept("delete", name, &request, &options, act).await?;
        let (object, revision) = (answer.object, answer.revision);
        Ok(Response::new(pb::DeleteResponse { object, revision, gone: true, ..Default::default() }))
    }

    async fn patch(&self, _: Request<pb::PatchRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        Err(Status::unimplemented("not in this store"))
    }

    async fn transact(
        &self,
        _: Request<pb::TransactRequest>,
    ) -> Result<Response<pb::TransactResponse>, Status> {
        Err(Status::unimplemented("not in this store"))
    }

    async fn history(&self, _: Request<pb::HistoryRequest>) -> Result<Response<pb::HistoryResponse>, Status> {
        Err(Status::unimplemented("not in this store"))
    }

    async fn kinds(&self, _: Request<pb::KindsRequest>) -> Result<Response<pb::KindsResponse>, Status> {
        Err(Status::unimplemented("not in this store"))
    }
}

impl Store {
    async fn updated(
        &self,
        method: &'static str,
        part: Part,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        let message = request.get_ref().clone();
        let (object, options) = (message.object.unwrap_or_default(), message.options.unwrap_or_default());
        let name = name_of(&object);
        let (at, also) = (name.clone(), options.clone());
        let act = move |store: &Self, trace| {
            let present = store.existing(&at)?.metadata.unwrap_or_default().revision;
            let expected = object.metadata.as_ref().map_or(0, |metadata| metadata.revision);
            if expected != 0 && expected != present {
                return Err(refuse(pb::Reason::Conflict, "it is at another revision"));
            }
            let revision = store.write(object, part, &also, trace);
            Ok(store.written(&at, revision))
        };
        self.accept(method, name, &request, &options, act).await.map(Response::new)
    }
}
