//! Every command against the server's own services, in one process: what is written to which stream, and how it ends.
//!
//! - [`script`]: scripts with commands and what comes of them (`golden/*.txt`); `UPDATE_GOLDENFILES=1` writes them anew
//! - [`theatre`]: a stage over a world without sockets
//! - [`ring`]: three nodes for the commands about nodes
//! - [`sessions`]: logs and commands, with an agent of the test's own
//! - [`network`]: what only a network can do: nobody there, certificates of others

mod network;
mod ring;
mod script;
mod sessions;
mod theatre;

use std::path::Path;

/// One script, one test.
macro_rules! golden {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(concat!("tests/cli/golden/", stringify!($name), ".txt"));
            script::check(&path).await;
        }
    )*};
}

golden!(
    apply, auth, change, cluster, completion, config, delete, describe, dev, explain, get, new, node,
    rollout, top, wait
);

#[tokio::test(start_paused = true)]
async fn the_commands_of_the_users_page_do_what_it_says() {
    script::check_page(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md")).await;
}

#[test]
fn every_script_is_run() {
    let source = include_str!("main.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden");
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let list =
            source.split("golden!(").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
        assert!(list.split(',').any(|it| it.trim() == name), "{name} is in no golden! list");
    }
}
