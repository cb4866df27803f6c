//! A run as the engine is told of it, and what the engine says of a container: no IO.

use std::collections::HashMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

use bollard::models::{
    ContainerCreateBody, ContainerState, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits,
};
use setpoint_types::Timestamp;

use super::DockerSettings;
use crate::runtime::{Cause, Ended, RunId, Task};

/// Of containers that are ours: the replica's uid, and the number of the run.
const REPLICA: &str = "setpoint.replica";
const RUN: &str = "setpoint.run";
/// Of which agent: several may share an engine, also such of the same name.
pub(super) const AGENT: &str = "setpoint.agent";
/// For people.
const NODE: &str = "setpoint.node";
const NAME: &str = "setpoint.name";

/// Where a container has the folder of its replica.
const FOLDER: &str = "/setpoint";

/// How long a slice of processor time is, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// What the kernel takes as shares of processor time.
const SHARES: (u64, u64) = (2, 262_144);

/// What a run is called by the engine.
pub fn name(run: &RunId) -> String {
    format!("setpoint-{run}")
}

/// Which run a container is of.
pub fn run(labels: &HashMap<String, String>) -> Option<RunId> {
    RunId::parse(&format!("{}-{}", labels.get(REPLICA)?, labels.get(RUN)?))
}

/// Whether it was made by the agent of this mark.
pub fn is_of(labels: Option<&HashMap<String, String>>, mark: &str) -> bool {
    labels.and_then(|labels| labels.get(AGENT)).is_some_and(|of| of == mark)
}

/// Without a tag the engine would fetch every version there is.
pub fn reference(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// The container of a task.
pub fn body(task: &Task, settings: &DockerSettings) -> ContainerCreateBody {
    let labels = [
        (REPLICA, task.run.replica.to_string()),
        (RUN, task.run.number.to_string()),
        (AGENT, settings.mark.clone()),
        (NODE, settings.node.clone()),
        (NAME, task.name.clone()),
    ];
    let listed = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
    // As for processes: what is relative begins at the replica's folder.
    let within = |folder: &String| Path::new(FOLDER).join(folder).display().to_string();
    ContainerCreateBody {
        image: task.image.clone(),
        entrypoint: listed(&task.command),
        cmd: listed(&task.args),
        env: Some(task.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: task.working_dir.as_ref().map(within),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
        host_config: Some(host(task, settings)),
        ..ContainerCreateBody::default()
    }
}

fn host(task: &Task, settings: &DockerSettings) -> HostConfig {
    let whole = |number: u64| i64::try_from(number).ok();
    let limits = &task.limits;
    let logs = [("max-size", settings.log_bytes.to_string()), ("max-file", settings.log_files.to_string())];
    let ulimit = |name: &str, value: u64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: whole(value),
        hard: whole(value),
    };
    let ulimits = std::iter::once(ulimit("core", 0));
    let ulimits = ulimits.chain(settings.open_files.map(|files| ulimit("nofile", files)));
    HostConfig {
        network_mode: Some("host".to_owned()),
        // Not as `SOURCE:TARGET`: a folder may have a colon in its name.
        mounts: Some(vec![Mount {
            typ: Some(MountType::BIND),
            source: Some(task.folder.display().to_string()),
            target: Some(FOLDER.to_owned()),
            ..Mount::default()
        }]),
        memory: limits.memory_bytes.and_then(whole),
        memory_swap: limits.memory_bytes.and_then(whole),
        // As a quota: as a number of processors the engine refuses more than the host has.
        cpu_period: limits.cpu_milli.and_then(|_| whole(PERIOD_US)),
        cpu_quota: limits.cpu_milli.and_then(|milli| whole((milli * PERIOD_US / 1000).max(1000))),
        cpu_shares: limits
            .cpu_reserved_milli
            .and_then(|milli| whole((milli * 1024 / 1000).clamp(SHARES.0, SHARES.1))),
        pids_limit: limits.pids.and_then(whole),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        ulimits: Some(ulimits.collect()),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(logs.map(|(name, value)| (name.to_owned(), value)).into()),
        }),
        ..HostConfig::default()
    }
}

/// When the engine says that something was; zero if it never was.
pub fn time(text: Option<&String>) -> Timestamp {
    let time = text.and_then(|text| humantime::parse_rfc3339_weak(text).ok());
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or_default())
}

/// Made, and not started.
pub fn was_never_started(state: &ContainerState) -> bool {
    time(state.started_at.as_ref()) == Timestamp(0) && state.running != Some(true)
}

