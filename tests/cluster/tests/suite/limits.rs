//! What a client may ask of a node at a time, and how many clients there may be.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use setpoint_cluster_tests::client::Client;
use setpoint_cluster_tests::metrics::Scrape;
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed, patiently};
use setpoint_etcd_tests::cluster::{scratch_directory, setpointd};
use setpoint_etcd_tests::ports::free_ports;
use setpoint_etcd_tests::process::ServerProcess;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};

/// Opens a backup over a connection of its own that takes little until it is read.
async fn begin(address: &str) -> Result<Streaming<pb::SnapshotResponse>, tonic::Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address is part of a URL");
    let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    let channel = endpoint.connect().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    Ok(MaintenanceClient::new(channel).snapshot(pb::SnapshotRequest {}).await?.into_inner())
}

async fn finish(mut backup: Streaming<pb::SnapshotResponse>) -> usize {
    let mut bytes = 0;
    while let Some(chunk) = backup.message().await.expect("the backup goes on") {
        bytes += chunk.blob.len();
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_are_made_two_at_a_time_and_leave_nothing_behind() {
    let mut bed = Testbed::start_with("backups_are_made_two_at_a_time", Setup::of(1)).await;
    // More than lies between a node and a client that does not read, and nothing that can be compressed.
    let mut random = StdRng::seed_from_u64(bed.seed);
    for number in 0..16 {
        let mut value = vec![0; 512 << 10];
        random.fill_bytes(&mut value);
        let put = pb::PutRequest {
            key: format!("k{number}").into(),
            value: Bytes::from(value),
            ..Default::default()
        };
        bed.clients[0].kv().put(put).await.expect("put");
    }
    let address = bed.cluster.nodes()[0].client.clone();
    let first = begin(&address).await.expect("one backup");
    let second = begin(&address).await.expect("and another");
    let third = begin(&address).await.expect_err("no third one");
    assert_eq!(third.code(), Code::ResourceExhausted, "{third:?}");
    assert!(third.message().contains("backups"), "{third:?}");
    assert!(finish(first).await > 8 << 20, "the whole content");
    bed.until("there is room for another", || async {
        match begin(&address).await {
            Ok(another) => finish(another).await > 8 << 20,
            Err(_) => false,
        }
    })
    .await;
    // One that is broken off makes room as well.
    drop(second);
    bed.until("both places are free", || async {
        match (begin(&address).await, begin(&address).await) {
            (Ok(one), Ok(other)) => finish(one).await == finish(other).await,
            _ => false,
        }
    })
    .await;

    bed.kill(0);
    let scratch = bed.cluster.nodes()[0].directory.join("backup");
    let left = scratch.join("backup-left").join("files");
    fs::create_dir_all(&left).expect("made");
    fs::write(left.join("000001.sst"), "half of a table").expect("written");
    bed.restart(0).await;
    assert!(!left.exists(), "what a killed node left behind is gone");
    tokio::time::timeout(Duration::from_secs(60), bed.clients[0].get("k0"))
        .await
        .expect("answered")
        .expect("read");
    bed.no_panics();
}

/// Starts a node alone that may open only so many files and connections.
fn limited(descriptors: u64, folder: &Path) -> (ServerProcess, [String; 3]) {
    let ports = free_ports(3).expect("free ports");
    let addresses = [ports[0], ports[1], ports[2]].map(|port| format!("127.0.0.1:{port}"));
    let flags = ["--listen-client", "--listen-peer", "--listen-http"];
    let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
    let program = setpointd().expect("the program").display().to_string();
    let data = folder.join("data").display().to_string();
    let mut arguments = vec!["-c".to_owned(), script, program, "--data-dir".to_owned(), data];
    for (flag, address) in flags.into_iter().zip(&addresses) {
        arguments.extend([flag.to_owned(), address.clone()]);
    }
    let process = ServerProcess::spawn("limited", Path::new("/bin/sh"), &arguments, &folder.join("log"));
    (process.expect("it starts"), addresses)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_take_nothing_from_the_log_or_the_tables() {
    let folder = scratch_directory().expect("a temporary folder");
    let (mut process, [client, peer, http]) = limited(600, folder.path());
    process.ready(&http, "/readyz").await.expect("it serves");
    // More than it may open, at each door.
    let mut idle = Vec::new();
    for address in [&client, &peer, &http] {
        for _ in 0..650 {
            idle.push(TcpStream::connect(address).await.expect("connected, if only for a moment"));
        }
    }
    drop(idle.split_off(2 * 650));
    let deadline = Instant::now() + PATIENCE;
    let refused = |scrape: &Scrape, door: &str| {
        scrape.get(&format!("setpoint_connections_refused_total{{listener=\"{door}\"}}")).unwrap_or(0.0)
    };
    loop {
        assert!(Instant::now() < deadline && process.is_running(), "the doors do not close");
        let scrape = Scrape::of(&http).await.unwrap_or_default();
        if ["client", "peer", "http"].iter().all(|door| refused(&scrape, door) >= 100.0) {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    drop(idle);
    let client = Client::new(&client);
    patiently(|| client.put("k", "v")).await;
    let log = fs::read_to_string(folder.path().join("log")).expect("a log");
    let told = log.matches("too many connections").count();
    assert!((3..60).contains(&told), "once per burst and door: {told}");
    assert!(!log.contains("Too many open files"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_may_open_next_to_nothing_does_not_start() {
    let folder = scratch_directory().expect("a temporary folder");
    let (mut process, _) = limited(200, folder.path());
    assert!(!process.ended().await.expect("it ends").success());
    let log = fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(log.contains("ulimit -n"), "{log}");
}
