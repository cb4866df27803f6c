//! Replicas of a controller as processes of their own, against three nodes: paused past their time, killed, joined by others.
//!
//! Every write carries the fence of its key's shard, and every revision keeps it; so afterwards history tells who wrote when.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use setpoint_client::{Client, Settings, Typed, WriteOptions};
use setpoint_cluster_tests::testbed::{PATIENCE, Testbed};
use setpoint_etcd_tests::process::ServerProcess;
use setpoint_types::kinds::{Namespace, NamespaceSpec};
use setpoint_types::{Epoch, Revision};
use tempfile::TempDir;

const TTL_SECONDS: u32 = 6;
const CALL: Duration = Duration::from_secs(60);

/// A write, as history has it.
#[derive(Clone, Debug)]
struct Written {
    key: String,
    lease: String,
    epoch: Epoch,
    manager: String,
}

/// A cluster, and replicas of one controller over it.
struct Stage {
    bed: Testbed,
    client: Client,
    logs: TempDir,
    shards: u32,
    keys: u32,
}

impl Stage {
    async fn new(name: &'static str, shards: u32, keys: u32) -> Self {
        let bed = Testbed::start(name).await;
        let endpoints = bed.addresses().iter().map(|address| address.parse().expect("an address")).collect();
        let mut settings = Settings::new(endpoints);
        settings.timeouts.call = CALL;
        settings.attempts_max = 100;
        let client = Client::new(settings).expect("settings that fit");
        let stage = Self { bed, client, logs: TempDir::new().expect("a folder"), shards, keys };
        for key in stage.keys() {
            let object = Typed::new(key, NamespaceSpec::default());
            let namespaces = stage.client.api::<Namespace>();
            namespaces.create(&object, &WriteOptions::default()).await.expect("a key");
        }
        stage
    }

