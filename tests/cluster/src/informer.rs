//! An informer without mercy: it hops from node to node, reads slowly or falls far behind, and holds what it has folded
//! against lists of the same revision from any node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

use crate::client::Client;
use crate::fold::Fold;
use crate::object::{exactly, reason};
use crate::testbed::PATIENCE;

/// What it watches, and how.
#[derive(Clone, Debug)]
pub struct Interest {
    pub kind: &'static str,
    pub labels: &'static str,
    pub fields: &'static str,
    /// Revisions it lets pass before it goes on after a hop.
    pub lag: u64,
}

/// How often what happened to all informers of a test.
#[derive(Debug, Default)]
pub struct Counts {
    pub compared: AtomicUsize,
    pub expired: AtomicUsize,
    pub resumed: AtomicUsize,
    /// Streams left because nothing came, not even a bookmark.
    pub stalled: AtomicUsize,
}

pub struct Informer {
    until: watch::Sender<u64>,
    task: JoinHandle<Result<(), String>>,
}

const BOOKMARKS_MS: u32 = 300;
/// Many times the interval between bookmarks.
const SILENCE: Duration = Duration::from_secs(4);
const RETRY: Duration = Duration::from_millis(50);
/// Small, so that most lists have several pages.
const PAGE: u32 = 4;

impl Informer {
    /// `newest` is how far the writers have come.
    pub fn start(
        addresses: &[String],
        interest: Interest,
        seed: u64,
        newest: watch::Receiver<u64>,
        counts: Arc<Counts>,
    ) -> Self {
        let clients = addresses.iter().map(|address| Client::new(address)).collect();
        let (until, end) = watch::channel(u64::MAX);
        let random = StdRng::seed_from_u64(seed);
        let running = Running { clients, interest, random, newest, end, counts, fold: Fold::default() };
        Self { until, task: tokio::spawn(running.run()) }
    }

    /// Lets it come to this revision, where it compares for the last time.
    pub async fn finish(self, last: u64) -> Result<(), String> {
        self.until.send_replace(last);
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        ended.map_err(|_| format!("an informer does not come to revision {last}"))?.expect("no panic")
    }
}

struct Running {
    clients: Vec<Client>,
    interest: Interest,
    random: StdRng,
    newest: watch::Receiver<u64>,
    end: watch::Receiver<u64>,
    counts: Arc<Counts>,
    fold: Fold,
}

impl Running {
    async fn run(mut self) -> Result<(), String> {
        loop {
            match self.open().await {
                Ok(stream) => {
                    if self.follow(stream).await? {
                        return Ok(());
                    }
                    self.lag().await;
                }
                Err(status) => {
                    if reason(&status) == Some(Reason::Expired) {
                        self.expired();
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    fn expired(&mut self) {
        self.counts.expired.fetch_add(1, Ordering::Relaxed);
        self.fold.restart();
    }

    async fn open(&mut self) -> Result<Streaming<pb::WatchResponse>, Status> {
        let loaded = self.fold.is_loaded();
        if loaded {
            self.counts.resumed.fetch_add(1, Ordering::Relaxed);
        } else {
            self.fold.restart();
        }
        let request = pb::WatchRequest {
            kind: self.interest.kind.into(),
            label_selector: self.interest.labels.into(),
            field_selector: self.interest.fields.into(),
            from_revision: self.fold.at,
            initial_state: !loaded,
            bookmark_interval_ms: BOOKMARKS_MS,
            ..Default::default()
        };
        Ok(self.any_client().objects().watch(request).await?.into_inner())
    }

    fn any_client(&mut self) -> Client {
        let node = self.random.random_range(0..self.clients.len());
        self.clients[node].clone()
    }

    /// Reads for a while. True if it has come to the end.
    async fn follow(&mut self, mut stream: Streaming<pb::WatchResponse>) -> Result<bool, String> {
        for _ in 0..self.random.random_range(5..60) {
            let answer = tokio::select! {
                answer = stream.message() => answer,
                () = tokio::time::sleep(SILENCE) => {
                    self.counts.stalled.fetch_add(1, Ordering::Relaxed);
                    return Ok(false);
                }
            };
            let Ok(Some(answer)) = answer else { return Ok(false) };
            if let Some(error) = self.fold.take(answer)? {
                match error.reason() {
                    Reason::Expired | Reason::TooSlow => self.expired(),
                    Reason::Unavailable => {}
                    other => return Err(format!("a watch ended with {other:?}: {}", error.message)),
                }
                return Ok(false);
            }
            let ends = self.fold.is_loaded() && self.fold.at >= *self.end.borrow();
            if self.fold.is_loaded() && (ends || self.random.random_range(0..3) == 0) {
                self.compare().await?;
            }
            if ends {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Falls behind, unless the end is near.
    async fn lag(&mut self) {
        let goal = self.fold.at + self.interest.lag;
        while *self.newest.borrow_and_update() < goal && *self.end.borrow() == u64::MAX {
            tokio::select! {
                _ = self.newest.changed() => {}
                _ = self.end.changed() => return,
            }
        }
    }

    async fn compare(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let (mut listed, mut token) = (Vec::new(), String::new());
        loop {
            let request = pb::ListRequest {
                kind: self.interest.kind.into(),
                label_selector: self.interest.labels.into(),
                field_selector: self.interest.fields.into(),
                at: exactly(self.fold.at),
                limit: PAGE,
                r#continue: token.clone(),
                ..Default::default()
            };
            // Every page from another node.
            match self.any_client().objects().list(request).await.map(tonic::Response::into_inner) {
                Ok(page) if page.revision != self.fold.at => {
                    return Err(format!("O4: a page of revision {}, not {}", page.revision, self.fold.at));
                }
                Ok(page) => {
                    listed.extend(page.objects);
                    token = page.r#continue;
                    if token.is_empty() {
                        break;
                    }
                }
                // Compacted meanwhile: nobody can tell any more.
                Err(status) if reason(&status) == Some(Reason::Expired) => return Ok(()),
                Err(status) if Instant::now() > deadline => return Err(format!("no list: {status:?}")),
                Err(status) if matches!(reason(&status), Some(Reason::Invalid | Reason::Internal)) => {
                    return Err(format!("a list was refused: {status:?}"));
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
        self.counts.compared.fetch_add(1, Ordering::Relaxed);
        self.fold.compare(listed)
    }
}
