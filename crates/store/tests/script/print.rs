//! Answers as the scripts show them: `@N` is the revision in the header, then what else there is, a line each.

use setpoint_store::{
    Change, ChangeSet, KeyValue, RangeResult, Record, RecordId, Rejection, Response, TxnResult, Verdict,
};

pub fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Ok(response) => self::response(response, ""),
        Err(rejection) => self::rejection(rejection),
    }
}

pub fn rejection(rejection: &Rejection) -> String {
    format!("refused: {rejection}\n")
}

fn response(response: &Response, indent: &str) -> String {
    match response {
        Response::Put { revision, previous } => {
            let previous = previous.iter().map(|kv| format!("{indent}  was {}\n", key_value(kv)));
            format!("{indent}@{revision} put\n{}", previous.collect::<String>())
        }
        Response::DeleteRange { revision, deleted, previous } => {
            let previous = previous.iter().map(|kv| format!("{indent}  was {}\n", key_value(kv)));
            format!("{indent}@{revision} deleted {deleted}\n{}", previous.collect::<String>())
        }
        Response::Range(result) => range(result, indent),
        Response::Txn(result) => txn(result, indent),
        Response::Compact { revision } => format!("{indent}@{revision} compacted\n"),
        Response::LeaseGrant { revision, lease, ttl } => {
            format!("{indent}@{revision} granted {} for {ttl}\n", lease.0)
        }
        Response::LeaseRevoke { revision } => format!("{indent}@{revision} revoked\n"),
        Response::Alarm { revision, changed } => {
            let changed = changed.iter().map(|alarm| format!(" {:?} of {}", alarm.kind, alarm.member));
            format!("{indent}@{revision} alarms:{}\n", changed.collect::<String>())
        }
        Response::Member { revision } => format!("{indent}@{revision} member\n"),
    }
}

pub fn range(result: &RangeResult, indent: &str) -> String {
    let more = if result.more { ", more" } else { "" };
    let kvs = result.kvs.iter().map(|kv| format!("{indent}  {}\n", key_value(kv)));
    format!("{indent}@{} {} in range{more}\n{}", result.revision, result.count, kvs.collect::<String>())
}

pub fn txn(result: &TxnResult, indent: &str) -> String {
    let branch = if result.succeeded { "then" } else { "else" };
    let responses = result.responses.iter().map(|inner| response(inner, &format!("{indent}  ")));
    format!("{indent}@{} {branch}\n{}", result.revision, responses.collect::<String>())
}

fn key_value(kv: &KeyValue) -> String {
    let lease = if kv.lease.is_none() { String::new() } else { format!(", lease {}", kv.lease.0) };
    format!(
        "{}={} (created {}, modified {}, version {}{lease})",
        kv.key.escape_ascii(),
        kv.value.escape_ascii(),
        kv.created,
        kv.modified,
        kv.version
    )
}

pub fn changes(set: &ChangeSet) -> String {
    let line = |(sub, record)| {
        let id = RecordId { revision: set.revision, sub: sub as u32 };
        format!("{} {}\n", record_id(id), self::record(record))
    };
    set.records.iter().enumerate().map(line).collect()
}

pub fn record_id(id: RecordId) -> String {
    format!("{}.{}", id.revision, id.sub)
}

pub fn record(record: &Record) -> String {
    let key = record.key.escape_ascii();
    let replaced = record.replaced.map_or(String::new(), |id| format!(", replaces {}", record_id(id)));
    match &record.change {
        Change::Put { value, version, .. } => {
            format!("put {key}={} version {version}{replaced}", value.escape_ascii())
        }
        Change::Delete => format!("delete {key}{replaced}"),
    }
}
