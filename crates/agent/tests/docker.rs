//! Containers of a real engine. Where none answers this says SKIPPED, and fails with `SETPOINT_TEST_ALL=1`.
//!
//! There need not be a registry: the image is made of this machine's shell and the libraries it needs.

// What a test was not able to try, or saw when it failed, is said to whoever runs it.
#![allow(clippy::print_stdout)]

use std::process::Command;
use std::time::Duration;

use bollard::Docker;
use bollard::body_full;
use bollard::query_parameters::{CreateImageOptions, RemoveImageOptions};
use futures::stream::StreamExt;
use setpoint_agent::runtime::docker::DockerRuntime;
use setpoint_agent::runtime::process::cgroup::Limits;
use setpoint_agent::runtime::{Cause, Found, Order, RunId, Runtime, Task};
use setpoint_types::Uid;
use tokio::time::timeout;

const SOCKET: &str = "/var/run/docker.sock";
const PATIENCE: Duration = Duration::from_secs(60);

async fn engine(node: &str) -> Option<DockerRuntime> {
    match DockerRuntime::connect(SOCKET, node, 1 << 20, 2).await {
        Ok(runtime) => Some(runtime),
        Err(error) => {
            assert!(std::env::var_os("SETPOINT_TEST_ALL").is_none(), "no Docker engine answers: {error}");
            println!("SKIPPED: no Docker engine answers at {SOCKET}: {error}");
            None
        }
    }
}

/// An image with a shell, `sleep` and what they need.
async fn image(docker: &Docker, name: &str) {
    let script = "tar -C / -ch $(for b in /bin/sh /bin/sleep; do echo ${b#/}; \
                  ldd $b | awk '/=> \\//{print substr($3,2)} /^\\t\\//{print substr($1,2)}'; done | sort -u)";
    let archive = Command::new("/bin/sh").args(["-c", script]).output().expect("an archive").stdout;
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some(name.to_owned()),
        tag: Some("latest".to_owned()),
        ..CreateImageOptions::default()
    };
    let mut made = docker.create_image(Some(options), Some(body_full(archive.into())), None);
    while let Some(step) = made.next().await {
        step.expect("a step");
    }
}

fn task(image: &str, folder: &std::path::Path, number: u32, script: &str) -> Task {
    Task {
        run: RunId { replica: Uid::new(format!("test-{}", std::process::id())), number },
        name: "default/test".to_owned(),
        image: Some(image.to_owned()),
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        args: Vec::new(),
        env: vec![("GREETING".into(), "hello".into())],
        working_dir: None,
        folder: folder.to_owned(),
        limits: Limits { memory_bytes: Some(64 << 20), ..Limits::default() },
        endpoints: Vec::new(),
        fence_grace: None,
    }
}

#[tokio::test]
async fn a_container_runs_once_is_found_again_and_is_ended() {
    let node = format!("test-{}", std::process::id());
    let Some(runtime) = engine(&node).await else { return };
    let name = format!("setpoint-test-{}", std::process::id());
    image(runtime.engine(), &name).await;
    let folder = tempfile::tempdir().expect("a folder");

    let first = task(&name, folder.path(), 1, "echo $GREETING; exit 3");
    runtime.prepare(&first).await.expect("the image is there");
    assert_eq!(runtime.find(&first.run).await.expect("found"), Found::Never);
    runtime.start(&first).await.expect("started");
    let ended = timeout(PATIENCE, runtime.wait(&first.run)).await.expect("in time").expect("an end");
    assert_eq!((ended.code, ended.cause), (Some(3), Cause::Itself));

    let second = task(&name, folder.path(), 2, "trap '' TERM; while :; do sleep 1; done");
    runtime.start(&second).await.expect("started");
    let next = engine(&node).await.expect("the same engine");
    assert!(matches!(next.find(&second.run).await, Ok(Found::Running { .. })));
    assert_eq!(next.runs().await.expect("the runs").len(), 2);
    let ask = ["/bin/sh", "-c", "exit 4"].map(str::to_owned);
    assert_eq!(next.exec(&second, &ask, PATIENCE).await.expect("asked"), Some(4));
    next.order(&second.run, Order::Terminate).await.expect("told");
    next.order(&second.run, Order::Kill).await.expect("told");
    let ended = timeout(PATIENCE, next.wait(&second.run)).await.expect("in time").expect("an end");
    assert_eq!(ended.signal, Some(9));

    for run in [&first.run, &second.run] {
        next.remove(run).await.expect("removed");
    }
    assert!(next.runs().await.expect("the runs").is_empty());
    next.engine().remove_image(&name, None::<RemoveImageOptions>, None).await.expect("removed");
}