    fn keys(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.keys).map(|key| format!("key-{key}"))
    }

    fn replica(&self, name: &str) -> ServerProcess {
        let (shards, ttl, keys) = (self.shards.to_string(), TTL_SECONDS.to_string(), self.keys.to_string());
        let addresses = self.bed.addresses().join(",");
        let arguments = [addresses, "duty".to_owned(), name.to_owned(), shards, ttl, keys];
        let program = Path::new(env!("CARGO_BIN_EXE_replica"));
        ServerProcess::spawn(name, program, &arguments, &self.log(name)).expect("the replica starts")
    }

    fn log(&self, name: &str) -> std::path::PathBuf {
        self.logs.path().join(name)
    }

    /// How often a replica said something.
    fn said(&self, name: &str, word: &str) -> usize {
        let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(word)).count()
    }

    /// Fenced writes of a key, newest first, before a revision; and from where to go on.
    async fn page(
        &self,
        key: &str,
        limit: u32,
        before: Option<Revision>,
    ) -> (Vec<(Revision, Written)>, Option<Revision>) {
        let page = self.client.api::<Namespace>().history(key, limit, before).await.expect("history");
        let next = page.versions.last().filter(|_| page.more).map(|version| version.revision);
        let written = page.versions.into_iter().filter_map(|version| {
            let fence = version.author.fence?;
            let (lease, epoch, manager) = (fence.lease, fence.epoch, version.author.manager);
            Some((version.revision, Written { key: key.to_owned(), lease, epoch, manager }))
        });
        (written.collect(), next)
    }

    /// Every fenced write, in the order of revisions.
    async fn written(&self) -> BTreeMap<Revision, Written> {
        let mut written = BTreeMap::new();
        for key in self.keys() {
            let mut next = None;
            loop {
                let (found, more) = self.page(&key, 500, next).await;
                written.extend(found);
                next = more;
                if next.is_none() {
                    break;
                }
            }
        }
        written
    }

    /// The last write of each key.
    async fn last(&self) -> BTreeMap<String, Written> {
        let mut last = BTreeMap::new();
        for key in self.keys() {
            // Some versions are not fenced: the first one.
            let newest = self.page(&key, 5, None).await.0.into_iter().next();
            last.extend(newest.map(|(_, write)| (key, write)));
        }
        last
    }

    /// Waits until the last writes are such.
    async fn until(&self, what: &str, mut holds: impl FnMut(&BTreeMap<String, Written>) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = self.last().await;
            if holds(&last) {
                return;
            }
            assert!(Instant::now() < deadline, "{what}: did not happen in time: {last:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A key is in one shard, and once a lease has a new epoch, nothing is written under an older one.
    async fn check(&self) -> BTreeMap<String, BTreeSet<Epoch>> {
        let mut newest: BTreeMap<String, (Epoch, Revision)> = BTreeMap::new();
        let mut leases: BTreeMap<String, String> = BTreeMap::new();
        let mut epochs: BTreeMap<String, BTreeSet<Epoch>> = BTreeMap::new();
        for (revision, write) in self.written().await {
            let lease = leases.entry(write.key.clone()).or_insert_with(|| write.lease.clone());
            assert_eq!(*lease, write.lease, "{} changed its shard", write.key);
            epochs.entry(write.lease.clone()).or_default().insert(write.epoch);
            let (epoch, since) = newest.entry(write.lease.clone()).or_insert((write.epoch, revision));
            assert!(
                write.epoch >= *epoch,
                "{write:?} was accepted at {revision}, after epoch {epoch} at {since}"
            );
            if write.epoch > *epoch {
                (*epoch, *since) = (write.epoch, revision);
            }
        }
        epochs
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_leader_that_paused_past_its_time_is_written_once_another_one_leads() {
    const ROUNDS: usize = 3;
    let stage = Stage::new("nothing_of_a_leader_that_paused", 1, 4).await;
    let keys = stage.keys as usize;
    let mut replicas = BTreeMap::from(["one", "two"].map(|name| (name, stage.replica(name))));
    for _ in 0..ROUNDS {
        // A busy machine may make the lead change by itself.
        let refused = ["one", "two"].map(|name| stage.said(name, "refused"));
        let leader = |last: &BTreeMap<String, Written>| {
            let names: BTreeSet<String> = last.values().map(|write| write.manager.clone()).collect();
            names.into_iter().next().filter(|_| last.len() == keys)
        };
        // Long enough for the other one to have joined, so that the time it takes is that of the take-over.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut active = String::new();
        stage
            .until("somebody leads", |last| leader(last).inspect(|name| active.clone_from(name)).is_some())
            .await;
        replicas[active.as_str()].signal(Signal::STOP).expect("it runs");
        stage
            .until("the standby takes over", |last| {
                last.len() == keys && last.values().all(|write| write.manager != active)
            })
            .await;
        replicas[active.as_str()].signal(Signal::CONT).expect("it is there");
        // It tries every key, several times.
        let before = if active == "one" { refused[0] } else { refused[1] };
        let tried = || async { stage.said(&active, "refused") >= before + keys };
        stage.bed.until("the old one tries, and is refused", tried).await;
    }
    for replica in replicas.values_mut() {
        replica.kill();
    }
    let epochs = stage.check().await;
    assert!(epochs.values().all(|epochs| epochs.len() > ROUNDS), "{epochs:?}");
    stage.bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_replica_that_is_killed_are_spread_and_each_key_has_one_writer_at_a_time() {
    const SHARDS: u32 = 6;
    let stage = Stage::new("the_shards_of_a_replica_that_is_killed", SHARDS, 24).await;
    let names = ["one", "two", "three"];
    let mut replicas: BTreeMap<&str, ServerProcess> =
        names.iter().map(|name| (*name, stage.replica(name))).collect();
    // Who writes, and to how many shards each.
    let spread = |last: &BTreeMap<String, Written>| -> BTreeMap<String, usize> {
        let mut shards: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for write in last.values() {
            shards.entry(write.manager.clone()).or_default().insert(write.lease.clone());
        }
        shards.into_iter().map(|(name, shards)| (name, shards.len())).collect()
    };
    let even = |names: &[&str]| -> BTreeMap<String, usize> {
        names.iter().map(|name| ((*name).to_owned(), SHARDS as usize / names.len())).collect()
    };
    stage.until("three share six", |last| spread(last) == even(&names)).await;
    replicas.get_mut("two").expect("it is there").kill();
    stage.until("two share six", |last| spread(last) == even(&["one", "three"])).await;
    replicas.insert("four", stage.replica("four"));
    stage.until("three share six again", |last| spread(last) == even(&["one", "three", "four"])).await;
    // One that shuts down hands over without a gap.
    replicas["one"].signal(Signal::TERM).expect("it runs");
    stage.until("two share six again", |last| spread(last) == even(&["three", "four"])).await;
    for replica in replicas.values_mut() {
        replica.kill();
    }
    let epochs = stage.check().await;
    assert_eq!(epochs.len(), SHARDS as usize, "every shard was written to: {epochs:?}");
    assert_eq!(stage.said("one", "left"), 1, "it ended by itself");
    stage.bed.no_panics();
}
