//! The client and the informers, against nodes that are killed: no write is lost or done twice, and caches are the store.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_client::{Client, Error, Identity, ListOptions, ReadAt, Settings, Tls, Typed, WriteOptions};
use setpoint_cluster_tests::certificates::Authority;
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed};
use setpoint_etcd_tests::cluster::{Cluster, ClusterConfig};
use setpoint_runtime::cache::{Cache, Key};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_types::kinds::{Namespace, NamespaceSpec, Node, NodeSpec};
use setpoint_types::quantity::Amounts;
use setpoint_types::{ObjectKey, Revision};
use tokio::time::timeout;

/// Of a call. The machine may be busy, and elections take their time.
const CALL: Duration = Duration::from_secs(120);

fn settings(addresses: &[String]) -> Settings {
    let endpoints = addresses.iter().map(|address| address.parse().expect("an address")).collect();
    let mut settings = Settings::new(endpoints);
    settings.timeouts.call = CALL;
    settings.attempts_max = 1000;
    settings
}

fn client(bed: &Testbed) -> Client {
    Client::new(settings(&bed.addresses())).expect("settings that fit").with_manager("test")
}

fn namespace(name: &str, labels: impl IntoIterator<Item = (String, String)>) -> Typed<Namespace> {
    let mut namespace = Typed::new(name, NamespaceSpec::default());
    namespace.metadata.labels = labels.into_iter().collect();
    namespace
}

fn node(name: &str, round: u64) -> Typed<Node> {
    let mut node = Typed::new(name, NodeSpec { zone: "z1".into(), ..NodeSpec::default() });
    node.metadata.labels.insert("round".into(), round.to_string());
    node
}

/// Creates many objects, each of which must be new.
async fn create_many(client: Client, writer: u64, count: u64) -> Result<Vec<(Revision, bool)>, Error> {
    let namespaces = client.api::<Namespace>();
    let mut written = Vec::new();
    for number in 0..count {
        let labels = (0..6).map(|label| (format!("l{label}"), "x".to_owned()));
        let object = namespace(&format!("w{writer}-{number}"), labels);
        let answer = namespaces.create(&object, &WriteOptions::default()).await?;
        written.push((answer.revision, answer.repeated));
    }
    Ok(written)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_is_done_once_although_nodes_are_killed() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 40;
    let mut bed = Testbed::start("every_write_is_done_once").await;
    let client = client(&bed);
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(create_many(client.clone(), writer, EACH))).collect();
    for _ in 0..2 {
        let (leader, _) = bed.leader().await;
        bed.kill(leader);
        // The others go on; then the one that was away comes back.
        bed.leader_among(&[(leader + 1) % 3, (leader + 2) % 3]).await;
        bed.restart(leader).await;
    }
    let mut revisions = BTreeMap::new();
    for writer in writers {
        let written = writer.await.expect("no panic").expect("every write is acknowledged");
        for (revision, repeated) in written {
            assert_eq!(revisions.insert(revision, repeated), None, "two writes at revision {revision}");
        }
    }
    let selected = ListOptions { labels: "l0=x".into(), page: 50, ..ListOptions::default() };
    let (found, _) = client.api::<Namespace>().list_all(&selected).await.expect("a list");
    assert_eq!(found.len() as u64, WRITERS * EACH);
    let at: Vec<Revision> = found.iter().map(|it| it.metadata.revision).collect();
    assert!(at.iter().all(|revision| revisions.contains_key(revision)), "each where its writer was told");
    bed.no_panics();
}

/// The round that a cached object is of; 0 if it is not there.
fn round(labels: &BTreeMap<String, String>) -> u64 {
    labels.get("round").and_then(|round| round.parse().ok()).unwrap_or(0)
}

