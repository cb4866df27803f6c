//! What a controller is swept through: what there is, what is wanted of it, and what must hold.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use setpoint_client::{Client, Error};
use setpoint_types::Revision;
use setpoint_types::object::Object;
use tokio_util::sync::CancellationToken;

use crate::fault::Fault;
use crate::history::{Change, History, Moment, State};

pub(super) type Program = Arc<dyn Fn(Client, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;
pub(super) type Deed = Arc<dyn Fn(Client) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;
pub(super) type Converged = Arc<dyn Fn(&State) -> Result<(), String> + Send + Sync>;
pub(super) type Invariant = Arc<dyn Fn(&Moment) -> Result<(), String> + Send + Sync>;
pub(super) type Audit = Arc<dyn Fn(&History) -> Result<(), Violation> + Send + Sync>;
pub(super) type Forget = Arc<dyn Fn(&mut Object) -> bool + Send + Sync>;
pub(super) type Allowed = Arc<dyn Fn(&Change) -> bool + Send + Sync>;

/// A controller and what it is to do, to be run again and again.
///
/// **Assumes** that the program keeps nothing outside of the store and of what the scenario empties in its setup, takes time from tokio's clock
/// and the date from [`crate::now`], and that steps and checks do not depend on the way.
///
/// **Does not promise** to see what the controller thinks of itself: everything the checks look at is what the store holds.
#[derive(Clone)]
pub struct Scenario {
    pub(super) program: Program,
    pub(super) setup: Vec<Deed>,
    pub(super) steps: Vec<(String, Deed)>,
    pub(super) converged: Converged,
    pub(super) invariants: Vec<(String, Invariant)>,
    pub(super) audits: Vec<Audit>,
    pub(super) forgets: Vec<Forget>,
    pub(super) allowed: Vec<Allowed>,
    pub(super) without: Vec<Fault>,
    pub(super) limits: Limits,
    pub(super) replicas: usize,
    pub(super) faulty: usize,
}

/// What does not hold though it always must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: String,
    /// Where it shows first.
    pub revision: Revision,
    pub why: String,
}

/// How far a sweep goes. Times are of the clock that is held: they cost little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Writes, and events, with which faults happen; of further ones none does. The report says if there were more.
    pub places_max: u64,
    /// Plans of several faults at once, drawn from the seed.
    pub drawn: u64,
    pub seed: u64,
    /// A sweep that has found so many failures ends.
    pub failures_max: usize,
    /// How long the controller may take for what is wanted, with whatever goes wrong.
    pub patience: Duration,
    /// After everything is as wanted, what was still on its way may arrive for so long, and be put right.
    pub settling: Duration,
    /// For so long nothing may be written afterwards.
    pub quiet: Duration,
    /// And no more be asked for than this.
    pub requests_per_minute_max: u64,
}

impl Default for Limits {
    /// Patience is beyond the longest fault with all waits of a client and a queue that follow from it.
    fn default() -> Self {
        Self {
            places_max: 40,
            drawn: 20,
            seed: 0,
            failures_max: 5,
            patience: Duration::from_secs(20 * 60),
            settling: Duration::from_secs(2 * 60),
            quiet: Duration::from_secs(10 * 60),
            requests_per_minute_max: 30,
        }
    }
}

impl Scenario {
    /// A controller as its `main` starts it: a client, and a token that is cancelled when it shall stop. It is called again after
    /// every crash, and must find everything it needs in the store.
    pub fn new<F, Run>(program: F) -> Self
    where
        F: Fn(Client, CancellationToken) -> Run + Send + Sync + 'static,
        Run: Future<Output = ()> + Send + 'static,
    {
        Self {
            program: Arc::new(move |client, stop| program(client, stop).boxed()),
            setup: Vec::new(),
            steps: Vec::new(),
            converged: Arc::new(|_| Ok(())),
            invariants: Vec::new(),
            audits: Vec::new(),
            forgets: Vec::new(),
            allowed: Vec::new(),
            without: Vec::new(),
            limits: Limits::default(),
            replicas: 1,
            faulty: 0,
        }
    }

    /// What is there before the controller starts.
    #[must_use]
    pub fn setup<F, Done>(mut self, deed: F) -> Self
    where
        F: Fn(Client) -> Done + Send + Sync + 'static,
        Done: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.setup.push(Arc::new(move |client| deed(client).boxed()));
        self
    }

    /// What somebody does once everything is as was wanted before.
    #[must_use]
    pub fn step<F, Done>(mut self, name: impl Into<String>, deed: F) -> Self
    where
        F: Fn(Client) -> Done + Send + Sync + 'static,
        Done: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.steps.push((name.into(), Arc::new(move |client| deed(client).boxed())));
        self
    }

    /// Whether everything is as it is wanted, and if not, what is amiss. Asked after the setup and after every step, so it
    /// compares what is there with what is wanted there.
    #[must_use]
    pub fn converged(mut self, check: impl Fn(&State) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.converged = Arc::new(check);
        self
    }

    /// What holds at every revision there ever is, on the way as well.
    #[must_use]
    pub fn invariant(
        mut self,
        name: impl Into<String>,
        check: impl Fn(&Moment) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariants.push((name.into(), Arc::new(check)));
        self
    }

    /// The same for what can only be told of a whole history, or is too much to be told of every revision by itself.
    #[must_use]
    pub fn audit(
        mut self,
        check: impl Fn(&History) -> Result<(), Violation> + Send + Sync + 'static,
    ) -> Self {
        self.audits.push(Arc::new(check));
        self
    }

    /// What may be different in the end if something went wrong on the way: changes the object so that it is not, or says
    /// that the whole of it does not matter (false).
    ///
    /// Without saying so may differ: uids, revisions, generations, times, who manages which field, names that the server completes;
    /// and Leases, Events and Decisions, which tell of the way itself.
    #[must_use]
    pub fn may_differ(mut self, forget: impl Fn(&mut Object) -> bool + Send + Sync + 'static) -> Self {
        self.forgets.push(Arc::new(forget));
        self
    }

    /// What may be written although everything is as it is wanted.
    #[must_use]
    pub fn may_write(mut self, allowed: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        self.allowed.push(Arc::new(allowed));
        self
    }

    /// This does not happen: what it promises nothing about. Say beside it why not.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.without.push(fault);
        self
    }

    /// So many processes of the controller run at a time. What goes wrong goes wrong for the first of them, unless
    /// [`Scenario::faulty`] says for which; their writes are stamped `user:controller`, `user:standby-1` and so on.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas.max(1);
        self
    }

    /// What goes wrong goes wrong for this one of the replicas, counted from 0. The first one is the first to ask for its leases: faults
    /// of others are those of a standby, until the first gives them up.
    #[must_use]
    pub fn faulty(mut self, replica: usize) -> Self {
        self.faulty = replica;
        self
    }

    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}
