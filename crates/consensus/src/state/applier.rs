//! The one thread that changes the machine.
//!
//! A thread of its own rather than the runtime's blocking pool: entries are applied many times a second, each time by
//! the same thread with warm caches, and a stall in the machine never takes a thread from anybody else.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;

use crate::machine::{Applied, Committed, Machine, MachineFailure};

enum Job {
    Apply { entries: Vec<Committed>, done: oneshot::Sender<Result<(), MachineFailure>> },
    Install { directory: PathBuf, done: oneshot::Sender<Result<Applied, MachineFailure>> },
}

/// Ends its thread when it is dropped.
pub struct Applier {
    jobs: SyncSender<Job>,
}

impl Applier {
    pub fn spawn(machine: Arc<dyn Machine>) -> io::Result<Self> {
        // The caller waits for each job, so one place is enough and sending never blocks.
        let (jobs, queue) = sync_channel(1);
        std::thread::Builder::new().name("apply".to_owned()).spawn(move || work(&*machine, &queue))?;
        Ok(Self { jobs })
    }

    pub async fn apply(&self, entries: Vec<Committed>) -> io::Result<()> {
        let (done, outcome) = oneshot::channel();
        self.run(Job::Apply { entries, done }, outcome).await
    }

    pub async fn install(&self, directory: PathBuf) -> io::Result<Applied> {
        let (done, outcome) = oneshot::channel();
        self.run(Job::Install { directory, done }, outcome).await
    }

    async fn run<T>(&self, job: Job, outcome: oneshot::Receiver<Result<T, MachineFailure>>) -> io::Result<T> {
        let gone = |_| io::Error::other("the thread that applies entries has ended");
        self.jobs.send(job).map_err(|_| gone(()))?;
        outcome.await.map_err(|_| gone(()))?.map_err(io::Error::other)
    }
}

fn work(machine: &dyn Machine, queue: &Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        // Whoever asked may be gone with its runtime; then nobody needs the answer.
        match job {
            Job::Apply { entries, done } => drop(done.send(machine.apply(entries))),
            Job::Install { directory, done } => drop(done.send(machine.install(&directory))),
        }
    }
}
