//! The HTTP listener: version, health and metrics; and the console, which has a folder of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use setpoint_apiserver::etcd::context::Context;
use setpoint_apiserver::etcd::{PROTOCOL_VERSION, STORAGE_VERSION};
use setpoint_apiserver::replica::Replica;
use setpoint_store::command::{AlarmKind, MemberAttributes};
use setpoint_types::NodeId;
use tokio_util::sync::CancellationToken;

use crate::console::{Console, Visitor};
use crate::door::Door;
use crate::metrics::NodeMetrics;

#[derive(Clone)]
struct Shared {
    context: Context,
    metrics: Arc<NodeMetrics>,
}

pub async fn serve(
    door: Door,
    context: Context,
    metrics: Arc<NodeMetrics>,
    console: Console,
    stop: CancellationToken,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/version", get(version))
        .route("/health", get(health))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .with_state(Shared { context, metrics })
        .merge(console.routes());
    let routes = routes.into_make_service_with_connect_info::<Visitor>();
    axum::serve(door, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn version() -> Json<serde_json::Value> {
    let cluster = PROTOCOL_VERSION.rsplit_once('.').map_or(PROTOCOL_VERSION, |(minor, _)| minor);
    Json(json!({
        "etcdserver": PROTOCOL_VERSION,
        "etcdcluster": format!("{cluster}.0"),
        "storage": STORAGE_VERSION,
        "setpoint": env!("CARGO_PKG_VERSION"),
    }))
}

/// What `/health` is asked, as etcd understands it: whatever it does not know is ignored.
#[derive(Debug, Default, PartialEq, Eq)]
struct HealthQuery {
    /// Ask only this node, not the cluster.
    serializable: bool,
    /// Alarms that do not count.
    excluded: Vec<String>,
}

impl HealthQuery {
    fn read(pairs: Vec<(String, String)>) -> Self {
        let mut query = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "serializable" => query.serializable |= value == "true",
                "exclude" => query.excluded.push(value),
                _ => {}
            }
        }
        query
    }
}

/// etcd's health check: can a read be answered, and is there no alarm.
async fn health(State(shared): State<Shared>, Query(pairs): Query<Vec<(String, String)>>) -> Response {
    let query = HealthQuery::read(pairs);
    let alarm = shared.context.replica.store.alarms().into_iter().find_map(|alarm| {
        let name = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        };
        (!query.excluded.iter().any(|excluded| excluded == name)).then(|| format!("ALARM {name}"))
    });
    let problem = match alarm {
        Some(alarm) => Some(alarm),
        None if query.serializable => None,
        None => unreadable(&shared.context.replica).await,
    };
    match problem {
        None => Json(json!({ "health": "true", "reason": "" })).into_response(),
        Some(reason) => {
            let body = Json(json!({ "health": "false", "reason": reason }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// Why no linearizable read can be answered. A client's read would wait for a leader; whoever asks for our health wants
/// to know now.
async fn unreadable(replica: &Replica) -> Option<String> {
    if replica.leader().is_none() {
        return Some("no leader is known".to_owned());
    }
    replica.read_barrier().await.err().map(|error| error.to_string())
}

/// The process runs and its state can be read.
async fn livez() -> &'static str {
    "ok\n"
}

/// The node can answer linearizable reads, so the cluster has a leader and we have caught up with it; and the cluster
/// knows our name and addresses, so clients are told about us. A node that stops says no first of all, so that whoever
/// spreads requests sends it none.
async fn readyz(State(shared): State<Shared>) -> Response {
    let replica = &shared.context.replica;
    if shared.context.stopping.is_cancelled() {
        return answer(Some("the node is stopping".to_owned()));
    }
    let unreadable = unreadable(replica).await;
    // Looked at after the barrier, when it is as new as what could be read.
    answer(unready(unreadable, &replica.store.members(), replica.identity.member))
}

fn unready(
    unreadable: Option<String>,
    members: &BTreeMap<NodeId, MemberAttributes>,
    us: NodeId,
) -> Option<String> {
    let unknown = || "the cluster does not know this node's name yet".to_owned();
    unreadable.or_else(|| (!members.contains_key(&us)).then(unknown))
}

fn answer(problem: Option<String>) -> Response {
    match problem {
        None => "ok\n".into_response(),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {problem}\n")).into_response(),
    }
}

async fn scrape(State(shared): State<Shared>) -> Response {
    match shared.metrics.encode() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_query_is_understood_as_etcd_does() {
        let read = |text: &str| {
            let uri = format!("http://node/health?{text}").parse().expect("a URI");
            let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).expect("pairs");
            let HealthQuery { serializable, excluded } = HealthQuery::read(pairs);
            (serializable, excluded.join(" "))
        };
        assert_eq!(read(""), (false, String::new()));
        assert_eq!(read("exclude=NOSPACE&exclude=CORRUPT"), (false, "NOSPACE CORRUPT".to_owned()));
        assert_eq!(read("serializable=true&exclude=NOSPACE"), (true, "NOSPACE".to_owned()));
        assert_eq!(read("serializable=1&unknown"), (false, String::new()));
    }

    #[test]
    fn a_node_is_not_ready_before_its_name_is_known() {
        let of = |ids: &[u64]| ids.iter().map(|id| (NodeId(*id), MemberAttributes::default())).collect();
        let status = |unreadable: Option<&str>, members: &[u64]| {
            answer(unready(unreadable.map(str::to_owned), &of(members), NodeId(2))).status()
        };
        assert_eq!(status(None, &[]), StatusCode::SERVICE_UNAVAILABLE, "reads work, but nobody knows it");
        assert_eq!(status(None, &[1, 3]), StatusCode::SERVICE_UNAVAILABLE, "nobody knows it among others");
        assert_eq!(status(Some("no leader is known"), &[1, 2, 3]), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(None, &[1, 2, 3]), StatusCode::OK);
    }
}
