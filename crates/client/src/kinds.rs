//! The kinds a cluster serves: their names, schemas and columns, for those who do not know them in advance.

use serde_json::Value;
use setpoint_api::setpoint::v1 as pb;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// A kind as a server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedKind {
    /// `Workload`
    pub name: String,
    /// `workloads`
    pub plural: String,
    pub short_names: Vec<String>,
    /// False: it belongs to the whole cluster.
    pub namespaced: bool,
    /// JSON Schema of spec and status.
    pub schema: Value,
    pub columns: Vec<ServedColumn>,
    /// What field selectors may name.
    pub selectable_fields: Vec<String>,
    /// Defined by users.
    pub custom: bool,
}

/// A column of a table for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedColumn {
    pub name: String,
    /// `.spec.replicas`
    pub path: String,
    /// `string`, `integer`, `boolean` or `time`
    pub kind: String,
    /// 0 always; above that only in wide tables.
    pub priority: u32,
}

impl Client {
    /// Every kind that is served and that this client may do something with.
    pub async fn kinds(&self) -> Result<Vec<ServedKind>, Error> {
        let call = Call::read("list", "kinds");
        let request = pb::KindsRequest { kind: String::new() };
        let answer =
            self.objects(&call, request, |mut client, request| async move { client.kinds(request).await });
        answer.await?.kinds.into_iter().map(|kind| read(&call, kind)).collect()
    }
}

fn read(call: &Call, kind: pb::KindInfo) -> Result<ServedKind, Error> {
    let schema = match kind.schema.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(&kind.schema)
            .map_err(|error| call.unreadable(format!("the schema of {}: {error}", kind.kind)))?,
    };
    let column = |it: pb::Column| ServedColumn {
        name: it.name,
        path: it.path,
        kind: it.r#type,
        priority: it.priority,
    };
    Ok(ServedKind {
        name: kind.kind,
        plural: kind.plural,
        short_names: kind.short_names,
        namespaced: kind.namespaced,
        schema,
        columns: kind.columns.into_iter().map(column).collect(),
        selectable_fields: kind.selectable_fields,
        custom: kind.custom,
    })
}
