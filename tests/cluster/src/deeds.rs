//! Transactions and applies that clients insist on: each has an operation id and is asked for, through one node after the other, until
//! it is done or refused. Whatever was answered is kept, for the check (`ledger`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::write::Write;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::object::{THING, metadata, object, options, refusal};

pub type Amounts = BTreeMap<String, u64>;

pub const LEDGER: &str = "pool";
/// Every deed that touches both kinds contends for this one.
pub const SHARED: (&str, &str) = ("PriorityClass", "shared");
/// Names the deed in each object that it writes.
pub const MARK: &str = "deed";

/// Owners of reservations per client.
const OWNERS: u64 = 3;
const TIMEOUT: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(15);
const AFTER_FAILURE: Duration = Duration::from_millis(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done {
        revision: u64,
        repeated: bool,
    },
    Refused(Reason),
    /// It may have happened.
    Unknown,
}

/// What one transaction is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub operation: String,
    /// Keys of the objects it writes, as they are stored.
    pub keys: Vec<String>,
    /// Whose reservation becomes what: nothing if it is released.
    pub reservation: Option<(String, Amounts)>,
    /// In the order they came.
    pub answers: Vec<Answer>,
}

/// How a deed is asked for.
#[derive(Clone, Debug)]
enum Asking {
    Transact(pb::TransactRequest),
    Apply(Box<pb::ApplyRequest>),
}

#[derive(Clone, Default)]
pub struct Record(Arc<Mutex<Vec<(Deed, Asking)>>>);

impl Record {
    pub fn deeds(&self) -> Vec<Deed> {
        self.0.lock().iter().map(|(deed, _)| deed.clone()).collect()
    }

    pub fn done(&self) -> usize {
        let done = |deed: &Deed| deed.answers.iter().any(|it| matches!(it, Answer::Done { .. }));
        self.0.lock().iter().filter(|(deed, _)| done(deed)).count()
    }

    fn begin(&self, deed: Deed, request: Asking) -> usize {
        let mut deeds = self.0.lock();
        deeds.push((deed, request));
        deeds.len() - 1
    }

    fn answer(&self, place: usize, answer: Answer) {
        self.0.lock()[place].0.answers.push(answer);
    }

    fn request(&self, place: usize) -> Asking {
        self.0.lock()[place].1.clone()
    }

