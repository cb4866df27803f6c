//! The command line against a cluster of real processes: what only such a one has, its nodes and their data.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use setpoint_cluster_tests::testbed::{PATIENCE, Setup, Testbed};
use setpoint_etcd_tests::cluster::setpointd;

/// What came of a command.
struct Ran {
    out: String,
    err: String,
    exit: i32,
}

/// Runs `setpoint` against all nodes. Blocks for as long as it runs.
fn run(bed: &Testbed, arguments: &[&str]) -> Ran {
    let program = setpointd().expect("the server's program").with_file_name("setpoint");
    let home = bed.cluster.root();
    let output = Command::new(&program)
        .args(arguments)
        .args(["-s", &bed.addresses().join(",")])
        .env_clear()
        .env("HOME", home)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { out: text(&output.stdout), err: text(&output.stderr), exit: output.status.code().unwrap_or(-1) }
}

/// The result of a command that has to succeed.
fn done(bed: &Testbed, arguments: &[&str]) -> String {
    let ran = run(bed, arguments);
    assert_eq!(ran.exit, 0, "{arguments:?}: {}{}", ran.out, ran.err);
    ran.out
}

/// Who says that it leads: nobody, while a change of leaders is under way.
fn leader(bed: &Testbed) -> String {
    let status = ["cluster", "status", "-o", "jsonpath={.members[?(@.role==\"leader\")].name}"];
    run(bed, &status).out.trim().to_owned()
}

fn apply(bed: &Testbed, name: &str) {
    let file = bed.cluster.root().join("object.yaml");
    std::fs::write(&file, format!("kind: Namespace\nmetadata: {{name: {name}}}\n")).expect("written");
    let file = file.to_str().expect("a path of letters");
    assert_eq!(done(bed, &["apply", "-f", file]), format!("namespace/{name} created\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_shows_and_tends_a_cluster() {
    let mut bed = Testbed::start_with("the_command_line", Setup::calm()).await;
    let members = done(&bed, &["cluster", "members"]);
    assert_eq!(members.lines().count(), 4, "{members}");
    let status = done(&bed, &["cluster", "status"]);
    assert_eq!(status.lines().filter(|line| line.contains("leader")).count(), 1, "{status}");

    let before = leader(&bed);
    let names = done(&bed, &["cluster", "members", "-o", "name"]);
    let other = names.lines().find(|name| *name != before).expect("three nodes").to_owned();
    let moved = done(&bed, &["cluster", "move-leader", &other]);
    assert_eq!(moved, format!("{other} leads, after {before}\n"));
    let deadline = Instant::now() + PATIENCE;
    while leader(&bed) != other {
        assert!(
            Instant::now() < deadline,
            "{other} does not lead: {}",
            run(&bed, &["cluster", "status"]).out
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let nobody = run(&bed, &["cluster", "move-leader", "nobody"]);
    assert_eq!(
        (nobody.exit, nobody.err.contains("there is no node \"nobody\"")),
        (3, true),
        "{}",
        nobody.err
    );

    apply(&bed, "kept");
    backed_up_and_restored(&bed);
    let compacted = done(&bed, &["cluster", "compact", "--wait"]);
    assert!(compacted.starts_with("compacted up to revision "), "{compacted}");
    let past = run(&bed, &["get", "namespaces", "--at", "1"]);
    assert!(past.exit != 0 && past.err.contains("no longer kept"), "{} {}", past.exit, past.err);

    bed.kill(0);
    let ill = run(&bed, &["cluster", "status"]);
    assert_eq!(ill.exit, 1, "a node is down: {}{}", ill.out, ill.err);
    assert!(ill.out.contains("no server answered"), "{}", ill.out);
    assert_eq!(done(&bed, &["get", "namespace", "kept", "-o", "name"]), "namespace/kept\n");
    bed.no_panics();
}

fn backed_up_and_restored(bed: &Testbed) {
    let path = |name: &str| bed.cluster.root().join(name).to_str().expect("a path of letters").to_owned();
    let (file, folder) = (path("cli.backup"), path("restored"));
    let said = done(bed, &["cluster", "backup", &file]);
    assert!(said.contains("bytes written to") && Path::new(&file).is_file(), "{said}");
    let again = run(bed, &["cluster", "backup", &file]);
    assert_eq!((again.exit, again.err.contains("there already")), (2, true), "{}", again.err);
    let restored = done(bed, &["cluster", "restore", &file, "--data-dir", &folder]);
    assert!(restored.contains(&folder) && Path::new(&folder).join("state").is_dir(), "{restored}");
    let twice = run(bed, &["cluster", "restore", &file, "--data-dir", &folder]);
    assert!(twice.exit != 0 && twice.err.starts_with("error: "), "{}", twice.err);
}
