//! Documents walked through from their first command to their last, against clusters of real processes: the tutorial for users of
//! workloads, and the pages of the example controllers.
//!
//! Not here: the tutorial for controllers (`tutorial.rs`), which asks for keys to be pressed; README and the operations manual
//! (`documentation.rs`), whose commands are run without looking at what they print; the command line's page (`crates/cli/tests`).

use std::fs;
use std::path::Path;

use setpoint_cluster_tests::walk::Walk;

async fn walk(document: &str, arguments: &str, commands: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join(document)).expect("the document is there");
    let mut walk = Walk::begin(&root, arguments);
    let typed = walk.through(&text);
    assert!(typed >= commands, "{document} has {typed} commands");
    walk.end().await;
}

#[tokio::test]
async fn the_tutorial_for_users_of_workloads_prints_what_it_shows() {
    walk("docs/tutorial/your-first-workload.md", "", 30).await;
}

#[tokio::test]
async fn the_page_of_the_config_distributor_prints_what_it_shows() {
    walk("examples/config-distributor/README.md", "--no-sample", 6).await;
}

#[tokio::test]
async fn the_page_of_the_directory_reconciler_prints_what_it_shows() {
    walk("examples/directory-reconciler/README.md", "--no-sample", 6).await;
}

#[tokio::test]
async fn the_page_of_the_dns_records_prints_what_it_shows() {
    walk("examples/dns-records/README.md", "--no-sample", 6).await;
}
