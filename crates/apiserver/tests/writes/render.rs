//! Answers and refusals as text, one thing a line.

use prost::Message;
use setpoint_api::raw::v1 as raw;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::objects::Refusal;

pub fn outcome<T>(outcome: Result<T, Refusal>, print: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(answer) => print(answer),
        Err(refusal) => refused(&refusal.into_error()),
    }
}

fn refused(error: &pb::Error) -> String {
    let mut lines = vec![format!("{}: {}", error.reason().as_str_name(), error.message)];
    lines.extend(error.problems.iter().map(|it| format!("  {} {}", it.path, it.message)));
    lines.extend(error.conflicts.iter().map(|it| format!("  {} is {}'s: {}", it.path, it.manager, it.value)));
    if error.revision != 0 {
        lines.push(format!("  at revision {}", error.revision));
    }
    if let Some(held) = &error.held {
        lines.push(format!("  held at epoch {}", held.epoch));
    }
    if let Some(headroom) = &error.headroom {
        let mut left: Vec<_> =
            headroom.amounts.iter().map(|(name, amount)| format!("{name}:{amount}")).collect();
        left.sort();
        lines.push(format!("  left in {}: {}", headroom.ledger, left.join(",")));
    }
    lines.join("\n")
}

pub fn write(answer: &raw::WriteResponse) -> String {
    let mut head = format!("@{}", answer.revision);
    for (flag, word) in [(!answer.changed, " unchanged"), (answer.repeated, " repeated")] {
        head.push_str(if flag { word } else { "" });
    }
    let mut lines = vec![head];
    lines.extend(answer.warnings.iter().map(|it| format!("warning: {it}")));
    lines.extend(answer.object.as_ref().map(|it| object(&it.encode_to_vec())));
    lines.join("\n")
}

pub fn object(bytes: &[u8]) -> String {
    let object = pb::Object::decode(bytes).expect("an object");
    let metadata = object.metadata.unwrap_or_default();
    let place = [metadata.namespace.as_str(), &metadata.name].join("/");
    let mut line = format!("{} {place} rev={} gen={}", object.kind, metadata.revision, metadata.generation);
    let mut labels: Vec<_> = metadata.labels.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    labels.sort();
    let parts = [
        ("labels", labels.join(",")),
        ("finalizers", metadata.finalizers.join(",")),
        ("deleted", metadata.deleted_ms.map(|it| it.to_string()).unwrap_or_default()),
        ("spec", String::from_utf8_lossy(&object.spec).into_owned()),
        ("status", String::from_utf8_lossy(&object.status).into_owned()),
    ];
    for (name, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
        line.push_str(&format!(" {name}={text}"));
    }
    let mut lines = vec![line];
    for entry in &metadata.managed_fields {
        let how = entry.operation().as_str_name().to_lowercase();
        let part =
            if entry.subresource.is_empty() { String::new() } else { format!(" {}", entry.subresource) };
        lines.push(format!("  {} {how}{part}: {}", entry.manager, entry.fields.join(" ")));
    }
    lines.join("\n")
}

pub fn deleted(answer: &raw::DeleteResponse) -> String {
    let word = if answer.gone { "gone" } else { "waits" };
    let repeated = if answer.repeated { " repeated" } else { "" };
    let mut lines = vec![format!("@{} {word}{repeated}", answer.revision)];
    for blocker in &answer.blockers {
        let key = |it: &pb::ObjectKey| format!(" {} {}/{}", it.kind, it.namespace, it.name);
        let parts: String = blocker.dependents.iter().map(key).collect();
        lines.push(format!("  for {}{parts}", blocker.finalizer));
    }
    lines.extend(answer.object.as_ref().map(|it| object(&it.encode_to_vec())));
    lines.join("\n")
}

pub fn version(version: &raw::Version) -> String {
    let author = version.author.clone().unwrap_or_default();
    let fence = author.fence.map(|it| format!(" fence={}@{}", it.lease, it.epoch)).unwrap_or_default();
    let word = if version.deleted { "deleted" } else { "written" };
    let named = [("manager", author.manager), ("op", author.operation), ("trace", author.trace)];
    let rest: String =
        named.iter().filter(|(_, it)| !it.is_empty()).map(|(name, it)| format!(" {name}={it}")).collect();
    format!("@{} {word} by {}{rest}{fence} at {}", version.revision, author.principal, author.time_ms)
}

pub fn ledger(ledger: &pb::Ledger) -> String {
    let (limits, used) = (amounts(&ledger.limits), amounts(&ledger.used));
    format!("{}: limits={limits} used={used} since {}", ledger.name, ledger.modified_revision)
}

pub fn amounts<'a>(amounts: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    let mut amounts: Vec<_> = amounts.into_iter().map(|(name, amount)| format!("{name}:{amount}")).collect();
    amounts.sort();
    amounts.join(",")
}
