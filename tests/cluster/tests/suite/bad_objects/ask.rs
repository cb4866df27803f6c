//! Requests of every sort, in as few words as possible, and what they are refused with.

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::guard::Guard;
use setpoint_api::setpoint::v1::patch_request::Type as PatchType;
use setpoint_api::setpoint::v1::read_at::At;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_api::setpoint::v1::{Error, Reason};
use setpoint_api::status::error_of;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::testbed::patiently;
use setpoint_cluster_tests::wire::call;
use tonic::Status;

/// A request, whatever it asks for.
#[derive(Clone)]
pub enum Ask {
    Get(pb::GetRequest),
    List(pb::ListRequest),
    Watch(pb::WatchRequest),
    History(pb::HistoryRequest),
    Create(pb::CreateRequest),
    Update(pb::UpdateRequest),
    UpdateStatus(pb::UpdateRequest),
    Apply(pb::ApplyRequest),
    Patch(pb::PatchRequest),
    Delete(pb::DeleteRequest),
    Transact(pb::TransactRequest),
    Acquire(pb::AcquireRequest),
    /// Bytes that are no message.
    Bytes(&'static str, &'static [u8]),
}

/// What a refusal has to say beside its reason.
#[derive(Clone, Copy, Debug)]
pub enum Names {
    Field(&'static str),
    /// The field of a conflict, and whose it is.
    Owner(&'static str, &'static str),
    Held(u64),
    Ledger(&'static str),
    Object(&'static str),
    /// A revision of the object, or the oldest that is kept.
    Revision,
    Nothing,
}

pub type Case = (&'static str, Ask, Reason, Names);

/// The error a request is refused with; an election or a busy machine is waited for, unless it is what is asked about.
pub async fn refused(client: &Client, name: &str, ask: &Ask, expected: Reason) -> Error {
    patiently(|| async {
        let status = match answer(client, ask.clone()).await {
            Ok(()) => panic!("{name}: was done"),
            Err(status) => status,
        };
        let Some(error) = error_of(&status) else { return Err(status) };
        match error.reason() {
            Reason::Unavailable | Reason::Timeout | Reason::TooManyRequests if error.reason() != expected => {
                Err(status)
            }
            _ => Ok(error),
        }
    })
    .await
}

pub async fn answer(client: &Client, ask: Ask) -> Result<(), Status> {
    let (mut objects, mut coordination) = (client.objects(), client.coordination());
    match ask {
        Ask::Get(it) => objects.get(it).await.map(drop),
        Ask::List(it) => objects.list(it).await.map(drop),
        Ask::History(it) => objects.history(it).await.map(drop),
        Ask::Create(it) => objects.create(it).await.map(drop),
        Ask::Update(it) => objects.update(it).await.map(drop),
        Ask::UpdateStatus(it) => objects.update_status(it).await.map(drop),
        Ask::Apply(it) => objects.apply(it).await.map(drop),
        Ask::Patch(it) => objects.patch(it).await.map(drop),
        Ask::Delete(it) => objects.delete(it).await.map(drop),
        Ask::Transact(it) => objects.transact(it).await.map(drop),
        Ask::Acquire(it) => coordination.acquire(it).await.map(drop),
        Ask::Bytes(method, bytes) => call(client, method, Bytes::from_static(bytes)).await.map(drop),
        Ask::Watch(it) => {
            let mut watch = objects.watch(it).await?.into_inner();
            let first = watch.message().await?.and_then(|it| it.events.into_iter().next());
            let error = first.and_then(|event| event.error).expect("an event with an error");
            Err(setpoint_api::status::refused(tonic::Code::Unknown, &error))
        }
    }
}

impl Names {
    pub fn are_in(self, error: &Error) -> bool {
        match self {
            Self::Field(path) => error.problems.iter().any(|it| it.path == path && !it.message.is_empty()),
            Self::Owner(path, manager) => error
                .conflicts
                .iter()
                .any(|it| it.path == path && it.manager == manager && !it.value.is_empty()),
            Self::Held(epoch) => error.held.as_ref().is_some_and(|it| it.epoch == epoch),
            Self::Ledger(name) => error.headroom.as_ref().is_some_and(|it| it.ledger == name),
            Self::Object(name) => error.object.as_ref().is_some_and(|it| it.name == name),
            Self::Revision => error.revision > 0,
            Self::Nothing => true,
        }
    }
}

pub fn object(kind: &str, name: &str, spec: &str) -> pb::Object {
    let metadata = pb::Metadata { name: name.into(), ..Default::default() };
    let spec = spec.to_owned().into();
    pb::Object { kind: kind.into(), metadata: Some(metadata), spec, ..Default::default() }
}

pub fn thing(name: &str, spec: &str) -> pb::Object {
    object("Thing", name, spec)
}

pub fn with(mut object: pb::Object, change: impl FnOnce(&mut pb::Metadata)) -> pb::Object {
    change(object.metadata.get_or_insert_default());
    object
}

pub fn key(kind: &str, name: &str) -> Option<pb::ObjectKey> {
    Some(pb::ObjectKey { kind: kind.into(), name: name.into(), ..Default::default() })
}

pub fn create(object: pb::Object) -> Ask {
    Ask::Create(pb::CreateRequest { object: Some(object), options: None })
}

pub fn create_with(object: pb::Object, options: pb::WriteOptions) -> Ask {
    Ask::Create(pb::CreateRequest { object: Some(object), options: Some(options) })
}

pub fn update(object: pb::Object) -> Ask {
    Ask::Update(pb::UpdateRequest { object: Some(object), options: None })
}

pub fn apply(object: pb::Object, manager: &str) -> Ask {
    let options = Some(pb::WriteOptions { manager: manager.into(), ..Default::default() });
    Ask::Apply(pb::ApplyRequest { object: Some(object), options, ..Default::default() })
}

pub fn patch(kind: PatchType, name: &str, patch: &str) -> Ask {
    let (r#type, patch) = (kind.into(), patch.to_owned().into());
    Ask::Patch(pb::PatchRequest { key: key("Thing", name), r#type, patch, ..Default::default() })
}

pub fn transact(guards: Vec<Guard>, writes: Vec<Write>) -> Ask {
    let guards = guards.into_iter().map(|it| pb::Guard { guard: Some(it) }).collect();
    let writes = writes.into_iter().map(|it| pb::Write { write: Some(it) }).collect();
    Ask::Transact(pb::TransactRequest { guards, writes, options: None })
}

pub fn reserve(owner: &str, cpu: i64) -> Write {
    let (ledger, owner) = ("desk".into(), owner.into());
    Write::Reserve(pb::Reserve { ledger, owner, amounts: [("cpu".to_owned(), cpu)].into() })
}

pub fn get(kind: &str, name: &str) -> Ask {
    Ask::Get(pb::GetRequest { key: key(kind, name), ..Default::default() })
}

pub fn get_at(at: At) -> Ask {
    let at = Some(pb::ReadAt { at: Some(at) });
    Ask::Get(pb::GetRequest { key: key("Thing", "web"), at, ..Default::default() })
}

pub fn list(change: impl FnOnce(&mut pb::ListRequest)) -> Ask {
    let mut request = pb::ListRequest { kind: "Thing".into(), ..Default::default() };
    change(&mut request);
    Ask::List(request)
}

pub fn fenced(lease: &str, epoch: u64) -> pb::WriteOptions {
    let fence = Some(pb::Fence { namespace: String::new(), lease: lease.into(), epoch });
    pb::WriteOptions { fence, ..Default::default() }
}
