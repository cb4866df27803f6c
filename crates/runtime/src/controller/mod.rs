//! The controller loop: what wakes a key, and what happens when it is its turn.
//!
//! ```text
//! caches ──▶ feed ──key──▶ queue ──▶ worker: observe → plan → execute ──▶ verdict ──▶ keeper ──▶ queue
//!                            ▲                        │ writes, fenced                  waits until the caches have
//!                 resync ────┘                        ▼                                 seen what was written
//!                 a shard gained, an overflow       store
//! ```
//!
//! - [`reconciler`][Reconciler], [`Run`], [`ReconcileError`], [`Predicate`]: what the author of a controller meets
//! - `source`, `feed`, `wakes`: from changes to keys, and since when; `resync`: without changes
//! - `worker`, `verdict`: one run, and what follows from it
//! - `keeper`, `parking`: read your writes
//! - `ownership`, `shards`, `gate`: only keys of shards that are held
//! - `writers`, `oscillation`, `repeat`, `standing`: what goes in circles, and how a key shows that it does not get on
//! - `engine`: all of it as tasks
//!
//! Why it is so: `docs/adr/0013-controller-loop.md`. Not here: leases (`election`), and what several controllers share (`manager`).

pub(crate) mod engine;
mod error;
mod feed;
mod gate;
mod keeper;
pub(crate) mod metrics;
mod oscillation;
pub(crate) mod ownership;
mod parking;
mod predicate;
mod recent;
mod reconciler;
mod repeat;
mod resync;
mod run;
mod settings;
mod shards;
pub(crate) mod source;
mod standing;
mod verdict;
mod wakes;
mod worker;
mod writers;

use std::fmt;
use std::sync::Arc;

pub use error::ReconcileError;
pub use predicate::Predicate;
pub use reconciler::{Action, Reconciler};
pub use run::{Run, RunId, SnapshotError, Wake};
use setpoint_client::Shape;
use setpoint_types::kinds::KindDefinitionSpec;
pub use settings::ControllerSettings;
pub(crate) use settings::Options;
use source::{Role, Source};

use crate::cache::{Cache, Delta, Key};
use crate::queue::SettingsError;

/// A controller that is being put together: a reconciler, and what wakes it. [`crate::Manager::add`] takes it.
///
/// **Guarantees**
/// - Events only wake: they become keys, and many events of a key one run. Every change of a source is followed by a run that
///   begins after the caches have it, as long as this process holds the key's shard; whoever gains a shard runs all its keys.
/// - A key never runs twice at the same time, and not before every cache of the manager has seen what its last run wrote. After a
///   write of unknown outcome it waits until the caches have everything up to a revision read after it.
/// - A run that fails, panics or takes too long does no harm to others, and is tried again, later each time. What a run returns
///   cannot make it run in a loop without a pause.
/// - Memory is bounded: by the caches, and by `keys_max` of the queue.
///
/// **Assumes** that its caches are of the manager's informers, that `map` and predicates are quick and depend on the change
/// alone, and what [`Reconciler`] assumes.
///
/// **Does not promise**
/// - One run per event, or an order between keys.
/// - That a cache is current when a run begins: only that this controller's own writes are in it. A write that is still on its way
///   after its call was given up can come later than that; let it prove itself by a revision or a deterministic name.
/// - To stop code that never awaits: a plan that computes for ever holds its worker for ever.
#[must_use = "it runs once a manager has it"]
pub struct Controller {
    pub(crate) name: Arc<str>,
    pub(crate) work: Box<dyn reconciler::Work>,
    pub(crate) sources: Vec<Source>,
    pub(crate) urgent: Option<Predicate>,
    pub(crate) settings: ControllerSettings,
    pub(crate) definitions: Vec<KindDefinitionSpec>,
    misplaced_predicate: bool,
}

