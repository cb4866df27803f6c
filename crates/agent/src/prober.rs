//! Asks a replica: by a command, a connection, a GET, or gRPC's health service.

use std::time::Duration;

use http::Uri;
use setpoint_types::kinds::{Probe, ReplicaEndpoint};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::http_get::Getter;
use crate::runtime::{Runtime, Task};
use crate::supervisor::chain;

/// What came of asking. What is wrong comes as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Well,
    Bad(String),
    /// Nobody could be asked: that says nothing about the replica.
    Unasked(String),
}

/// Asks once.
pub async fn ask(probe: &Probe, task: &Task, runtime: &dyn Runtime) -> Answer {
    let limit = Duration::from_secs(probe.timeout_seconds.max(1).into());
    if let Some(exec) = &probe.exec {
        return match runtime.exec(task, &exec.command, limit).await {
            Ok(Some(0)) => Answer::Well,
            Ok(Some(status)) => Answer::Bad(format!("the command ended with status {status}")),
            Ok(None) => Answer::Bad(format!("the command took longer than {limit:?}")),
            Err(error) if error.is_silence() => Answer::Unasked(chain(&error)),
            Err(error) => Answer::Bad(chain(&error)),
        };
    }
    match ask_port(probe, task, limit).await {
        Ok(()) => Answer::Well,
        Err(problem) => Answer::Bad(problem),
    }
}

async fn ask_port(probe: &Probe, task: &Task, limit: Duration) -> Result<(), String> {
    let asked = async {
        if let Some(http) = &probe.http {
            let path = if http.path.is_empty() { "/" } else { &http.path };
            get(&address(task, &http.port)?, path).await
        } else if let Some(tcp) = &probe.tcp {
            let address = address(task, &tcp.port)?;
            TcpStream::connect(&address).await.map(drop).map_err(|error| format!("{address}: {error}"))
        } else if let Some(grpc) = &probe.grpc {
            health(&address(task, &grpc.port)?, &grpc.service).await
        } else {
            Err("it asks nothing".to_owned())
        }
    };
    timeout(limit, asked).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

/// Probes ask where others do: at the published port, by way of the loopback, which every process of the host has.
fn address(task: &Task, port: &str) -> Result<String, String> {
    let named = |endpoint: &&ReplicaEndpoint| endpoint.name == port;
    let endpoint = task.endpoints.iter().find(named).ok_or(format!("there is no port {port:?}"))?;
    Ok(format!("127.0.0.1:{}", endpoint.port))
}

async fn get(address: &str, path: &str) -> Result<(), String> {
    let uri: Uri = format!("http://{address}{path}").parse().map_err(|error| format!("{path}: {error}"))?;
    let answer =
        Getter::default().get(&uri).await.map_err(|error| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })?;
    match answer.status().as_u16() {
        200..=399 => Ok(()),
        status => Err(format!("{path} answered {status}")),
    }
}

async fn health(address: &str, service: &str) -> Result<(), String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| format!("{address}: {error}"))?;
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer =
        HealthClient::new(channel).check(request).await.map_err(|status| status.message().to_owned())?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        status => Err(format!("its health is {}", status.as_str_name())),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Uid;
    use setpoint_types::kinds::{GrpcAction, HttpAction, Protocol, TcpAction};
    use tokio::net::TcpListener;
    use tonic_health::ServingStatus as Health;

    use super::*;
    use crate::runtime::RunId;
    use crate::runtime::process::cgroup::{Hierarchy, Limits};
    use crate::runtime::process::{ProcessRuntime, ProcessSettings};
    use crate::test_server::{ok, serve, status};

    /// Asks a process whose port `main` is this one.
    async fn check(port: u16, probe: Probe) -> Result<(), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = ProcessRuntime::new(ProcessSettings {
            runs: folder.path().join("runs"),
            deadline: folder.path().join("deadline"),
            hierarchy: Hierarchy::None,
            open_files: None,
            log_bytes: 1024,
            log_files: 1,
            program: "/bin/false".into(),
        });
        let (name, host, protocol) = ("main".to_owned(), "elsewhere".to_owned(), Protocol::Tcp);
        let task = Task {
            run: RunId { replica: Uid::new("r"), number: 1 },
            name: "default/web-0".to_owned(),
            image: None,
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            folder: folder.path().to_owned(),
            limits: Limits::default(),
            endpoints: vec![ReplicaEndpoint { name, host, port, protocol }],
            fence_grace: None,
        };
        match ask(&probe, &task, &runtime.expect("a runtime")).await {
            Answer::Well => Ok(()),
            Answer::Bad(problem) => Err(problem),
            Answer::Unasked(problem) => panic!("not asked: {problem}"),
        }
    }

    fn http(port: &str, path: &str) -> Probe {
        Probe { http: Some(HttpAction { port: port.into(), path: path.into() }), ..Probe::default() }
    }

    fn tcp() -> Probe {
        Probe { tcp: Some(TcpAction { port: "main".into() }), ..Probe::default() }
    }

    fn grpc(service: &str) -> Probe {
        let action = GrpcAction { port: "main".into(), service: service.into() };
        Probe { grpc: Some(action), ..Probe::default() }
    }

    /// A port that nothing listens on.
    async fn nobody() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("bound").port()
    }

    #[tokio::test]
    async fn a_get_is_well_from_200_to_399_and_says_what_was_answered_otherwise() {
        let server = serve(None, |path| match path {
            "/" => ok("well"),
            "/moved" => status("302 Found"),
            "/ill" => status("503 Service Unavailable"),
            "/mute" => None,
            _ => status("404 Not Found"),
        });
        let port = server.await.port();
        assert_eq!(check(port, http("main", "")).await, Ok(()));
        assert_eq!(check(port, http("main", "/moved")).await, Ok(()));
        assert_eq!(check(port, http("main", "/ill")).await, Err("/ill answered 503".to_owned()));
        assert_eq!(check(port, http("main", "/lost?x=1")).await, Err("/lost?x=1 answered 404".to_owned()));
        assert_eq!(check(port, http("main", "/mute")).await, Err("no answer within 1s".to_owned()));
        let refused = check(nobody().await, http("main", "/")).await.expect_err("nobody is there");
        assert!(refused.contains("cannot be reached") && refused.contains("refused"), "{refused}");
        let unnamed = check(port, http("other", "/")).await.expect_err("there is no such port");
        assert!(unnamed.contains("\"other\""), "{unnamed}");
    }

    #[tokio::test]
    async fn a_connection_is_enough_for_tcp() {
        let port = serve(None, |_| None).await.port();
        assert_eq!(check(port, tcp()).await, Ok(()));
        let refused = check(nobody().await, tcp()).await.expect_err("nobody is there");
        assert!(refused.contains("refused"), "{refused}");
    }

    #[tokio::test]
    async fn a_grpc_server_is_well_if_its_health_service_says_so() {
        let (reporter, service) = tonic_health::server::health_reporter();
        reporter.set_service_status("", Health::Serving).await;
        reporter.set_service_status("slow", Health::NotServing).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        assert_eq!(check(port, grpc("")).await, Ok(()));
        let ill = check(port, grpc("slow")).await.expect_err("it is not serving");
        assert!(ill.contains("NOT_SERVING"), "{ill}");
        let unknown = check(port, grpc("nobody")).await.expect_err("there is no such service");
        assert!(!unknown.is_empty(), "it says why");
        let other = serve(None, |_| status("200 OK")).await.port();
        let other = check(other, grpc("")).await.expect_err("it speaks another protocol");
        assert!(!other.is_empty(), "it says why");
    }
}
