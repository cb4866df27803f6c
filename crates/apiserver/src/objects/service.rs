//! The gRPC service: each method is asking whether it may, decode, call, encode, and saying what came of it.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use setpoint_access::{EVERYTHING, Need, Verb};
use setpoint_api::raw::RawWatchResponse;
use setpoint_api::raw::v1 as raw;
use setpoint_api::raw::v1::objects_server::Objects;
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::Subresource;
use setpoint_types::Revision;
use tonic::{Request, Response, Status};

use super::error::Refusal;
use super::freshness::At;
use super::permit::Needs;
use super::reader::Reader;
use super::watch::Held;
use super::write::Writer;
use super::write::contents::NAMESPACE;
use crate::access::{Caller, Denied, Gate, Pass};

pub struct ObjectsService {
    pub reader: Reader,
    pub writer: Writer,
    pub gate: Gate,
}

#[tonic::async_trait]
impl Objects for ObjectsService {
    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<raw::GetResponse>, Status> {
        self.may_read(&request, |needs, it| needs.one(Verb::Get, it.key.as_ref(), false))?;
        let key = request.get_ref().key.as_ref();
        self.before_reading(key.map_or("", |key| &key.kind), request.get_ref().at).await;
        Ok(Response::new(self.reader.get(request.into_inner()).await?))
    }

    async fn list(&self, request: Request<pb::ListRequest>) -> Result<Response<raw::ListResponse>, Status> {
        self.may_read(&request, |needs, it| needs.many(Verb::List, &it.kind, &it.namespace))?;
        self.before_reading(&request.get_ref().kind, request.get_ref().at).await;
        Ok(Response::new(self.reader.list(request.into_inner()).await?))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<RawWatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.may_read(&request, |needs, it| needs.many(Verb::Watch, &it.kind, &it.namespace))?;
        let standing = self.gate.standing(&request);
        let load = &self.reader.load;
        let mut watches = load.watches_of(request.extensions());
        watches.grow().map_err(|full| Refusal::full(full, "watches", "max-watches"))?;
        let initial_state = request.get_ref().initial_state;
        let seat = match initial_state {
            true => Some(load.to_bulk(request.extensions()).await.map_err(Refusal::from)?),
            false => None,
        };
        self.before_reading(&request.get_ref().kind, request.get_ref().at).await;
        let held = Held { seat, watches: Some(watches), standing };
        let answers = self.reader.watch_holding(request.into_inner(), held).await?;
        Ok(Response::new(Box::pin(answers.map(Ok))))
    }

    async fn history(
        &self,
        request: Request<pb::HistoryRequest>,
    ) -> Result<Response<raw::HistoryResponse>, Status> {
        self.may_read(&request, |needs, it| needs.one(Verb::Get, it.key.as_ref(), false))?;
        Ok(Response::new(self.reader.history(request.into_inner()).await?))
    }

    /// Shows the kinds that somebody may do something with.
    async fn kinds(&self, request: Request<pb::KindsRequest>) -> Result<Response<pb::KindsResponse>, Status> {
        let caller = self.gate.caller(&request);
        let request = request.into_inner();
        let named = (!request.kind.is_empty()).then_some(request.kind.as_str());
        if let Some(kind) = named.filter(|kind| !self.gate.knows(&caller, kind)) {
            return Err(self.gate.deny(&caller, &Need::all(Verb::Get, kind, "")).into());
        }
        let mut answer = self.reader.kinds(&request).await?;
        answer.kinds.retain(|it| self.gate.knows(&caller, &it.kind));
        if answer.kinds.is_empty() {
            return Err(self.gate.deny(&caller, &Need::all(Verb::List, EVERYTHING, "")).into());
        }
        Ok(Response::new(answer))
    }

    async fn create(
        &self,
        request: Request<pb::CreateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let needs = |it: &Needs<'_>| it.sent(Verb::Create, request.object.as_ref(), false);
        let pass = self.may_write(&caller, request.options.as_ref(), needs)?;
        Ok(Response::new(pass.settle(self.writer.create(request, &caller).await, written).await?))
    }

