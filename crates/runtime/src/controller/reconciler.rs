//! What a controller does with one key: observe, plan, execute.
//!
//! Not here: when that happens, and what follows from the result (`worker.rs`, `verdict.rs`).

use std::future::Future;
use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;

use super::error::ReconcileError;
use super::run::{Phase, Run};

/// What a controller does. One instance serves all keys, several at a time, and remembers nothing between runs.
///
/// **Guarantees** to it
/// - One key is not run twice at the same time, in this process or, under election, in any other that still may write.
/// - A run begins only after the caches have seen what the last run of its key wrote.
/// - A change that comes during a run is answered by another run.
///
/// **Assumes** of it
/// - `observe` reads, `plan` is pure, `execute` does what the plan says and nothing else. Whatever `plan` decides by is in
///   `Observed`, the time included ([`Run::now`]).
/// - Every write goes through [`Run::client`], so that it is fenced, counted and waited for.
/// - A run may be dropped at any `.await`: its time is up, or its shard is another's now. The next run goes on from what there
///   is.
///
/// **Does not promise** to stop code that never awaits, nor that every state of an object is seen.
pub trait Reconciler: Send + Sync + 'static {
    /// Everything the plan is made from.
    type Observed: Send + Sync;
    /// What is to be done, so exact that doing it needs no further choice. Two plans that say the same are serialised to the
    /// same JSON: use ordered maps. What was seen is no part of it: `execute` is given that, too.
    type Plan: Serialize + Send;

    /// Reads what there is. None: the object is gone, and nothing is left to do.
    fn observe(
        &self,
        run: &Run,
    ) -> impl Future<Output = Result<Option<Self::Observed>, ReconcileError>> + Send;

    /// Decides. Pure: no clock, no randomness, no IO.
    fn plan(&self, observed: &Self::Observed) -> Self::Plan;

    /// Does it. `observed` is what the plan was made from: what writes prove themselves by, and are compared with.
    fn execute(
        &self,
        run: &Run,
        observed: &Self::Observed,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

/// What is to become of a key whose run went well. **Guarantees**: a change, and a resync, make the key run whatever was said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// It runs again after this time, unless a change makes it run before: then that run decides anew.
    RequeueAfter(Duration),
}

/// What a run that came to its end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub action: Action,
    /// Of the plan; none if there was nothing to plan for, or it cannot be serialised.
    pub fingerprint: Option<u64>,
}

/// A reconciler whose types are forgotten, so that nothing around it has to name them.
pub(crate) trait Work: Send + Sync {
    fn work<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<Finished, ReconcileError>>;
}

impl<R: Reconciler> Work for R {
    fn work<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Result<Finished, ReconcileError>> {
        Box::pin(async move {
            run.enter(Phase::Observe);
            let Some(observed) = self.observe(run).await? else {
                return Ok(Finished { action: Action::Done, fingerprint: None });
            };
            run.enter(Phase::Plan);
            let plan = self.plan(&observed);
            let fingerprint = fingerprint(&plan);
            run.enter(Phase::Execute);
            let action = self.execute(run, &observed, plan).await?;
            Ok(Finished { action, fingerprint })
        })
    }
}

/// A number that is the same for plans which say the same. Only compared within a process.
fn fingerprint(plan: &impl Serialize) -> Option<u64> {
    let mut hasher = HashWriter(std::hash::DefaultHasher::new());
    serde_json::to_writer(&mut hasher, plan).ok()?;
    Some(std::hash::Hasher::finish(&hasher.0))
}

/// Hashes what is written, instead of keeping it.
struct HashWriter(std::hash::DefaultHasher);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::hash::Hasher::write(&mut self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn plans_that_say_the_same_have_the_same_fingerprint() {
        let plan = |value: &str| fingerprint(&BTreeMap::from([("create", value)]));
        assert_eq!(plan("a"), plan("a"));
        assert_ne!(plan("a"), plan("b"));
        let unserialisable = BTreeMap::from([((1, 2), "keys of JSON are texts")]);
        assert_eq!(fingerprint(&unserialisable), None);
    }
}