    /// Asks once more for everything that is not refused, through any node, until each has an answer.
    pub async fn insist(&self, clients: &[Client]) {
        let places = self.0.lock().len();
        for place in 0..places {
            let refused = |it: &Answer| matches!(it, Answer::Refused(_));
            if self.0.lock()[place].0.answers.iter().any(refused) {
                continue;
            }
            for client in clients.iter().cycle().skip(place % clients.len()) {
                let answer = ask(client, self.request(place)).await;
                self.answer(place, answer.clone());
                if answer != Answer::Unknown {
                    break;
                }
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

pub struct Doers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Doers {
    pub fn start(addresses: &[String], record: &Record, seed: u64, clients: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let doer = Doer {
                client,
                nodes: addresses.iter().map(|address| Client::with_timeout(address, TIMEOUT)).collect(),
                random: StdRng::seed_from_u64(seed.wrapping_mul(6151).wrapping_add(client)),
                record: record.clone(),
            };
            tasks.spawn(doer.run(stop.clone()));
        }
        Self { stop, tasks }
    }

    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client does not panic");
        }
    }
}

struct Doer {
    client: u64,
    nodes: Vec<Client>,
    random: StdRng,
    record: Record,
}

impl Doer {
    async fn run(mut self, stop: Arc<AtomicBool>) {
        for number in 1.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (deed, request) =
                if self.random.random_range(0..4) == 0 { self.apply(number) } else { self.next(number) };
            let place = self.record.begin(deed, request.clone());
            // Some are asked for again although they were answered.
            let mut left = if self.random.random_range(0..4) == 0 { 2 } else { 1 };
            while left > 0 {
                let node = self.random.random_range(0..self.nodes.len());
                let answer = ask(&self.nodes[node], request.clone()).await;
                self.record.answer(place, answer.clone());
                match answer {
                    Answer::Done { .. } => left -= 1,
                    Answer::Refused(_) => left = 0,
                    // The rest is for the end, when all nodes run.
                    Answer::Unknown if stop.load(Ordering::Relaxed) => return,
                    Answer::Unknown => tokio::time::sleep(AFTER_FAILURE).await,
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Objects of one or two kinds, and a reservation or its end.
    fn next(&mut self, number: u64) -> (Deed, Asking) {
        let operation = format!("{}-{number}", self.client);
        let owner = format!("{}-{}", self.client, number % OWNERS);
        let names = [format!("own-{}", self.client), format!("{}-{}", self.client, number % 5)];
        let marked = |kind: &str, name: &str, spec: &str| {
            let object = Some(marked(&operation, kind, name, spec));
            Write::Apply(pb::ApplyWrite { object, force: true, status: false })
        };
        let spec = format!(r#"{{"replicas":{number}}}"#);
        let mut writes: Vec<Write> = names.iter().map(|name| marked(THING, name, &spec)).collect();
        let mut keys: Vec<String> = names.iter().map(|name| stored_key(THING, "default", name)).collect();
        if self.random.random_range(0..3) == 0 {
            writes.push(marked(SHARED.0, SHARED.1, r#"{"value":7}"#));
            keys.push(stored_key(SHARED.0, "", SHARED.1));
        }
        let reservation = match self.random.random_range(0..5) {
            0 => {
                let release = pb::Release { ledger: LEDGER.into(), owner: owner.clone() };
                writes.insert(0, Write::Release(release));
                Some((owner, Amounts::new()))
            }
            1 => None,
            _ => {
                // Of memory there is enough for everybody, and no two amounts are the same.
                let amounts = Amounts::from([
                    ("cpu".to_owned(), 1 + number % 4),
                    ("memory".to_owned(), number * 100 + self.client),
                ]);
                let sent = amounts.iter().map(|(name, amount)| (name.clone(), *amount as i64)).collect();
                let reserve = pb::Reserve { ledger: LEDGER.into(), owner: owner.clone(), amounts: sent };
                writes.push(Write::Reserve(reserve));
                Some((owner, amounts))
            }
        };
        let writes = writes.into_iter().map(|write| pb::Write { write: Some(write) }).collect();
        let options = options(&format!("client-{}", self.client), &operation);
        let deed = Deed { operation, keys, reservation, answers: Vec::new() };
        (deed, Asking::Transact(pb::TransactRequest { guards: Vec::new(), writes, options }))
    }

    /// One object, for which other clients contend.
    fn apply(&mut self, number: u64) -> (Deed, Asking) {
        let operation = format!("{}-{number}", self.client);
        let name = format!("contended-{}", self.random.random_range(0..2));
        let object = Some(marked(&operation, THING, &name, &format!(r#"{{"replicas":{number}}}"#)));
        let options = options(&format!("client-{}", self.client), &operation);
        let keys = vec![stored_key(THING, "default", &name)];
        let deed = Deed { operation, keys, reservation: None, answers: Vec::new() };
        (deed, Asking::Apply(Box::new(pb::ApplyRequest { object, options, force: true, status: false })))
    }
}

pub fn stored_key(kind: &str, namespace: &str, name: &str) -> String {
    format!("/setpoint.v1/{kind}/{namespace}/{name}")
}

fn marked(operation: &str, kind: &str, name: &str, spec: &str) -> pb::Object {
    let mut object = object(kind, name, spec);
    metadata(&mut object).annotations.insert(MARK.into(), operation.to_owned());
    object
}

async fn ask(client: &Client, request: Asking) -> Answer {
    let answer = match request {
        Asking::Transact(request) => client.objects().transact(request).await.map(|done| {
            let pb::TransactResponse { revision, repeated, .. } = done.into_inner();
            Answer::Done { revision, repeated }
        }),
        Asking::Apply(request) => client.objects().apply(*request).await.map(|done| {
            let pb::WriteResponse { revision, repeated, .. } = done.into_inner().write.unwrap_or_default();
            Answer::Done { revision, repeated }
        }),
    };
    match answer {
        Ok(answer) => answer,
        Err(status) => refusal(&status).map_or(Answer::Unknown, |error| Answer::Refused(error.reason())),
    }
}
