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

/// Asks once. What is wrong comes as a sentence.
pub async fn ask(probe: &Probe, task: &Task, runtime: &dyn Runtime) -> Result<(), String> {
    let limit = Duration::from_secs(probe.timeout_seconds.max(1).into());
    if let Some(exec) = &probe.exec {
        return match runtime.exec(task, &exec.command, limit).await {
            Ok(Some(0)) => Ok(()),
            Ok(Some(status)) => Err(format!("the command ended with status {status}")),
            Ok(None) => Err(format!("the command took longer than {limit:?}")),
            Err(error) => Err(error.to_string()),
        };
    }
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
