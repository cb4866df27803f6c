//! A workload of containers, made from our own program: there need not be a registry.
//!
//! All hosts share one engine, and have the network of this machine. Where no engine answers this says SKIPPED, and fails with
//! `SETPOINT_TEST_ALL=1`.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::estate::Estate;
use crate::page::Page;
use crate::shop::{template, workload};

/// A file tree of the program and the libraries it needs, as an image.
const IMPORT: &str = r#"
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -D "$1" "$work/web"
ldd "$1" | awk '/=> \//{print $3} /^\t\//{print $1}' | while read -r library; do
  install -D "$(readlink -f "$library")" "$work$library"
done
tar -C "$work" -c . | docker import - "$2" >/dev/null
"#;

/// The image of a test, which goes when the test ends.
struct Image(String);

impl Image {
    fn import() -> Self {
        let image = Self(format!("setpoint-test-web-{}", std::process::id()));
        let words = ["-c", IMPORT, "import", env!("CARGO_BIN_EXE_web"), &image.0];
        assert!(status(Command::new("bash").args(words)), "the image cannot be made");
        image
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        status(Command::new("docker").args(["image", "rm", "--force", &self.0]));
    }
}

fn status(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The socket of the engine, if one answers.
fn engine() -> Option<String> {
    let host = std::env::var("DOCKER_HOST").ok();
    let socket =
        host.as_deref().and_then(|host| host.strip_prefix("unix://")).unwrap_or("/var/run/docker.sock");
    if status(Command::new("docker").arg("info").stderr(Stdio::null())) {
        return Some(socket.to_owned());
    }
    assert!(std::env::var_os("SETPOINT_TEST_ALL").is_none(), "no container engine answers");
    eprintln!("SKIPPED: no container engine answers at {socket}");
    None
}

/// The containers that the hosts have; only those that run, or all.
fn containers(estate: &Estate, all: bool) -> Vec<String> {
    let of = |mark: String| {
        let label = format!("label=setpoint.agent={mark}");
        let mut list = Command::new("docker");
        list.args(["ps", "--quiet", "--filter", &label]).args(all.then_some("--all"));
        String::from_utf8(list.output().expect("a list").stdout).expect("words")
    };
    estate
        .hosts
        .iter()
        .flat_map(|host| of(host.mark()).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn all_are(version: &str) -> impl Fn(&[Page]) -> bool {
    move |pages| pages.iter().all(|page| page.version == version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_of_containers_is_served_scaled_rolled_survives_its_agents_and_leaves_nothing() {
    let Some(socket) = engine() else { return };
    let image = Image::import();
    let mut estate = Estate::start_with("a_workload_of_containers", &socket).await;
    let mut template = template(&["--version", "one"]);
    (template.image, template.command) = (Some(image.0.clone()), vec!["/web".into()]);
    estate.submit(&workload("web", 2, template)).await;
    estate.answers("web", 2, "answer", all_are("one")).await;
    estate.change("web", json!({ "replicas": 3 })).await;
    estate.answers("web", 3, "answer", all_are("one")).await;
    estate.change("web", json!({ "template": { "args": ["--version", "two"] } })).await;
    let pages = estate.answers("web", 3, "answer in version two", all_are("two")).await;

    // Containers go on without their agents, and are taken up by the next.
    for host in &mut estate.hosts {
        host.agent.kill();
        host.agent.start();
    }
    for host in &mut estate.hosts {
        host.agent.ready().await;
    }
    let after = estate.answers("web", 3, "answer still", all_are("two")).await;
    assert!(pages.iter().all(|page| after.contains(page)), "those that were there stay");
    assert!(estate.served("web").await.iter().all(|served| served.restarts == 0), "none was started again");
    assert_eq!(containers(&estate, false).len(), 3);

    estate.delete("web").await;
    estate.nothing_is_remembered().await;
    assert_eq!(containers(&estate, true), Vec::<String>::new(), "a container is left");
    estate.check();
}
