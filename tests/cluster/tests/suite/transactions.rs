//! Servers killed at every step of transactions over several kinds, ledgers and leases: all or nothing, once (S19 to S21).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::etcdserverpb as etcd;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::deeds::{Answer, Doers, LEDGER, MARK, Record, stored_key};
use setpoint_cluster_tests::dump::events;
use setpoint_cluster_tests::ledger::{EPOCH_MARK, Row, check, check_holders, marks, state_at};
use setpoint_cluster_tests::object::{
    THING, define_things, exactly, key, metadata, object, options, settled,
};
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use tokio::task::JoinSet;

use crate::crash_points::crash_at;

/// Flushes and cuts often, so that nodes that come back are given snapshots as well.
const OFTEN: [&str; 4] = ["--snapshot-count", "60", "--log-keep", "20"];
/// A lease and an object of the same name that only its holder writes.
const DUTY: &str = "duty";

struct Scene {
    bed: Testbed,
    record: Record,
    doers: Doers,
    holders: Holders,
}

impl Scene {
    async fn start(name: &'static str) -> Self {
        let bed = Testbed::start_with(name, Setup::of(3).with(&OFTEN)).await;
        define_things(&bed.clients).await;
        let limits = [("cpu".to_owned(), 20), ("*".to_owned(), 1 << 40)].into();
        let limits = Write::Limits(pb::LedgerLimits { ledger: LEDGER.into(), limits });
        let request = pb::TransactRequest {
            guards: Vec::new(),
            writes: vec![pb::Write { write: Some(limits) }],
            options: options("test", "limits"),
        };
        let limited = settled(&bed.clients, |client| {
            let request = request.clone();
            async move { client.objects().transact(request).await.map(drop) }
        });
        limited.await.expect("limits are set");
        let record = Record::default();
        let doers = Doers::start(&bed.addresses(), &record, bed.seed, 4);
        let holders = Holders::start(&bed.addresses());
        Self { bed, record, doers, holders }
    }

    async fn progress(&self, deeds: usize) {
        let goal = self.record.done() + deeds;
        // Patience for each: a busy machine may take its time for all of them.
        while self.record.done() < goal {
            let next = self.record.done() + 1;
            self.bed.until("transactions go on", || async { self.record.done() >= next }).await;
        }
    }

    /// Ends the work, asks for everything once more, and checks the whole log and what can be read of it.
    async fn verify(self) {
        let Self { bed, record, doers, holders } = self;
        let held = holders.count() + 2;
        bed.until("the lease changes hands", || async { holders.count() >= held }).await;
        doers.stop().await;
        let told = holders.stop().await;
        record.insist(&bed.clients).await;
        let last = patiently(|| bed.clients[0].put("the/end", "")).await;
        let mut logs: Vec<Vec<Row>> = Vec::new();
        for client in &bed.clients {
            let log = patiently(|| async {
                events(client, 1, last).await.map_err(|error| tonic::Status::unavailable(error.to_string()))
            });
            logs.push(log.await.into_iter().map(Row::of).collect());
        }
        assert!(logs[0] == logs[1] && logs[1] == logs[2], "the nodes have different logs");
        let (deeds, rows) = (record.deeds(), &logs[0]);
        let mut findings = check(&deeds, rows);
        findings.extend(check_holders(&told));
        assert!(findings.is_empty(), "{} violations, the first: {:#?}", findings.len(), findings[0]);
        let again = deeds.iter().flat_map(|deed| &deed.answers);
        let again = again.filter(|it| matches!(it, Answer::Done { repeated: true, .. })).count();
        assert!(
            again > 20 && record.done() > 40,
            "the run was no test: {} done, {again} again",
            record.done()
        );
        reads_agree(&bed, rows, last as u64).await;
        bed.hashes_agree(last).await;
        bed.no_panics();
    }
}

/// What every node says about a number of revisions is what the log says.
async fn reads_agree(bed: &Testbed, rows: &[Row], last: u64) {
    let mut random = StdRng::seed_from_u64(bed.seed);
    for _ in 0..24 {
        let revision = random.random_range(4..=last);
        let client = &bed.clients[random.random_range(0..3)];
        let state = state_at(rows, revision);
        let range = etcd::RangeRequest {
            key: "/setpoint.".into(),
            range_end: "/setpoint/".into(),
            revision: revision as i64,
            ..Default::default()
        };
        let found = patiently(|| client.range(range.clone())).await.kvs.into_iter();
        let found: BTreeMap<String, bytes::Bytes> =
            found.map(|kv| (String::from_utf8_lossy(&kv.key).into_owned(), kv.value)).collect();
        let expected: BTreeMap<_, _> = state
            .iter()
            .filter(|(key, _)| key.starts_with("/setpoint."))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert!(found == expected, "keys at {revision}");
        let list = pb::ListRequest { kind: THING.into(), at: exactly(revision), ..Default::default() };
        let listed =
            patiently(|| async { Ok(client.objects().list(list.clone()).await?.into_inner()) }).await;
        let marked = listed.objects.into_iter().filter_map(|thing| {
            let mut metadata = thing.metadata?;
            Some((stored_key(THING, "default", &metadata.name), metadata.annotations.remove(MARK)?))
        });
        let mut expected = marks(&state);
        expected.retain(|key, _| key.contains("/Thing/"));
        assert_eq!(marked.collect::<BTreeMap<_, _>>(), expected, "things at {revision}");
    }
    // Whoever wrote a version is known by the operation it carried.
    for client in &bed.clients {
        let request = pb::HistoryRequest { key: Some(key(THING, "own-0")), limit: 1_000, before: 0 };
        let history =
            patiently(|| async { Ok(client.objects().history(request.clone()).await?.into_inner()) }).await;
        let changes = rows.iter().filter(|row| row.key == stored_key(THING, "default", "own-0"));
        let expected: Vec<u64> = changes.map(|row| row.revision).rev().collect();
        let told: Vec<u64> = history.versions.iter().map(|version| version.revision).collect();
        assert_eq!(told, expected, "the history of one thing");
        for version in history.versions {
            let by = version.author.unwrap_or_default().operation;
            let mark =
                version.object.and_then(|it| it.metadata).and_then(|mut it| it.annotations.remove(MARK));
            assert_eq!(mark, Some(by), "at {}", version.revision);
        }
    }
}

