//! Many small writes of objects, of every sort, through every node: something for watches to follow.
//!
//! Nobody keeps a record; what is checked is that reads agree with each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::write::Write;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Status;

use crate::client::Client;
use crate::object::{THING, key, metadata, object, options, reason};

const NAMES: u32 = 14;
const TIMEOUT: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(8);
const AFTER_FAILURE: Duration = Duration::from_millis(60);

pub struct Churn {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    newest: Arc<watch::Sender<u64>>,
    tasks: JoinSet<Result<(), String>>,
}

impl Churn {
    pub fn start(addresses: &[String], seed: u64, clients: usize) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let newest = Arc::new(watch::Sender::new(0));
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let writer = Writer {
                manager: format!("m{client}"),
                node: client % addresses.len(),
                nodes: addresses.iter().map(|address| Client::with_timeout(address, TIMEOUT)).collect(),
                random: StdRng::seed_from_u64(seed.wrapping_mul(7919).wrapping_add(client as u64)),
            };
            tasks.spawn(writer.run(stop.clone(), done.clone(), newest.clone()));
        }
        Self { stop, done, newest, tasks }
    }

    /// Writes that were acknowledged so far.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// How far the writers have come.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Lets everybody finish. Says what was refused that should not have been.
    pub async fn stop(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a writer does not panic")?;
        }
        Ok(())
    }
}

struct Writer {
    manager: String,
    nodes: Vec<Client>,
    /// Where it writes, until that fails.
    node: usize,
    random: StdRng,
}

impl Writer {
    async fn run(
        mut self,
        stop: Arc<AtomicBool>,
        done: Arc<AtomicUsize>,
        newest: Arc<watch::Sender<u64>>,
    ) -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) {
            if self.random.random_range(0..40) == 0 {
                self.node = self.random.random_range(0..self.nodes.len());
            }
            let pause = match self.write().await {
                Ok(revision) => {
                    done.fetch_add(1, Ordering::Relaxed);
                    newest.send_if_modified(|newest| {
                        let later = revision > *newest;
                        *newest = revision.max(*newest);
                        later
                    });
                    PAUSE
                }
                Err(status) => match reason(&status) {
                    Some(Reason::NotFound | Reason::AlreadyExists | Reason::Conflict) => PAUSE,
                    // Also where the connection broke.
                    None | Some(Reason::Unavailable | Reason::Timeout | Reason::TooManyRequests) => {
                        self.node = (self.node + 1) % self.nodes.len();
                        AFTER_FAILURE
                    }
                    Some(other) => return Err(format!("a write was refused with {other:?}: {status:?}")),
                },
            };
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<u64, Status> {
        let mut objects = self.nodes[self.node].objects();
        let options = options(&self.manager, "");
        let one = self.thing();
        match self.random.random_range(0..11) {
            0..4 => {
                let request = pb::CreateRequest { object: Some(one), options };
                objects.create(request).await.map(|done| done.into_inner().revision)
            }
            4..6 => {
                let request = pb::UpdateRequest { object: Some(one), options };
                objects.update(request).await.map(|done| done.into_inner().revision)
            }
            6 => {
                let request = pb::ApplyRequest { object: Some(one), options, force: true, status: false };
                objects.apply(request).await.map(|done| done.into_inner().write.unwrap_or_default().revision)
            }
            7 => {
                let mut one = one;
                one.status = format!(r#"{{"ready":{}}}"#, self.random.random_range(0..9)).into();
                let request = pb::UpdateRequest { object: Some(one), options };
                objects.update_status(request).await.map(|done| done.into_inner().revision)
            }
            8 => {
                let request = pb::PatchRequest {
                    key: Some(self.key()),
                    patch: r#"{"metadata":{"labels":{"app":null}},"spec":{"zone":"z1"}}"#.into(),
                    options,
                    ..Default::default()
                };
                objects.patch(request).await.map(|done| done.into_inner().revision)
            }
            9 => {
                let key = Some(self.key());
                let request = pb::DeleteRequest { key, options, ..Default::default() };
                objects.delete(request).await.map(|done| done.into_inner().revision)
            }
            _ => {
                // One goes and others come, in one revision.
                let delete = pb::DeleteWrite { key: Some(self.key()), ..Default::default() };
                let apply = pb::ApplyWrite { object: Some(self.thing()), force: true, status: false };
                let writes = [Write::Delete(delete), Write::Apply(apply), Write::Create(one)];
                let writes = writes.map(|write| pb::Write { write: Some(write) }).into();
                let request = pb::TransactRequest { writes, options, ..Default::default() };
                match objects.transact(request).await {
                    Ok(done) => Ok(done.into_inner().revision),
                    // The same object twice is refused, and which ones it is was drawn.
                    Err(status) if reason(&status) == Some(Reason::Invalid) => Ok(0),
                    Err(status) => Err(status),
                }
            }
        }
    }

    fn thing(&mut self) -> pb::Object {
        let name = format!("o{}", self.random.random_range(0..NAMES));
        let (replicas, zone) = (self.random.random_range(0..100), self.random.random_range(0..3));
        let mut thing = object(THING, &name, &format!(r#"{{"replicas":{replicas},"zone":"z{zone}"}}"#));
        let labels = &mut metadata(&mut thing).labels;
        let app = self.random.random_range(0..3);
        if app < 2 {
            labels.insert("app".into(), ["x", "y"][app].into());
        }
        if self.random.random_range(0..2) == 0 {
            labels.insert("tier".into(), "t".into());
        }
        thing
    }

    fn key(&mut self) -> pb::ObjectKey {
        key(THING, &format!("o{}", self.random.random_range(0..NAMES)))
    }
}
