//! What one write wants of one object.

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::deletion::Propagation;
use setpoint_objects::patch::PatchKind;
use setpoint_objects::write::{
    self, ApplyHow, Context, Delete, Draft, Fresh, Incoming, Kind, Outcome, Patch,
};
use setpoint_objects::{Metadata, Object, Subresource};

use super::convert::refused;
use crate::objects::error::Refusal;
use crate::objects::key::ObjectName;

#[derive(Debug)]
pub enum Intent {
    Create(Sent),
    /// Replaces one part of the object.
    Update(Sent, Subresource),
    Apply(Sent, ApplyHow),
    Patch(Target, PatchRequest),
    Delete(Target, DeleteRequest),
}

/// An object as a request carries it. Its JSON is decoded when it comes, and again only for a write that has to be decided
/// again: most are decided once, and then nothing has to be copied.
#[derive(Debug)]
pub struct Sent {
    kind: String,
    metadata: Metadata,
    spec: Bytes,
    status: Bytes,
    decoded: Mutex<Option<Incoming>>,
}

impl Sent {
    pub fn new(kind: String, metadata: Metadata, spec: Bytes, status: Bytes) -> Result<Self, Refusal> {
        let decoded = Incoming::decode(&kind, Metadata::default(), &spec, &status).map_err(|refusal| {
            let (namespace, name) = (&metadata.namespace, &metadata.name);
            refused(refusal).about(ObjectName { kind: &kind, namespace, name })
        })?;
        Ok(Self { kind, metadata, spec, status, decoded: Mutex::new(Some(decoded)) })
    }

    fn incoming(&self) -> Result<Incoming, Refusal> {
        let decoded = self.decoded.lock().take();
        let mut incoming = match decoded {
            Some(decoded) => decoded,
            None => Incoming::decode(&self.kind, Metadata::default(), &self.spec, &self.status)
                .map_err(refused)?,
        };
        incoming.object.metadata = self.metadata.clone();
        Ok(incoming)
    }
}

/// An object that is named, not sent.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: String,
    /// Of which only namespace and name are said.
    pub key: Metadata,
}

#[derive(Clone, Debug)]
pub struct PatchRequest {
    pub kind: PatchKind,
    pub patch: Bytes,
    pub uid: String,
    pub revision: u64,
    pub subresource: Subresource,
}

#[derive(Clone, Debug)]
pub struct DeleteRequest {
    pub uid: String,
    pub revision: u64,
    pub propagation: Propagation,
}

/// A decision: final, or a draft that policies and the kind's rules still look at.
pub enum Decision<'a> {
    Draft(Draft<'a>),
    Final(Outcome),
}

impl Intent {
    pub fn kind(&self) -> &str {
        match self {
            Self::Create(sent) | Self::Update(sent, _) | Self::Apply(sent, _) => &sent.kind,
            Self::Patch(target, _) | Self::Delete(target, _) => &target.kind,
        }
    }

    /// Namespace and name as the request has them.
    pub fn names(&self) -> (&str, &str) {
        let key = self.named_key();
        (&key.namespace, &key.name)
    }

    fn named_key(&self) -> &Metadata {
        match self {
            Self::Create(sent) | Self::Update(sent, _) | Self::Apply(sent, _) => &sent.metadata,
            Self::Patch(target, _) | Self::Delete(target, _) => &target.key,
        }
    }

    /// Namespace and name, completed. `suffix` completes a name that is to be generated.
    pub fn key(&self, kind: &Kind<'_>, suffix: &str) -> Result<Metadata, Refusal> {
        let named = self.named_key();
        let mut key = Metadata {
            namespace: named.namespace.clone(),
            name: named.name.clone(),
            generate_name: named.generate_name.clone(),
            ..Metadata::default()
        };
        let suffix = if matches!(self, Self::Create(_)) { suffix } else { "" };
        write::settle_key(kind, &mut key, suffix).map_err(refused)?;
        Ok(key)
    }

    /// A refusal says which object it is about, as far as the request does.
    pub fn named(&self, refusal: Refusal) -> Refusal {
        let (namespace, name) = self.names();
        if refusal.error().object.is_some() {
            return refusal;
        }
        refusal.about(ObjectName { kind: self.kind(), namespace, name })
    }

    /// Which part of the object it is about.
    pub fn part(&self) -> Subresource {
        match self {
            Self::Update(_, part) => *part,
            Self::Apply(_, how) => how.subresource,
            Self::Patch(_, request) => request.subresource,
            Self::Create(_) | Self::Delete(..) => Subresource::Main,
        }
    }

    pub fn writes_status(&self) -> bool {
        self.part() == Subresource::Status
    }

    /// True if the server draws the name, and draws another if it is taken.
    pub fn is_generated(&self) -> bool {
        matches!(self, Self::Create(sent) if sent.metadata.name.is_empty())
    }

    pub fn decide<'a>(
        &self,
        kind: &Kind<'a>,
        key: &Metadata,
        stored: Option<&'a Object>,
        fresh: Fresh<'_>,
        context: &Context<'a>,
    ) -> Result<Decision<'a>, Refusal> {
        let refused = |refusal: setpoint_objects::Refusal| match refusal.reason {
            // As reads say it.
            setpoint_objects::Reason::NotFound => {
                Refusal::not_found(ObjectName { kind: kind.name, namespace: &key.namespace, name: &key.name })
            }
            _ => refused(refusal),
        };
        let decided = match self {
            Self::Create(sent) => write::create(kind, stored, sent.incoming()?, fresh, context),
            Self::Update(sent, Subresource::Main) => write::update(kind, stored, sent.incoming()?, context),
            Self::Update(sent, Subresource::Status) => {
                write::update_status(kind, stored, sent.incoming()?, context)
            }
            Self::Apply(sent, how) => write::apply(kind, stored, sent.incoming()?, *how, fresh, context),
            Self::Patch(_, request) => {
                let patch = Patch {
                    kind: request.kind,
                    patch: &request.patch,
                    uid: &request.uid,
                    revision: request.revision,
                    subresource: request.subresource,
                };
                write::patch(kind, stored, key, &patch, context)
            }
            Self::Delete(_, request) => {
                let DeleteRequest { uid, revision, propagation } = request;
                let delete = Delete { uid, revision: *revision, propagation: *propagation };
                let outcome = write::delete(kind, stored, key, &delete, context).map_err(refused)?;
                return Ok(Decision::Final(outcome));
            }
        };
        decided.map(Decision::Draft).map_err(refused)
    }

    /// True if a refusal only says that a name the server drew is taken.
    pub fn wants_another_name(&self, refusal: &Refusal) -> bool {
        self.is_generated() && refusal.reason() == Reason::AlreadyExists
    }
}
