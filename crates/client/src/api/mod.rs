//! The objects of one kind.
//!
//! - [`read`]: get, list, history
//! - [`watch`]: changes as they happen
//! - [`write`]: create, update, apply, patch, delete

mod read;
mod watch;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

pub use read::{Page, Version, Versions};
pub use watch::{RawWatch, Watch, WatchEvent, WatchOptions};

use setpoint_types::ObjectKey;

use crate::client::Client;
use crate::error::Error;
use crate::options::Scope;
use crate::shape::Shape;

/// The objects of one kind, in one namespace, in all, or of the whole cluster.
///
/// **Guarantees**: those of [`Client`]. All pages of a list are of one revision. An object is of the kind and the namespace
/// of its `Api`, whatever it says itself.
///
/// **Does not promise** that an object read is still so when it is written: send its revision along (`update` does, if the
/// object was read), and read and decide again on [`Error::is_conflict`].
pub struct Api<K> {
    client: Client,
    kind: Arc<str>,
    scope: Scope,
    shape: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        let (client, kind, scope) = (self.client.clone(), self.kind.clone(), self.scope.clone());
        Self { client, kind, scope, shape: PhantomData }
    }
}

impl<K: Shape> Api<K> {
    pub(crate) fn new(client: Client, kind: &str, scope: Scope) -> Self {
        Self { client, kind: kind.into(), scope, shape: PhantomData }
    }

    /// The same kind in another namespace. A kind of the whole cluster has none: there it changes nothing.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self {
        match self.scope {
            Scope::Cluster => self.clone(),
            _ => Self { scope: Scope::namespace(namespace), ..self.clone() },
        }
    }

    /// The same kind in all namespaces, for lists and watches.
    #[must_use]
    pub fn all_namespaces(&self) -> Self {
        match self.scope {
            Scope::Cluster => self.clone(),
            _ => Self { scope: Scope::AllNamespaces, ..self.clone() },
        }
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Of an object of this name.
    fn key(&self, operation: &'static str, name: &str) -> Result<ObjectKey, Error> {
        let key = ObjectKey::new(&*self.kind, self.scope.name(), name);
        if self.scope == Scope::AllNamespaces {
            let problem = "an object has one namespace: choose it with `namespace`";
            return Err(Error::Senseless { operation, target: key.to_string(), problem });
        }
        Ok(key)
    }

    /// What a list or a watch is of, for people.
    fn whole(&self) -> String {
        match &self.scope {
            Scope::Cluster => self.kind.to_string(),
            Scope::Namespace(namespace) => format!("{} {namespace}/*", self.kind),
            Scope::AllNamespaces => format!("{} */*", self.kind),
        }
    }
}