/// How it ended; none while it runs.
pub fn ended(state: &ContainerState) -> Option<Ended> {
    if state.running == Some(true) || state.paused == Some(true) || state.restarting == Some(true) {
        return None;
    }
    let code = state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
    let signal = (code > 128).then(|| code - 128);
    // Also said if it was one of its children, which it may have come to terms with.
    let starved = state.oom_killed == Some(true) && signal.is_some();
    let cause = if starved { Cause::OutOfMemory } else { Cause::Itself };
    let message = state.error.clone().unwrap_or_default();
    let (started, ended) = (time(state.started_at.as_ref()), time(state.finished_at.as_ref()));
    // Of what ends at once, the engine may note the end before the start.
    let started = if ended == Timestamp(0) { started } else { started.min(ended) };
    Some(Ended { code: signal.is_none().then_some(code), signal, cause, message, started, ended })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use setpoint_types::Uid;

    use super::*;
    use crate::runtime::process::cgroup::Limits;

    fn task() -> Task {
        Task {
            run: RunId { replica: Uid::new("uid"), number: 3 },
            name: "default/web-0".to_owned(),
            image: Some("web".to_owned()),
            command: Vec::new(),
            args: vec!["serve".to_owned()],
            env: vec![("A".to_owned(), "b=c".to_owned())],
            working_dir: Some("pages".to_owned()),
            folder: "/state/a:b".into(),
            limits: Limits {
                memory_bytes: Some(64 << 20),
                cpu_milli: Some(64_000),
                cpu_reserved_milli: Some(1),
                pids: Some(9),
            },
            endpoints: Vec::new(),
            fence_grace: None,
        }
    }

    fn settings() -> DockerSettings {
        DockerSettings {
            socket: String::new(),
            node: "n1".to_owned(),
            mark: "0f".to_owned(),
            open_files: None,
            log_bytes: 1024,
            log_files: 2,
            fetch_limit: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_container_has_the_limits_of_its_task_and_is_found_by_its_labels() {
        let body = body(&task(), &settings());
        let labels = body.labels.expect("labels");
        assert_eq!(run(&labels), Some(task().run));
        assert_eq!(labels.get(AGENT).map(String::as_str), Some("0f"));
        assert_eq!((body.entrypoint, body.cmd), (None, Some(vec!["serve".to_owned()])));
        assert_eq!(body.working_dir.as_deref(), Some("/setpoint/pages"));
        let host = body.host_config.expect("a host's part");
        assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
        // More than any machine has, and less than the kernel knows.
        assert_eq!((host.cpu_quota, host.cpu_shares, host.nano_cpus), (Some(6_400_000), Some(2), None));
        assert_eq!(host.pids_limit, Some(9));
        assert_eq!(host.mounts.expect("mounts")[0].source.as_deref(), Some("/state/a:b"));
    }

    #[test]
    fn an_image_without_a_version_is_the_latest_one() {
        for (image, wanted) in [
            ("web", "web:latest"),
            ("here:5000/web", "here:5000/web:latest"),
            ("here:5000/web:2", "here:5000/web:2"),
            ("web@sha256:0f", "web@sha256:0f"),
        ] {
            assert_eq!(reference(image), wanted);
        }
    }

    #[test]
    fn an_end_is_told_by_code_signal_and_cause() {
        let check = |code: i64, oom: bool| {
            let state = ContainerState {
                exit_code: Some(code),
                oom_killed: Some(oom),
                started_at: Some("2026-11-18T10:17:39.770160928Z".to_owned()),
                ..ContainerState::default()
            };
            assert!(!was_never_started(&state));
            let ended = ended(&state).expect("an end");
            (ended.code, ended.signal, ended.cause)
        };
        assert_eq!(check(3, false), (Some(3), None, Cause::Itself));
        assert_eq!(check(137, false), (None, Some(9), Cause::Itself));
        assert_eq!(check(137, true), (None, Some(9), Cause::OutOfMemory));
        // A child of it was killed, and it went on.
        assert_eq!(check(0, true), (Some(0), None, Cause::Itself));
        let running = ContainerState { running: Some(true), ..ContainerState::default() };
        assert_eq!(ended(&running), None);
        let made = ContainerState {
            started_at: Some("0001-01-01T00:00:00Z".to_owned()),
            ..ContainerState::default()
        };
        assert!(was_never_started(&made));
    }

    #[test]
    fn nothing_ends_before_it_began() {
        let state = ContainerState {
            exit_code: Some(0),
            started_at: Some("2026-11-18T10:17:39.772Z".to_owned()),
            finished_at: Some("2026-11-18T10:17:39.770Z".to_owned()),
            ..ContainerState::default()
        };
        let ended = ended(&state).expect("an end");
        assert_eq!(ended.started, ended.ended);
    }
}