/// A cache is the store at the cache's revision.
async fn same<K>(client: &Client, cache: &Cache<K>)
where
    K: setpoint_types::KindType + setpoint_client::Shape,
{
    let view = cache.snapshot();
    let found: Vec<(String, Revision)> =
        view.iter().map(|it| (it.key().name().to_owned(), it.revision())).collect();
    let at = ListOptions { at: ReadAt::Exact(view.revision()), ..ListOptions::default() };
    let (listed, _) = client.api::<K>().list_all(&at).await.expect("a list");
    let mut listed: Vec<(String, Revision)> =
        listed.iter().map(|it| (K::metadata(it).name.clone(), K::metadata(it).revision)).collect();
    listed.sort();
    assert_eq!(found, listed, "{cache:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_follow_the_store_over_kills_and_show_several_kinds_at_one_moment() {
    const ROUNDS: u64 = 40;
    let mut bed = Testbed::start("caches_follow_the_store").await;
    let client = client(&bed);
    let fast = InformerSettings { bookmarks: Duration::from_millis(100), ..InformerSettings::default() };
    let informers = Informers::new(client.clone(), fast);
    let namespaces = informers.cache::<Namespace>(Selection::everywhere());
    let nodes = informers.cache::<Node>(Selection::everywhere());
    timeout(PATIENCE, informers.synced()).await.expect("in time").expect("still fed");

    let writer = tokio::spawn(write_rounds(client.clone(), namespaces.clone(), ROUNDS));
    let (leader, _) = bed.leader().await;
    let follower = (leader + 1) % 3;
    let mut killed = false;
    let pair = Key::new("", "pair");
    let mut seen = 0;
    while seen < ROUNDS {
        let joint = informers.joint().with(&namespaces).with(&nodes);
        let joint = timeout(PATIENCE, joint.snapshot()).await.expect("in time").expect("still fed");
        let namespace = joint.of(&namespaces).expect("a part of it").get(&pair);
        let node = joint.of(&nodes).expect("a part of it").get(&pair);
        let of = |labels: Option<BTreeMap<String, String>>| labels.map_or(0, |labels| round(&labels));
        let one = of(namespace.map(|it| it.metadata().expect("readable").labels));
        let other = of(node.map(|it| it.metadata().expect("readable").labels));
        assert_eq!(one, other, "both were written at one revision, this is {}", joint.revision());
        assert!(one >= seen, "time went back");
        seen = one;
        if seen >= ROUNDS / 3 && !killed {
            killed = true;
            bed.kill(follower);
            bed.restart(follower).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!writer.is_finished() || seen == ROUNDS || informers.reached("Node").is_some());
    }
    let last = writer.await.expect("no panic");
    timeout(PATIENCE, nodes.at_least(last)).await.expect("in time").expect("still fed");
    same(&client, &namespaces).await;
    same(&client, &nodes).await;
    assert_eq!(informers.cache::<Node>(Selection::everywhere()).revision(), nodes.revision(), "it is shared");
    informers.shutdown().await;
    assert!(nodes.at_least(Revision::MAX).await.is_err(), "nobody feeds it any more");
    bed.no_panics();
}

/// Writes a namespace and a node in one transaction, again and again, and reads its own writes from the cache.
async fn write_rounds(client: Client, namespaces: Cache<Namespace>, rounds: u64) -> Revision {
    let mut last = Revision::NONE;
    for number in 1..=rounds {
        let labels = [("round".to_owned(), number.to_string())];
        let (namespace, node) = (namespace("pair", labels), node("pair", number));
        let transaction = client.transaction();
        let transaction = if number == 1 {
            let absent = ObjectKey::new("Node", "", "pair");
            transaction.if_absent(&absent).create(&namespace).create(&node)
        } else {
            transaction.update(&namespace).update(&node)
        };
        let committed = transaction.commit(&WriteOptions::default()).await.expect("it is acknowledged");
        last = committed.revision;
        timeout(PATIENCE, namespaces.at_least(last)).await.expect("in time").expect("still fed");
        let own = namespaces.get(&Key::new("", "pair")).expect("it is there");
        assert!(round(&own.metadata().expect("readable").labels) >= number, "its own write");
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_ledgers_fences_and_leases_hold_through_the_client() {
    let bed = Testbed::start_with("guards_ledgers_fences", Setup::of(1)).await;
    let client = client(&bed);
    let options = WriteOptions::default();
    let gpus = |count: i64| [("gpu".to_owned(), count)].into_iter().collect::<Amounts>();
    client.transaction().limits("pool", &gpus(2)).commit(&options).await.expect("limits");
    let reserve = client.transaction().reserve("pool", "a", &gpus(2)).create(&node("a", 1));
    reserve.commit(&options).await.expect("there is room");
    let refused = client.transaction().reserve("pool", "b", &gpus(1)).create(&node("b", 1));
    let error = refused.commit(&options).await.expect_err("there is no room");
    assert_eq!(error.refusal().expect("a refusal").headroom.map(|it| it.0).as_deref(), Some("pool"));
    assert!(client.api::<Node>().find("b").await.expect("read").is_none(), "nothing of it was done");

    let ask = |holder: &str| setpoint_client::AcquireOptions {
        lease: "duty".into(),
        holder: holder.into(),
        ttl: Some(Duration::from_secs(60)),
        ..Default::default()
    };
    let held = client.leases().acquire(&ask("one")).await.expect("an answer");
    assert!(held.acquired);
    let fenced = client.with_fence(held.fence.clone());
    fenced.api::<Node>().create(&node("c", 1), &options).await.expect("it is held");
    let mut keep = client.leases().keep_alive().await.expect("a stream");
    let observed = BTreeMap::from([("Node".to_owned(), Revision::new(7))]);
    assert!(keep.keep(&held.fence, "one", &observed).await.expect("an answer").held);
    let holders = client.leases().holders("default").await.expect("an answer");
    assert!(holders.iter().any(|it| it.holder == "one" && it.observed == observed), "{holders:?}");
    assert!(client.leases().release(&held.fence, "one").await.expect("an answer"));
    let next = client.leases().acquire(&ask("two")).await.expect("an answer");
    assert!(next.acquired && next.fence.epoch > held.fence.epoch);
    let error =
        fenced.api::<Node>().create(&node("d", 1), &options).await.expect_err("it has another holder");
    assert!(error.is_fenced(), "{error}");
    assert!(!keep.keep(&held.fence, "one", &observed).await.expect("an answer").held);
    let stale = client.api::<Node>().get("c").await.expect("read");
    client.api::<Node>().update(&node("c", 2), &options).await.expect("written");
    let error = client.api::<Node>().update(&stale, &options).await.expect_err("it is at another revision");
    assert!(error.is_conflict(), "{error}");
    let history = client.api::<Node>().history("c", 0, None).await.expect("history");
    assert_eq!(history.versions.len(), 2);
    let author = &history.versions[1].author;
    assert_eq!(
        author.fence.as_ref().map(|fence| fence.epoch),
        Some(held.fence.epoch),
        "it was written under it"
    );
    assert_eq!(author.manager, "test");
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_shows_its_certificate_and_checks_the_nodes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ours = Authority::new(&folder.path().join("ours"));
    let theirs = Authority::new(&folder.path().join("theirs"));
    let server = ours.identity("node");
    let arguments =
        ["--cert-file", &server.cert, "--key-file", &server.key, "--client-ca-file", &ours.file()]
            .map(str::to_owned)
            .to_vec();
    let config = ClusterConfig { nodes: 1, arguments, in_memory: true, ..ClusterConfig::default() };
    let cluster = Cluster::start_with(config).await.expect("a node with TLS");
    let read = |path: &str| std::fs::read(path).expect("the file was written");
    let known = ours.identity("client");
    let connect = |authority: &Authority, identity: bool, call: Duration| {
        let mut settings = settings(&[format!("https://{}", cluster.nodes()[0].client)]);
        let identity = identity.then(|| Identity { certificate: read(&known.cert), key: read(&known.key) });
        settings.tls = Some(Tls { authority: authority.pem().into(), identity, server_name: None });
        settings.timeouts.call = call;
        Client::new(settings).expect("settings that fit")
    };
    let good = connect(&ours, true, CALL);
    good.api::<Node>().create(&node("a", 1), &WriteOptions::default()).await.expect("it is let in");
    let short = Duration::from_secs(3);
    for (why, client) in [
        ("no certificate", connect(&ours, false, short)),
        ("the node is not trusted", connect(&theirs, true, short)),
    ] {
        let error = client.api::<Node>().get("a").await.expect_err(why);
        assert!(matches!(error, Error::Unanswered { .. }), "{why}: {error}");
    }
}
