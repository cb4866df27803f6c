//! Writing. Each answer is the first one to its operation, however often the request was sent.

use setpoint_api::setpoint::v1 as pb;
use setpoint_types::{ObjectKey, Revision};

use super::Api;
use crate::attempt::Safety;
use crate::call::Call;
use crate::convert;
use crate::error::Error;
use crate::options::{
    Blocker, DeleteOptions, Deleted, Patch, PatchOptions, Propagation, Scope, WriteOptions, Written,
};
use crate::shape::{Shape, Writable};

impl<K: Writable> Api<K> {
    /// Creates an object. With `metadata.generate_name` and no name, the server completes the name.
    pub async fn create(
        &self,
        object: &K::Object,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        let object = self.sent("create", object)?;
        let (wire, safety) = self.client.options(options);
        let request = pb::CreateRequest { object: Some(object.clone()), options: Some(wire) };
        let call = self.call("create", &object, safety);
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.create(request).await });
        let answer = answer.await?;
        self.written(&call, answer, options)
    }

    /// Replaces everything but the status. An object that was read is replaced only if it is still at its revision.
    pub async fn update(
        &self,
        object: &K::Object,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        let object = self.sent("update", object)?;
        let (wire, safety) = self.client.options(options);
        let request = pb::UpdateRequest { object: Some(object.clone()), options: Some(wire) };
        let call = self.call("update", &object, safety);
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.update(request).await });
        let answer = answer.await?;
        self.written(&call, answer, options)
    }

    /// Replaces the status, and nothing else; otherwise as `update`.
    pub async fn update_status(
        &self,
        object: &K::Object,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        let object = self.sent("update status of", object)?;
        let (wire, safety) = self.client.options(options);
        let request = pb::UpdateRequest { object: Some(object.clone()), options: Some(wire) };
        let call = self.call("update status of", &object, safety);
        let answer = self.client.objects(&call, request, |mut client, request| async move {
            client.update_status(request).await
        });
        let answer = answer.await?;
        self.written(&call, answer, options)
    }

    /// Server-side apply: creates the object or merges into it what is there, and gives up what this manager had before and
    /// has left out now. Needs a manager. `force` takes fields from others, and tells which.
    ///
    /// A typed object says something about every field its type does not leave out; use `Dynamic` to say less.
    pub async fn apply(
        &self,
        object: &K::Object,
        force: bool,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        self.apply_part(object, force, false, options).await
    }

    /// The same for the status.
    pub async fn apply_status(
        &self,
        object: &K::Object,
        force: bool,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        self.apply_part(object, force, true, options).await
    }

    async fn apply_part(
        &self,
        object: &K::Object,
        force: bool,
        status: bool,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        let object = self.sent("apply", object)?;
        let (wire, safety) = self.client.options(options);
        let request = pb::ApplyRequest { object: Some(object.clone()), options: Some(wire), force, status };
        let call = self.call("apply", &object, safety);
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.apply(request).await });
        let answer = answer.await?;
        let mut written = self.written(&call, answer.write.unwrap_or_default(), options)?;
        written.taken = answer.taken.into_iter().map(convert::conflict).collect();
        Ok(written)
    }

    fn sent(&self, operation: &'static str, object: &K::Object) -> Result<pb::Object, Error> {
        let mut parts = K::write(&self.kind, object);
        match &self.scope {
            Scope::Cluster => parts.metadata.namespace.clear(),
            Scope::Namespace(namespace) => parts.metadata.namespace = namespace.to_string(),
            Scope::AllNamespaces if parts.metadata.namespace.is_empty() => {
                let problem = "an object has one namespace: name it in its metadata";
                return Err(Error::Senseless { operation, target: parts.key().to_string(), problem });
            }
            Scope::AllNamespaces => {}
        }
        Ok(convert::wire_object(parts))
    }

    fn call(&self, operation: &'static str, object: &pb::Object, safety: Safety) -> Call {
        let metadata = object.metadata.clone().unwrap_or_default();
        let name = if metadata.name.is_empty() { metadata.generate_name + "…" } else { metadata.name };
        Call::write(operation, ObjectKey::new(&*self.kind, metadata.namespace, name), safety)
    }
}

impl<K: Shape> Api<K> {
    /// Changes a part of an object.
    pub async fn patch(
        &self,
        name: &str,
        patch: &Patch,
        options: &PatchOptions,
    ) -> Result<Written<K::Object>, Error> {
        let key = self.key("patch", name)?;
        let (wire, safety) = self.client.options(&options.write);
        let (kind, patch) = match patch {
            Patch::Merge(patch) => (pb::patch_request::Type::Merge, patch),
            Patch::Json(patch) => (pb::patch_request::Type::Json, patch),
        };
        let request = pb::PatchRequest {
            key: Some(convert::wire_key(&key)),
            r#type: kind.into(),
            patch: patch.to_string().into(),
            options: Some(wire),
            uid: options.uid.as_ref().map_or_else(String::new, ToString::to_string),
            revision: options.revision.map_or(0, Revision::get),
            status: options.status,
        };
        let call = Call::write("patch", &key, safety);
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.patch(request).await });
        let answer = answer.await?;
        self.written(&call, answer, &options.write)
    }

    /// Deletes an object, or begins to: see [`Deleted::gone`].
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Deleted<K::Object>, Error> {
        let key = self.key("delete", name)?;
        let (wire, safety) = self.client.options(&options.write);
        let propagation = match options.propagation {
            Propagation::Background => pb::delete_request::Propagation::Background,
            Propagation::Foreground => pb::delete_request::Propagation::Foreground,
            Propagation::Orphan => pb::delete_request::Propagation::Orphan,
        };
        let request = pb::DeleteRequest {
            key: Some(convert::wire_key(&key)),
            uid: options.uid.as_ref().map_or_else(String::new, ToString::to_string),
            revision: options.revision.map_or(0, Revision::get),
            propagation: propagation.into(),
            options: Some(wire),
        };
        let call = Call::write("delete", &key, safety);
        let answer = self
            .client
            .objects(&call, request, |mut client, request| async move { client.delete(request).await });
        let answer = answer.await?;
        let revision = Revision::new(answer.revision);
        self.client.wrote(&key, revision, &options.write);
        Ok(Deleted {
            object: self.object(&call, answer.object)?,
            revision,
            gone: answer.gone,
            blockers: answer.blockers.into_iter().map(blocker).collect(),
            repeated: answer.repeated,
        })
    }

    fn written(
        &self,
        call: &Call,
        answer: pb::WriteResponse,
        options: &WriteOptions,
    ) -> Result<Written<K::Object>, Error> {
        let revision = Revision::new(answer.revision);
        if let Some(metadata) = answer.object.as_ref().and_then(|object| object.metadata.as_ref()) {
            let key = ObjectKey::new(&*self.kind, &metadata.namespace, &metadata.name);
            self.client.wrote(&key, revision, options);
        }
        Ok(Written {
            object: self.object(call, answer.object)?,
            revision,
            changed: answer.changed,
            repeated: answer.repeated,
            warnings: answer.warnings,
            taken: Vec::new(),
        })
    }
}

fn blocker(blocker: pb::Blocker) -> Blocker {
    Blocker {
        finalizer: blocker.finalizer,
        dependents: blocker.dependents.into_iter().map(convert::key).collect(),
    }
}
