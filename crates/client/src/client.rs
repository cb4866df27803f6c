//! The client: what all calls share, and what they carry unless told otherwise.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_client::CoordinationClient;
use setpoint_api::setpoint::v1::objects_client::ObjectsClient;
use setpoint_types::object::Fence;
use setpoint_types::{KindType, ObjectKey, Revision};
use tonic::Request;

use crate::api::Api;
use crate::attempt::Safety;
use crate::call::{Call, Caller};
use crate::config::{self, ConfigError};
use crate::convert;
use crate::endpoint::Endpoint;
use crate::entropy::Entropy;
use crate::error::Error;
use crate::leases::Leases;
use crate::ledgers::Ledgers;
use crate::options::{FieldValidation, OperationId, Scope, WriteOptions};
use crate::placement::Placement;
use crate::pool::{Pool, Slot};
use crate::sessions::Sessions;
use crate::settings::{Settings, SettingsError};
use crate::shape::{Dynamic, Shape};
use crate::transaction::Transaction;
use crate::wire::{ConnectError, Connector, Network, Wire};

/// Told of every write that was done: which object, and at which revision.
pub type OnWrite = Arc<dyn Fn(&ObjectKey, Revision) + Send + Sync>;

/// Told of every write of which nobody knows whether it was done ([`Error::is_ambiguous`]).
pub type OnAmbiguous = Arc<dyn Fn() + Send + Sync>;

/// A client of one cluster. Cheap to clone; clones share connections, and differ in what they carry.
///
/// **Guarantees**
/// - Every call ends by its deadline ([`Client::with_timeout`]).
/// - A write is sent again only if it cannot be done twice: by default each carries an operation id of its own, and what was
///   done before is answered with the first answer ([`crate::Written::repeated`]).
/// - A client with a fence ([`Client::with_fence`]) makes no write without it.
/// - An endpoint that does not answer is left alone, and tried again by one request at a time.
///
/// **Assumes** that all endpoints are nodes of one cluster, and that a runtime of tokio with time and IO is running.
///
/// **Does not promise** that a call that ended with [`Error::is_ambiguous`] was not done; that two calls reach the same
/// node; or that a repeated write is recognised after the server's memory of operations, which is minutes.
#[derive(Clone)]
pub struct Client {
    caller: Arc<Caller>,
    carried: Arc<Carried>,
}

