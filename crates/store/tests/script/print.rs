//! Answers as the scripts show them: `@N` is the revision in the header, then what else there is, a line each.

use setpoint_store::ledger::{self, Amounts, Ledger, LedgerKey};
use setpoint_store::{
    Change, ChangeSet, Epoch, Found, Hold, KeyValue, LeaseState, RangeResult, Record, RecordId, Rejection,
    Response, TxnResult, Verdict, encoding,
};

pub fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Ok(response) => self::response(response, ""),
        Err(rejection) => self::rejection(rejection),
    }
}

pub fn rejection(rejection: &Rejection) -> String {
    let found = match rejection {
        Rejection::Guard { found: Found::Revision(revision), .. } => format!(": it is at {revision}"),
        Rejection::Guard { found: Found::Lease(lease), .. } => format!(": {}", self::lease(lease)),
        Rejection::Guard { found: Found::Headroom(left), .. } => format!(": left {}", amounts(left)),
        Rejection::Guard { found: Found::Term(term), .. } => format!(": it is {term}"),
        Rejection::Guard { found: Found::Keys(keys), .. } => format!(": it has {keys}"),
        Rejection::NoHeadroom { left, .. } => format!(": left {}", amounts(left)),
        Rejection::NotFree { found, .. } | Rejection::NotHeld { found, .. } => format!(": {}", lease(found)),
        _ => String::new(),
    };
    format!("refused: {rejection}{found}\n")
}

pub fn lease(state: &LeaseState) -> String {
    let hold = state.hold.as_ref();
    let hold = hold.map_or("free".to_owned(), |hold| format!("held by {} at {}", hold.holder, hold.epoch));
    format!("epoch {}, {hold}", state.epoch)
}

pub fn ledger(ledger: &Ledger) -> String {
    format!("limits {}, used {}", amounts(&ledger.limits), amounts(&ledger.used))
}

fn amounts(amounts: &Amounts) -> String {
    let amounts: Vec<_> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    if amounts.is_empty() { "nothing".to_owned() } else { amounts.join(" ") }
}

/// What the state machine keeps is shown as what it says.
fn value(key: &[u8], value: &bytes::Bytes) -> String {
    let kept = match LedgerKey::parse(key) {
        Some(LedgerKey::Ledger(_)) => Ledger::decode(value.clone()).map(|it| format!("[{}]", ledger(&it))),
        Some(LedgerKey::Reservation { .. }) => {
            ledger::decode_reservation(value.clone()).map(|it| format!("[{}]", amounts(&it)))
        }
        None if key.starts_with(encoding::HOLDS) => {
            Hold::decode(value.clone()).map(|it| format!("[{} at {}]", it.holder, it.epoch))
        }
        None if key.starts_with(encoding::EPOCHS) => Epoch::decode(value.clone()).map(|it| format!("[{it}]")),
        None => Ok(value.escape_ascii().to_string()),
    };
    kept.expect("the state machine writes what it can read")
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
        Response::Commit(committed) => {
            let repeated = if committed.repeated { ", repeated" } else { "" };
            let changed = if committed.changed { "committed" } else { "nothing to change" };
            format!("{indent}@{} {changed}{repeated}\n", committed.revision)
        }
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
        value(&kv.key, &kv.value),
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
    let author = record.author.as_ref().map_or(String::new(), |it| {
        let operation = if it.operation.is_empty() { String::new() } else { format!(" as {}", it.operation) };
        let fence = it.fence.as_ref().map_or(String::new(), |it| {
            format!(" fenced by {}/{} at {}", it.lease.namespace, it.lease.name, it.epoch)
        });
        format!(", by {}{operation}{fence} at time {}", it.principal, it.time.0)
    });
    match &record.change {
        Change::Put { value, version, .. } => {
            format!("put {key}={} version {version}{replaced}{author}", self::value(&record.key, value))
        }
        Change::Delete => format!("delete {key}{replaced}{author}"),
    }
}
