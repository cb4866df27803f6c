//! What is reserved of nodes, out of the ledgers that every bind is checked against.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1::ListLedgersRequest;

use super::Console;
use super::call::Call;
use super::list::PAGE_MAX;
use super::refusal::Refused;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    prefix: String,
    after: String,
}

pub async fn answer(
    _: State<Console>,
    call: Call,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, Refused> {
    let Asked { prefix, after } = asked;
    let request = ListLedgersRequest { prefix, after, limit: PAGE_MAX, at: None };
    let found = call.ledgers().list(call.request(request)).await?.into_inner();
    let ledgers = found.ledgers.iter();
    let ledgers =
        ledgers.map(|ledger| json!({ "name": ledger.name, "limits": ledger.limits, "used": ledger.used }));
    Ok(Json(
        json!({ "ledgers": ledgers.collect::<Vec<_>>(), "revision": found.revision, "more": found.more }),
    ))
}