/// What calls carry unless told otherwise.
#[derive(Clone)]
struct Carried {
    namespace: Arc<str>,
    manager: String,
    fence: Option<Fence>,
    timeout: Duration,
    trace: Option<tonic::metadata::AsciiMetadataValue>,
    on_write: Option<OnWrite>,
    on_ambiguous: Option<OnAmbiguous>,
}

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Client {
    /// A client over the network. Nothing is sent before the first call.
    pub fn new(settings: Settings) -> Result<Self, BuildError> {
        let network = Network::new(&settings);
        Self::with_seams(settings, &network, Entropy::system())
    }

    /// A client as the config file says: see [`crate::config`].
    pub fn from_config() -> Result<Self, BuildError> {
        Self::new(config::load(None)?)
    }

    /// A client whose network and randomness are the caller's: for tests and simulations.
    pub fn with_seams(
        settings: Settings,
        connector: &dyn Connector,
        entropy: Entropy,
    ) -> Result<Self, BuildError> {
        settings.check()?;
        let pool = Pool::new(&settings, connector, entropy.clone())?;
        let carried = Carried {
            namespace: settings.namespace.as_str().into(),
            manager: String::new(),
            fence: None,
            timeout: settings.timeouts.call,
            trace: None,
            on_write: None,
            on_ambiguous: None,
        };
        Ok(Self { caller: Arc::new(Caller::new(pool, settings, entropy)), carried: Arc::new(carried) })
    }

    fn carrying(&self, change: impl FnOnce(&mut Carried)) -> Self {
        let mut carried = Carried::clone(&self.carried);
        change(&mut carried);
        Self { caller: self.caller.clone(), carried: Arc::new(carried) }
    }

    /// The same client, whose writes are this manager's decisions.
    #[must_use]
    pub fn with_manager(&self, manager: impl Into<String>) -> Self {
        self.carrying(|carried| carried.manager = manager.into())
    }

    /// The same client, whose every write carries this fence: once the lease has another holder or epoch, none is done.
    /// For another epoch make another client; this one can never write under it.
    #[must_use]
    pub fn with_fence(&self, fence: Fence) -> Self {
        self.carrying(|carried| carried.fence = Some(fence))
    }

    /// The same client, whose calls may take so long, with all their attempts.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        self.carrying(|carried| carried.timeout = timeout)
    }

    /// The same client, for objects of this namespace.
    #[must_use]
    pub fn with_namespace(&self, namespace: &str) -> Self {
        self.carrying(|carried| carried.namespace = namespace.into())
    }

    /// The same client, whose requests are part of a trace (`traceparent` of W3C). One that cannot be sent is left out.
    #[must_use]
    pub fn with_trace(&self, traceparent: &str) -> Self {
        self.carrying(|carried| carried.trace = traceparent.parse().ok())
    }

    /// The same client, which tells of every write that was done, in place of whom it told before.
    #[must_use]
    pub fn with_on_write(&self, on_write: OnWrite) -> Self {
        self.carrying(|carried| carried.on_write = Some(on_write))
    }

    /// The same client, which tells of every write whose outcome is not known, also if its caller does not look.
    #[must_use]
    pub fn with_on_ambiguous(&self, on_ambiguous: OnAmbiguous) -> Self {
        self.carrying(|carried| carried.on_ambiguous = Some(on_ambiguous))
    }

    /// The objects of a kind, in the client's namespace if the kind has them.
    pub fn api<K: KindType + Shape>(&self) -> Api<K> {
        let scope = if K::INFO.namespaced { self.home() } else { Scope::Cluster };
        Api::new(self.clone(), K::INFO.name, scope)
    }

    /// The objects of a kind that only the running program knows. For one of the whole cluster use `Scope::Cluster`.
    pub fn dynamic(&self, kind: &str, scope: Scope) -> Api<Dynamic> {
        Api::new(self.clone(), kind, scope)
    }

    /// The objects of a kind in another shape, such as `Partial<K>`.
    pub fn shaped<S: Shape>(&self, kind: &str, scope: Scope) -> Api<S> {
        Api::new(self.clone(), kind, scope)
    }

    /// The client's namespace.
    pub fn home(&self) -> Scope {
        Scope::Namespace(self.carried.namespace.clone())
    }

    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }

    pub fn leases(&self) -> Leases {
        Leases::new(self.clone())
    }

    pub fn ledgers(&self) -> Ledgers {
        Ledgers::new(self.clone())
    }

    pub fn placement(&self) -> Placement {
        Placement::new(self.clone())
    }

    /// Where it looks for the cluster.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.caller.settings.endpoints
    }

    /// Logs of replicas, and commands in them.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.clone())
    }

    pub fn fence(&self) -> Option<&Fence> {
        self.carried.fence.as_ref()
    }

    /// Whose decisions its writes are, unless they say otherwise. Empty if nobody said.
    pub fn manager(&self) -> &str {
        &self.carried.manager
    }

    /// The client's source of randomness, for those who build on it.
    pub fn entropy(&self) -> &Entropy {
        &self.caller.entropy
    }

    /// The options of one write, completed by what the client carries, and whether it may be sent again.
    pub(crate) fn options(&self, options: &WriteOptions) -> (pb::WriteOptions, Safety) {
        let operation = match &options.operation {
            OperationId::Drawn if options.dry_run => String::new(),
            OperationId::Drawn => self.caller.entropy.operation(),
            OperationId::Chosen(id) => id.clone(),
            OperationId::None => String::new(),
        };
        // What is only tried out can be tried out again.
        let safe = !operation.is_empty() || options.dry_run;
        let validation = match options.field_validation {
            FieldValidation::Strict => pb::write_options::FieldValidation::Strict,
            FieldValidation::Warn => pb::write_options::FieldValidation::Warn,
            FieldValidation::Ignore => pb::write_options::FieldValidation::Ignore,
        };
        let wire = pb::WriteOptions {
            manager: options.manager.clone().unwrap_or_else(|| self.carried.manager.clone()),
            operation,
            fence: options.fence.as_ref().or(self.fence()).map(convert::wire_fence),
            dry_run: options.dry_run,
            field_validation: validation.into(),
        };
        (wire, if safe { Safety::Repeatable } else { Safety::Once })
    }

    pub(crate) fn wrote(&self, key: &ObjectKey, revision: Revision, options: &WriteOptions) {
        if let Some(on_write) = &self.carried.on_write
            && !options.dry_run
        {
            on_write(key, revision);
        }
    }

    /// A call of the object service.
    pub(crate) async fn objects<M, T, F, Sent>(&self, call: &Call, message: M, send: F) -> Result<T, Error>
    where
        M: Clone,
        F: Fn(ObjectsClient<Wire>, Request<M>) -> Sent,
        Sent: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let sent = self.call(call, message, |wire, request| {
            let bytes_max = self.caller.settings.answer_bytes_max;
            send(ObjectsClient::new(wire).max_decoding_message_size(bytes_max), request)
        });
        Ok(sent.await?.0.into_inner())
    }

    /// A call of the lease service.
    pub(crate) async fn coordination<M, T, F, Sent>(
        &self,
        call: &Call,
        message: M,
        send: F,
    ) -> Result<T, Error>
    where
        M: Clone,
        F: Fn(CoordinationClient<Wire>, Request<M>) -> Sent,
        Sent: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let sent = self.call(call, message, |wire, request| send(CoordinationClient::new(wire), request));
        Ok(sent.await?.0.into_inner())
    }

    /// A call of any service, with the deadline of an attempt and the trace on each request.
    pub(crate) async fn call<M, T, F, Sent>(
        &self,
        call: &Call,
        message: M,
        send: F,
    ) -> Result<(T, Slot), Error>
    where
        M: Clone,
        F: Fn(Wire, Request<M>) -> Sent,
        Sent: Future<Output = Result<T, tonic::Status>>,
    {
        let attempt = |wire: Wire, budget: Duration| {
            let mut request = self.request(message.clone());
            request.set_timeout(budget);
            send(wire, request)
        };
        let answer = self.caller.call(call, self.carried.timeout, attempt).await;
        if let (Err(error), Some(on_ambiguous)) = (&answer, &self.carried.on_ambiguous)
            && error.is_ambiguous()
        {
            on_ambiguous();
        }
        answer
    }

    /// Without a deadline: for streams.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(trace) = &self.carried.trace {
            request.metadata_mut().insert("traceparent", trace.clone());
        }
        request
    }

    /// The wire to one endpoint, whoever else may answer.
    pub(crate) fn wire(&self, endpoint: usize) -> Wire {
        self.caller.pool.wire(endpoint)
    }

    pub(crate) fn own_wire(&self, endpoint: usize) -> Wire {
        self.caller.pool.own_wire(endpoint)
    }

    pub(crate) fn answer_bytes_max(&self) -> usize {
        self.caller.settings.answer_bytes_max
    }

    pub(crate) fn attempt_timeout(&self) -> Duration {
        self.caller.settings.timeouts.attempt
    }

    /// The same as `call`, for streams: the deadline is for the beginning of the answer, not for its end.
    pub(crate) async fn open<M, T, F, Sent>(
        &self,
        call: &Call,
        message: M,
        send: F,
    ) -> Result<(T, Slot), Error>
    where
        M: Clone,
        F: Fn(Wire, Request<M>) -> Sent,
        Sent: Future<Output = Result<T, tonic::Status>>,
    {
        let attempt = |wire: Wire, _: Duration| send(wire, self.request(message.clone()));
        self.caller.call(call, self.carried.timeout, attempt).await
    }
}
