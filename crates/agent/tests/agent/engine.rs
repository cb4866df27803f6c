//! An engine to test with, and an image for it. Where none answers a test says SKIPPED, and fails with `SETPOINT_TEST_ALL=1`.
//!
//! There need not be a registry: the image is made of this machine's shell and the libraries it needs.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bollard::query_parameters::{
    BuildImageOptions, ListContainersOptions, RemoveContainerOptions, RemoveImageOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker, body_full};
use futures::stream::StreamExt;

use crate::bed::until;

/// An engine that this process may use, with an image of its own.
pub struct Engine {
    pub socket: String,
    pub docker: Docker,
    pub image: String,
}

fn skip(why: &str) {
    assert!(std::env::var_os("SETPOINT_TEST_ALL").is_none(), "{why}");
    println!("SKIPPED: {why}");
}

async fn connect(socket: &str) -> Option<Docker> {
    let docker = Docker::connect_with_unix(socket, 60, API_DEFAULT_VERSION).ok()?;
    let docker = docker.negotiate_version().await.ok()?;
    docker.ping().await.ok().map(|_| docker)
}

impl Engine {
    /// The engine of this machine (`scripts/with-engine` starts one where there is none).
    pub async fn find(name: &str) -> Option<Self> {
        let host = std::env::var("DOCKER_HOST").ok();
        let socket = host.as_deref().and_then(|host| host.strip_prefix("unix://"));
        let socket = socket.unwrap_or("/var/run/docker.sock");
        let Some(docker) = connect(socket).await else {
            skip(&format!("no Docker engine answers at {socket}"));
            return None;
        };
        Some(Self::with_image(socket, docker, name).await)
    }

    async fn with_image(socket: &str, docker: Docker, name: &str) -> Self {
        let image = format!("setpoint-test-{}-{name}", std::process::id());
        make(&docker, &image).await;
        Self { socket: socket.to_owned(), docker, image }
    }

    /// Makes the image again, which goes with what a test has left.
    pub async fn make(&self) {
        make(&self.docker, &self.image).await;
    }

    /// The containers of an agent: id and state.
    pub async fn containers(&self, mark: &str) -> Vec<(String, String)> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("setpoint.agent={mark}")])]);
        let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let listed = self.docker.list_containers(Some(options)).await.expect("the containers");
        let told = listed.into_iter().map(|it| {
            let state = it.state.map(|state| state.to_string()).unwrap_or_default();
            (it.id.unwrap_or_default(), state)
        });
        told.collect()
    }

    /// How many of them run.
    pub async fn running(&self, mark: &str) -> usize {
        self.containers(mark).await.iter().filter(|(_, state)| state == "running").count()
    }

    /// Takes away what a test has left.
    pub async fn clear(&self, mark: &str) {
        let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
        for (id, _) in self.containers(mark).await {
            self.docker.remove_container(&id, Some(options.clone())).await.ok();
        }
        self.docker.remove_image(&self.image, None::<RemoveImageOptions>, None).await.ok();
    }
}

/// What an engine makes an image of: a shell, `sleep`, `cat` and what they need, and what an image may say and a template does not
/// have to.
const CONTEXT: &str = r#"
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C / -chf "$work/root.tar" $(for b in /bin/sh /bin/sleep /bin/cat; do
  echo ${b#/}
  ldd $b | awk '/=> \//{print substr($3,2)} /^\t\//{print substr($1,2)}'
done | sort -u)
printf 'FROM scratch\nADD root.tar /\nENV PATH=/bin:/own\nSTOPSIGNAL SIGUSR1\n' >"$work/Dockerfile"
tar -C "$work" -c .
"#;

async fn make(docker: &Docker, name: &str) {
    let context = Command::new("/bin/sh").args(["-c", CONTEXT]).output().expect("an archive").stdout;
    let options = BuildImageOptions {
        dockerfile: "Dockerfile".to_owned(),
        t: Some(format!("{name}:latest")),
        rm: true,
        ..BuildImageOptions::default()
    };
    let mut made = docker.build_image(options, None, Some(body_full(context.into())));
    while let Some(step) = made.next().await {
        let step = step.expect("a step");
        assert!(step.error_detail.is_none(), "{step:?}");
    }
}

/// An engine of a test's own, which can be ended and started again.
pub struct OwnEngine {
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl OwnEngine {
    /// None where this process may not start one.
    pub fn new() -> Option<Self> {
        let has = |program: &str| {
            ["/usr/bin", "/usr/sbin", "/usr/local/bin"].iter().any(|it| Path::new(it).join(program).exists())
        };
        if !rustix::process::geteuid().is_root() || !has("dockerd") {
            skip("an engine that comes and goes needs root, and dockerd (docker.io)");
            return None;
        }
        // Short: paths of sockets are at most 108 bytes.
        let folder = tempfile::Builder::new().prefix("eng").tempdir().expect("a folder");
        Some(Self { folder, daemon: None })
    }

    pub fn socket(&self) -> String {
        self.folder.path().join("sock").display().to_string()
    }

    /// Starts it, and waits until it answers. `survive`: containers go on without it, and when it comes back.
    pub async fn start(&mut self, survive: bool) -> Docker {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let log = std::fs::File::options().create(true).append(true).open(at("log")).expect("a log");
        // In a network of its own: without a bridge it would take away that of the engine of this machine.
        let mut daemon = Command::new("unshare");
        daemon.args(["--net", "dockerd"]);
        daemon.args(["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"]);
        daemon.args(["--data-root", &at("data"), "--exec-root", &at("run"), "--pidfile", &at("pid")]);
        daemon.args(["--host", &format!("unix://{}", self.socket())]);
        if survive {
            daemon.arg("--live-restore");
        }
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.daemon = Some(daemon.spawn().expect("dockerd"));
        until("the engine answers", async || connect(&self.socket()).await).await
    }

    pub async fn with_image(&self, docker: Docker, name: &str) -> Engine {
        Engine::with_image(&self.socket(), docker, name).await
    }

    /// As when its service is restarted.
    pub async fn stop(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        Command::new("kill").arg(daemon.id().to_string()).status().expect("told");
        until("the engine ends", async || daemon.try_wait().expect("a child")).await;
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // They may outlive it.
            let remove = "docker ps --all --quiet | xargs --no-run-if-empty docker rm --force";
            let host = format!("unix://{}", self.socket());
            Command::new("sh")
                .args(["-c", remove])
                .env("DOCKER_HOST", host)
                .stdout(Stdio::null())
                .status()
                .ok();
            Command::new("kill").arg(daemon.id().to_string()).status().ok();
            daemon.wait().ok();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            println!("{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}