    async fn update(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        self.update_part(request, Subresource::Main).await
    }

    async fn update_status(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        self.update_part(request, Subresource::Status).await
    }

    async fn apply(
        &self,
        request: Request<pb::ApplyRequest>,
    ) -> Result<Response<raw::ApplyResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let needs = |it: &Needs<'_>| it.sent(Verb::Apply, request.object.as_ref(), request.status);
        let pass = self.may_write(&caller, request.options.as_ref(), needs)?;
        let applied = self.writer.apply(request, &caller).await;
        Ok(Response::new(pass.settle(applied, |it| it.write.as_ref().and_then(written)).await?))
    }

    async fn patch(
        &self,
        request: Request<pb::PatchRequest>,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let needs = |it: &Needs<'_>| it.one(Verb::Patch, request.key.as_ref(), request.status);
        let pass = self.may_write(&caller, request.options.as_ref(), needs)?;
        Ok(Response::new(pass.settle(self.writer.patch(request, &caller).await, written).await?))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<raw::DeleteResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let needs = |it: &Needs<'_>| it.one(Verb::Delete, request.key.as_ref(), false);
        let pass = self.may_write(&caller, request.options.as_ref(), needs)?;
        let deleted = self.writer.delete(request, &caller).await;
        Ok(Response::new(pass.settle(deleted, |it| Some(Revision::new(it.revision))).await?))
    }

    async fn transact(
        &self,
        request: Request<pb::TransactRequest>,
    ) -> Result<Response<raw::TransactResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let pass = self.may_write(&caller, request.options.as_ref(), |it| it.transact(&request))?;
        let done = self.writer.transact(request, &caller).await;
        Ok(Response::new(pass.settle(done, |it| Some(Revision::new(it.revision))).await?))
    }
}

impl ObjectsService {
    /// Whoever asks for the namespaces there are now expects the default one.
    async fn before_reading(&self, kind: &str, at: Option<pb::ReadAt>) {
        let now = matches!(At::from_wire(at), Ok(At::Latest | At::NotOlderThan(_)));
        if kind == NAMESPACE && now {
            self.writer.show_default_namespace().await;
        }
    }

    fn may_read<T>(
        &self,
        request: &Request<T>,
        needs: impl FnOnce(&Needs<'_>, &T) -> Vec<Need>,
    ) -> Result<(), Denied> {
        let caller = self.gate.caller(request);
        self.gate.check(&caller, || needs(&Needs(&self.reader.catalog), request.get_ref()))
    }

    /// A dry run needs what the write would, and is none.
    fn may_write(
        &self,
        caller: &Caller,
        options: Option<&pb::WriteOptions>,
        needs: impl FnOnce(&Needs<'_>) -> Vec<Need>,
    ) -> Result<Pass, Denied> {
        let catalog = Needs(&self.reader.catalog);
        let needs = || needs(&catalog).into_iter().chain(catalog.options(options)).collect();
        if options.is_some_and(|it| it.dry_run) {
            return self.gate.check(caller, needs).map(|()| Pass::default());
        }
        self.gate.enter(caller, options.map_or("", |it| &it.operation), needs)
    }

    async fn update_part(
        &self,
        request: Request<pb::UpdateRequest>,
        part: Subresource,
    ) -> Result<Response<raw::WriteResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let status = part == Subresource::Status;
        let needs = |it: &Needs<'_>| it.sent(Verb::Update, request.object.as_ref(), status);
        let pass = self.may_write(&caller, request.options.as_ref(), needs)?;
        Ok(Response::new(pass.settle(self.writer.update(request, part, &caller).await, written).await?))
    }
}

/// The revision of a write that changed something.
fn written(answer: &raw::WriteResponse) -> Option<Revision> {
    answer.changed.then(|| Revision::new(answer.revision))
}
