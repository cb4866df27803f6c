//! The kinds there are, with the columns of their tables. Their schemas stay here: they are large, and pages do not use them.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1::{KindInfo, KindsRequest};

use super::Console;
use super::call::Call;
use super::refusal::Refused;

pub async fn answer(_: State<Console>, call: Call) -> Result<Json<Value>, Refused> {
    let found = call.objects().kinds(call.request(KindsRequest::default())).await?.into_inner();
    let kinds: Vec<Value> = found.kinds.iter().map(kind).collect();
    Ok(Json(json!({ "kinds": kinds, "revision": found.revision })))
}

fn kind(info: &KindInfo) -> Value {
    let columns = info.columns.iter().map(|column| {
        json!({ "name": column.name, "path": column.path, "type": column.r#type, "priority": column.priority })
    });
    json!({
        "kind": info.kind,
        "plural": info.plural,
        "namespaced": info.namespaced,
        "custom": info.custom,
        "columns": columns.collect::<Vec<_>>(),
    })
}
