//! Disks that fill up, lose power or damage what they hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use setpoint_cluster_tests::load::LoadConfig;
use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed};
use setpoint_cluster_tests::volume::Volume;
use setpoint_etcd_tests::skip::skipped;

/// Flushes often, so that tables appear on disk.
const FLUSH_OFTEN: [&str; 4] = ["--snapshot-count", "100", "--log-keep", "50"];

/// Files in a folder and below whose name ends so, largest first.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the node").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().to_string_lossy().ends_with(ending) {
                found.push(entry.path());
            }
        }
    }
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).map_or(0, |file| file.len())));
    found
}

/// Changes a few bytes in the middle of what a file holds.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).expect("readable");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("the file is not empty");
    for byte in &mut bytes[used / 2..used / 2 + 8] {
        *byte ^= 0x5a;
    }
    fs::write(path, bytes).expect("written");
}

async fn worked(bed: &mut Testbed, writes: usize) {
    let load = bed.load(&LoadConfig::default());
    bed.progress(writes).await;
    load.stop().await;
    // The next load writes other values.
    bed.seed += 1;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_damaged_log_refuses_to_start_and_names_the_file() {
    let mut bed = Testbed::start("a_node_with_a_damaged_log").await;
    worked(&mut bed, 150).await;
    let node = bed.follower().await;
    bed.kill(node);
    let raft = bed.cluster.nodes()[node].directory.join("raft");
    let segment =
        files(&raft, "").into_iter().find(|path| fs::read(path).is_ok_and(|bytes| bytes.len() > 4096));
    let segment = segment.expect("a segment");
    damage(&segment);
    bed.start_node(node);
    let status = bed.cluster.ended(node).await.expect("it does not go on with a damaged log");
    assert!(!status.success());
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let log = bed.cluster.log_tail(node, 5);
    assert!(log.contains(&name), "the message names {name}: {log}");
    for other in (0..3).filter(|other| *other != node) {
        bed.barrier_write(other).await;
    }
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_damaged_table_does_not_serve_it() {
    let mut bed = Testbed::start_with("a_node_with_a_damaged_table", Setup::of(3).with(&FLUSH_OFTEN)).await;
    worked(&mut bed, 300).await;
    let node = bed.follower().await;
    bed.kill(node);
    let state = bed.cluster.nodes()[node].directory.join("state");
    let table = files(&state, ".sst").into_iter().next().expect("a table was flushed");
    damage(&table);
    bed.start_node(node);
    let name = table.file_name().expect("a name").to_string_lossy().into_owned();
    let deadline = Instant::now() + PATIENCE;
    while bed.cluster.is_running(node) {
        // It may find the damage only when it is asked for what is there.
        match bed.clients[node].hash(0).await {
            Ok(hash) => panic!("damaged content was served: {hash:?}\n{}", bed.cluster.log_tail(node, 20)),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        assert!(Instant::now() < deadline, "it goes on with a damaged table");
    }
    let status = bed.cluster.ended(node).await.expect("it has ended");
    assert!(!status.success(), "and says that it failed");
    let log = bed.cluster.log_tail(node, 20);
    assert!(log.contains(&name), "the message names {name}: {log}");
    for other in (0..3).filter(|other| *other != node) {
        bed.barrier_write(other).await;
    }
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_full_disk_stops_and_comes_back_once_there_is_room() {
    let mut bed = Testbed::prepare("a_node_with_a_full_disk", Setup::of(3).with(&FLUSH_OFTEN)).await;
    let node = 1;
    let volume = match Volume::small(&bed.cluster.nodes()[node].directory, 400 << 20) {
        Ok(volume) => volume,
        Err(reason) => return skipped(&format!("no file system can be mounted here ({reason})")),
    };
    (0..3).for_each(|node| bed.start_node(node));
    for node in 0..3 {
        bed.ready(node).await;
    }
    let load = bed.load(&LoadConfig { pause: Duration::from_millis(5), ..LoadConfig::default() });
    bed.progress(50).await;
    volume.fill().expect("filled");
    let mut ended = None;
    for _ in 0..5 {
        ended = bed.cluster.ended(node).await;
        if ended.is_some() {
            break;
        }
        bed.progress(50).await;
    }
    let status = ended.expect("a node whose disk is full stops");
    assert!(!status.success(), "and says that it failed");
    let log = bed.cluster.log_tail(node, 30);
    assert!(log.to_lowercase().contains("no space left"), "it says why: {log}");
    bed.progress(30).await;
    volume.make_room();
    bed.restart(node).await;
    bed.progress(30).await;
    load.stop().await;
    bed.verify(Vec::new()).await;
    (0..3).for_each(|node| bed.kill(node));
    drop(volume);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_of_all_nodes_at_once_loses_nothing() {
    let mut bed = Testbed::prepare("power_loss_of_all_nodes", Setup::of(3).with(&FLUSH_OFTEN)).await;
    let mut volumes = Vec::new();
    for node in bed.cluster.nodes() {
        let image = bed.cluster.root().join(format!("{}.img", node.name));
        match Volume::powered(&image, &node.directory, 512) {
            Ok(volume) => volumes.push(volume),
            Err(reason) => return skipped(&format!("no file system can be mounted here ({reason})")),
        }
    }
    (0..3).for_each(|node| bed.start_node(node));
    for node in 0..3 {
        bed.ready(node).await;
    }
    let followers = bed.follow();
    for _ in 0..3 {
        let load = bed.load(&LoadConfig::default());
        bed.progress(80).await;
        for volume in &volumes {
            volume.cut_power().expect("the power can be cut");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        load.stop().await;
        bed.seed += 1;
        for (node, volume) in volumes.iter().enumerate() {
            // Whoever wrote meanwhile has stopped by itself; whoever had nothing to write may not have noticed yet.
            bed.kill(node);
            volume.restore_power().expect("mounted again");
        }
        (0..3).for_each(|node| bed.start_node(node));
        for node in 0..3 {
            bed.ready(node).await;
        }
    }
    let history = bed.verify(followers).await;
    assert!(history.acknowledged() >= 240);
    (0..3).for_each(|node| bed.kill(node));
    drop(volumes);
}