/// Clients that take a lease in turn, write under its fence, and give it back or let it lapse.
struct Holders {
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<Vec<(String, u64)>>>,
    tasks: JoinSet<()>,
}

impl Holders {
    fn start(addresses: &[String]) -> Self {
        let (stop, told) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = JoinSet::new();
        for holder in 0..2 {
            let clients: Vec<Client> = addresses
                .iter()
                .map(|address| Client::with_timeout(address, Duration::from_secs(4)))
                .collect();
            let (stop, told) = (stop.clone(), told.clone());
            tasks.spawn(async move {
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    hold(&clients[turn % clients.len()], &format!("{holder}-{turn}"), &told).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
        Self { stop, told, tasks }
    }

    fn count(&self) -> usize {
        self.told.lock().len()
    }

    async fn stop(mut self) -> Vec<(String, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a holder does not panic");
        }
        self.told.lock().clone()
    }
}

async fn hold(client: &Client, holder: &str, told: &Mutex<Vec<(String, u64)>>) {
    let request = pb::AcquireRequest {
        lease: DUTY.into(),
        holder: holder.into(),
        ttl_seconds: 1,
        wait_ms: 2_000,
        ..Default::default()
    };
    let Ok(answer) = client.coordination().acquire(request).await else { return };
    let answer = answer.into_inner();
    if !answer.acquired {
        return;
    }
    let epoch = answer.epoch;
    told.lock().push((holder.to_owned(), epoch));
    for write in 0..2 {
        let mut thing = object(THING, DUTY, &format!(r#"{{"replicas":{write}}}"#));
        metadata(&mut thing).annotations.insert(EPOCH_MARK.into(), epoch.to_string());
        let fence = Some(pb::Fence { namespace: String::new(), lease: DUTY.into(), epoch });
        let options = pb::WriteOptions { manager: holder.into(), fence, ..Default::default() };
        let request =
            pb::ApplyRequest { object: Some(thing), options: Some(options), force: true, status: false };
        // Whether it gets through is the server's to decide; what it let through is in the log.
        let _ = client.objects().apply(request).await;
    }
    let (lease, holder) = (DUTY.into(), holder.into());
    let _ = client
        .coordination()
        .release(pb::ReleaseRequest { lease, holder, epoch, ..Default::default() })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_between_any_two_steps_leave_transactions_whole() {
    let mut scene = Scene::start("crashes_between_any_two_steps").await;
    scene.progress(20).await;
    for (round, (point, hit)) in [
        ("log.before-write", 3),
        ("log.before-sync", 5),
        ("log.after-sync", 4),
        ("apply.before-write", 6),
        ("apply.after-write", 5),
        ("flush.before", 1),
    ]
    .into_iter()
    .enumerate()
    {
        // Sometimes the leader, sometimes another.
        let (leader, _) = scene.bed.leader().await;
        crash_at(&mut scene.bed, (leader + round % 2) % 3, point, hit).await;
        scene.progress(5).await;
    }
    scene.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_leave_transactions_whole() {
    let mut scene = Scene::start("killed_servers_leave_transactions_whole").await;
    let mut random = StdRng::seed_from_u64(scene.bed.seed);
    scene.progress(20).await;
    for kill in 0..5 {
        // The leader, any one, a majority, all.
        let first = if kill % 2 == 0 { scene.bed.leader().await.0 } else { random.random_range(0..3) };
        let count = [1, 1, 2, 3][kill % 4];
        let victims: Vec<usize> = (0..count).map(|offset| (first + offset) % 3).collect();
        victims.iter().for_each(|victim| scene.bed.kill(*victim));
        if count == 1 {
            scene.progress(10).await;
        }
        victims.iter().for_each(|victim| scene.bed.start_node(*victim));
        scene.progress(5).await;
    }
    for node in 0..3 {
        scene.bed.ready(node).await;
    }
    scene.verify().await;
}