/// What is wrong with a controller.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    #[error("its name must be 1 to 50 lower-case letters, digits and '-', and begin with a letter")]
    Name,
    #[error("it is for one kind: call `for_kind` once")]
    Kind,
    #[error("`only_if` stands after the source it is about")]
    Predicate,
    #[error("the cache of {kind} is not of the manager's informers")]
    Cache { kind: String },
    #[error("its settings make no sense: {0}")]
    Settings(#[from] SettingsError),
    #[error("there is another controller of its name")]
    Twice,
    #[error("its leases make no sense")]
    Leases(#[from] crate::election::SettingsError),
    #[error("it cannot take part in an election")]
    Election(#[from] crate::election::ElectionError),
}

impl Controller {
    /// The name is that of the lease, of the field manager, and in logs and metrics.
    pub fn new(name: &str, reconciler: impl Reconciler) -> Self {
        Self {
            name: name.into(),
            work: Box::new(reconciler),
            sources: Vec::new(),
            urgent: None,
            settings: ControllerSettings::default(),
            definitions: Vec::new(),
            misplaced_predicate: false,
        }
    }

    fn source<K: Shape>(mut self, cache: &Cache<K>, role: Role) -> Self {
        self.sources.push(Source::new(cache, role));
        self
    }

    /// The kind it is for: a change of an object wakes its key.
    pub fn for_kind<K: Shape>(self, cache: &Cache<K>) -> Self {
        self.source(cache, Role::Primary)
    }

    /// A kind whose objects are parts of those it is for: a change of a part wakes the owner that controls it, and the one that
    /// did before.
    pub fn owns<K: Shape>(self, cache: &Cache<K>) -> Self {
        self.source(cache, Role::Owned)
    }

    /// Any other kind, and which keys a change of one of its objects wakes. Look at [`Delta::states`] if a change may lead
    /// away from a key: the one it leads away from has to be woken, too.
    ///
    /// A mapping may read caches. It is called when its own cache has the change; others may be behind it, so it may find less than
    /// there is. **Guaranteed**: nothing is lost by that, if each cache it reads is also a source of this controller that wakes the keys
    /// in question, because of two changes the one that is taken in later finds the other. **Not promised** for a cache that is no
    /// source: what comes to that later wakes nobody before the next resync.
    pub fn watches<K: Shape>(
        self,
        cache: &Cache<K>,
        map: impl Fn(&Delta, &mut dyn FnMut(Key)) + Send + Sync + 'static,
    ) -> Self {
        self.source(cache, Role::Mapped(Arc::new(map)))
    }

    /// Only these changes of the source named last wake it. A second one narrows it further.
    pub fn only_if(mut self, predicate: impl Into<Predicate>) -> Self {
        let predicate = predicate.into();
        match self.sources.last_mut() {
            Some(source) => {
                source.predicate = Some(match source.predicate.take() {
                    Some(before) => before.and(predicate),
                    None => predicate,
                });
            }
            None => self.misplaced_predicate = true,
        }
        self
    }

    /// Keys that such changes wake go before all others: somebody waits.
    pub fn urgent_if(mut self, predicate: impl Into<Predicate>) -> Self {
        self.urgent = Some(predicate.into());
        self
    }

    /// A kind it brings along: `KindDefinitionSpec::of::<Greeter>()`, with rules added where a type cannot say them. The manager
    /// defines it when it starts, as [`crate::ensure::ensure_kind`] does, and waits for caches after that.
    ///
    /// Every replica does so, before it holds a lease: of two versions of a program, the one that started last has defined it.
    pub fn defines(mut self, definition: KindDefinitionSpec) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Keys that are run at a time.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.settings.concurrency = workers;
        self
    }

    /// Leases that the keys are split over.
    pub fn shards(mut self, shards: u32) -> Self {
        self.settings.shards = shards;
        self
    }

    /// All settings at once; in place of what [`Controller::concurrency`] and [`Controller::shards`] said before.
    pub fn settings(mut self, settings: ControllerSettings) -> Self {
        self.settings = settings;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for and its options, if it makes sense.
    pub(crate) fn check(&self) -> Result<(source::Primary, Options), ControllerError> {
        let is_name_char = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        let begins_well = self.name.starts_with(|it: char| it.is_ascii_lowercase());
        if !begins_well || self.name.len() > 50 || !self.name.chars().all(is_name_char) {
            return Err(ControllerError::Name);
        }
        let mut primaries = self.sources.iter().filter(|source| source.is_primary());
        let (Some(primary), None) = (primaries.next(), primaries.next()) else {
            return Err(ControllerError::Kind);
        };
        if self.misplaced_predicate {
            return Err(ControllerError::Predicate);
        }
        Ok((primary.primary(), self.settings.clone().check()?))
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Controller({})", self.name)
    }
}
