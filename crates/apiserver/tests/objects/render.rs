//! Answers as text, from the messages that clients decode.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;

/// `default/a@7 app=web spec={} status={}`
pub fn object(object: &pb::Object) -> String {
    let metadata = object.metadata.clone().unwrap_or_default();
    let mut labels: Vec<_> = metadata.labels.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    labels.sort();
    let place =
        if metadata.namespace.is_empty() { String::new() } else { format!("{}/", metadata.namespace) };
    let mut text = format!("{place}{}@{}{}", metadata.name, metadata.revision, labels.concat());
    for (name, json) in [("spec", &object.spec), ("status", &object.status)] {
        if !json.is_empty() {
            text += &format!(" {name}={}", String::from_utf8_lossy(json));
        }
    }
    text
}

pub fn response(response: &pb::WatchResponse) -> String {
    response.events.iter().map(event).collect::<Vec<_>>().join(" | ")
}

pub fn event(event: &pb::WatchEvent) -> String {
    let shown = event.object.as_ref().map(object).unwrap_or_default();
    let revision = event.revision;
    match event.r#type() {
        Type::Added => format!("ADDED {shown} rev={revision}"),
        Type::Modified => format!("MODIFIED {shown} rev={revision}"),
        Type::Deleted => format!("DELETED {shown} rev={revision}"),
        Type::Bookmark if event.initial_state_end => format!("BOOKMARK {revision} initial state end"),
        Type::Bookmark => format!("BOOKMARK {revision}"),
        Type::Error => format!("ERROR {}", error(&event.error.clone().unwrap_or_default())),
        Type::Unspecified => "an event without a type".to_owned(),
    }
}

pub fn error(error: &pb::Error) -> String {
    let mut text = format!("{}: {}", error.reason().as_str_name(), error.message);
    if error.revision > 0 {
        text += &format!(" [revision {}]", error.revision);
    }
    if error.retry_after_ms > 0 {
        text += &format!(" [retry after {} ms]", error.retry_after_ms);
    }
    text
}

pub fn version(version: &pb::Version) -> String {
    let author = version.author.clone().unwrap_or_default();
    let sign = if version.deleted { "deleted " } else { "" };
    let shown = version.object.as_ref().map(object).unwrap_or_default();
    format!("{} {sign}{shown} by {} at {}", version.revision, author.principal, author.time_ms)
}
