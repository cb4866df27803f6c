//! Probes: how an agent finds out whether a replica has started, lives and is ready.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problems;

/// A question an agent asks a replica again and again, in exactly one way: `exec`, `http`, `tcp` or `grpc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// Runs a command beside the replica; it succeeds with exit status 0.
    pub exec: Option<ExecAction>,
    /// Sends a GET; it succeeds with a status from 200 to 399.
    pub http: Option<HttpAction>,
    /// Opens a connection.
    pub tcp: Option<TcpAction>,
    /// Asks the gRPC health service.
    pub grpc: Option<GrpcAction>,
    /// Waits so long after the start.
    pub initial_delay_seconds: u32,
    /// Between two questions.
    #[schemars(range(min = 1))]
    pub period_seconds: u32,
    /// How long an answer may take.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u32,
    /// So many successes in a row count as one.
    #[schemars(range(min = 1))]
    pub success_threshold: u32,
    /// So many failures in a row count as one.
    #[schemars(range(min = 1))]
    pub failure_threshold: u32,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            exec: None,
            http: None,
            tcp: None,
            grpc: None,
            initial_delay_seconds: 0,
            period_seconds: 10,
            timeout_seconds: 1,
            success_threshold: 1,
            failure_threshold: 3,
        }
    }
}

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecAction {
    /// The program and its arguments. No shell is involved.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

/// A GET request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpAction {
    /// The name of one of the template's ports.
    pub port: String,
    /// Begins with `/`; `/` if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpAction {
    /// The name of one of the template's ports.
    pub port: String,
}

/// A call of `grpc.health.v1.Health/Check`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcAction {
    /// The name of one of the template's ports.
    pub port: String,
    /// The service to ask for; the whole server if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
}

impl Probe {
    /// What is wrong with it. `ports` are the names of the template's ports.
    pub(super) fn check(&self, ports: &[&str], problems: &mut Problems) {
        let ways = [self.exec.is_some(), self.http.is_some(), self.tcp.is_some(), self.grpc.is_some()];
        if ways.iter().filter(|way| **way).count() != 1 {
            problems.report("must have exactly one of exec, http, tcp and grpc");
        }
        let http = self.http.as_ref().map(|http| ("http", &http.port));
        let tcp = self.tcp.as_ref().map(|tcp| ("tcp", &tcp.port));
        let grpc = self.grpc.as_ref().map(|grpc| ("grpc", &grpc.port));
        for (way, port) in [http, tcp, grpc].into_iter().flatten() {
            if !ports.contains(&port.as_str()) {
                problems.field(way, |problems| {
                    problems.report_at("port", format!("must name one of the ports, there is no {port:?}"));
                });
            }
        }
        if let Some(http) = &self.http
            && !http.path.is_empty()
            && !http.path.starts_with('/')
        {
            problems.field("http", |problems| problems.report_at("path", "must begin with `/`"));
        }
        if self.timeout_seconds > self.period_seconds {
            problems.report_at("timeoutSeconds", "must not be longer than periodSeconds");
        }
    }
}
