//! What a client may ask of a node at a time.

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use setpoint_cluster_tests::testbed::{Setup, Testbed};
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
