//! What a manager shows over HTTP.

use std::net::SocketAddr;

use setpoint_runtime::{Action, Manager, ManagerError, ManagerSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::{Rig, Setup, object};
use crate::server::Store;

fn listening(address: SocketAddr) -> Setup {
    Setup {
        settings: ManagerSettings::named("rig").without_election().listening(address),
        ..Setup::default()
    }
}

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// A name that no longer exists would be looked for in vain.
fn named_by_the_tutorial() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial/your-first-controller.md");
    let text = std::fs::read_to_string(path).expect("the tutorial is there");
    let named: Vec<String> =
        text.split('`').filter(|word| word.starts_with("setpoint_")).map(str::to_owned).collect();
    assert!(named.len() >= 5, "it names {named:?}");
    named
}

/// The whole answer, with its head.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[tokio::test]
async fn a_manager_shows_how_it_stands_and_what_it_counts() {
    let store = Store::default();
    object(&store, "a", 1);
    let setup = listening(anywhere());
    let mut rig = Rig::with(setup, &store, |_, it| it, |_, _| Box::pin(async { Ok(Action::Done) })).await;
    rig.ran(1).await;
    let address = rig.manager.http_address().expect("it was asked to listen");
    assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    let metrics = get(address, "/metrics").await;
    assert!(metrics.contains("content-type: application/openmetrics-text"), "{metrics}");
    for name in named_by_the_tutorial() {
        assert!(
            metrics.contains(&format!("\n{name}")),
            "the tutorial names {name}, which is not shown: {metrics}"
        );
    }
    assert!(get(address, "/").await.starts_with("HTTP/1.1 404"));
    rig.stop().await.expect("in order");
}

#[tokio::test]
async fn a_manager_whose_caches_are_empty_lives_is_not_ready_and_says_what_it_waits_for() {
    let store = Store::default();
    store.down(true);
    let settings = ManagerSettings::named("x").without_election().listening(anywhere());
    let manager = Manager::new(store.client(1), settings).expect("good settings");
    let _cache = manager.informers().dynamic("Workload", true, Default::default());
    let address = manager.http_address().expect("it was asked to listen");
    let looks = async {
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let answer = get(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.ends_with("not ready: waiting for the first state of Workload\n"), "{answer}");
    };
    manager.run(looks).await.expect("it stops when the looks are over");
    drop(manager);
    while TcpStream::connect(address).await.is_ok() {
        // The task that listened ends in its own time.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_address_that_another_has_is_told_of_before_anything_begins() {
    let other = std::net::TcpListener::bind(anywhere()).expect("a free port");
    let address = other.local_addr().expect("it has one");
    let settings = ManagerSettings::named("x").listening(address);
    let Err(refused) = Manager::new(Store::default().client(1), settings) else { panic!("it was taken") };
    assert!(matches!(refused, ManagerError::Listen { .. }), "{refused}");
    assert!(refused.to_string().contains(&address.to_string()), "{refused}");
}
