//! Everything that can be set: flags and environment, and a file for the knobs of the controllers. Checked once, every problem named.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde::Deserialize;
use setpoint_runtime::informer::InformerSettings;
use setpoint_runtime::recorder::RecorderSettings;
use setpoint_runtime::{ControllerSettings, election};

use crate::autoscaler::settings::AutoscalerSettings;
use crate::garbage_collector::GarbageSettings;
use crate::node_monitor::settings::NodeMonitorSettings;
use crate::policy_rollout::settings::PolicyRolloutSettings;
use crate::quota::settings::QuotaSettings;
use crate::registry::{self, Entry};
use crate::reservations::settings::ReservationsSettings;

/// The controllers of a Setpoint cluster. Several of these programs share the work and stand by for each other.
#[derive(Debug, Parser)]
#[command(name = "setpoint-controllers", version)]
pub struct Arguments {
    /// Which controllers run: `all`, names joined by commas, or names to leave out (`-garbage-collector`)
    #[arg(
        long,
        env = "SETPOINT_CONTROLLERS",
        value_name = "NAMES",
        default_value = "all",
        allow_hyphen_values = true
    )]
    pub controllers: String,
    /// A YAML file with the knobs of the controllers
    #[arg(long, env = "SETPOINT_CONTROLLERS_FILE", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The context of the client's config file (SETPOINT_CONFIG) [default: its current one]
    #[arg(long, env = "SETPOINT_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Address for metrics and health checks (HTTP)
    #[arg(long, env = "SETPOINT_LISTEN_HTTP", value_name = "HOST:PORT", default_value = "127.0.0.1:7412")]
    pub listen_http: SocketAddr,
    /// What is logged: a level, or rules as in `setpoint_runtime=debug,info`
    #[arg(long, env = "SETPOINT_LOG", value_name = "RULES", default_value = "info")]
    pub log: String,
    /// Log lines as JSON
    #[arg(long, env = "SETPOINT_LOG_JSON")]
    pub log_json: bool,
}

/// What the file may say. Everything is optional; unknown names are refused.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Time to live and renewal of the leases; how many there are is each controller's to say.
    pub leases: election::Settings,
    /// Events and decisions.
    pub recorder: RecorderSettings,
    /// How caches are kept.
    pub informers: InformerSettings,
    /// The loop of each controller, by its name: concurrency, shards, queue, resync. Left out: the controller's own.
    pub loops: BTreeMap<String, ControllerSettings>,
    /// Nodes that are not heard, taints and drains.
    pub node_monitor: NodeMonitorSettings,
    /// What quotas show.
    pub quota: QuotaSettings,
    /// How often leaked reservations are looked for.
    pub reservations: ReservationsSettings,
    /// How often autoscalers look.
    pub autoscaler: AutoscalerSettings,
    /// How often gates of placement policies are looked at.
    pub policy_rollout: PolicyRolloutSettings,
    /// How often it looks, and how long records are kept.
    pub garbage_collector: GarbageSettings,
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("--controllers names {name}: there is none of that name, but {known}")]
    Controller { name: String, known: String },
    #[error("--controllers names some to run and some to leave out: say either")]
    Mixed,
    #[error("--controllers leaves none to run")]
    None,
    #[error("cannot read {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not as it should be: {problem}")]
    Content { path: String, problem: String },
    #[error("{path}: `loops` names {name}: there is no such controller, but {known}")]
    Loop { path: String, name: String, known: String },
}

impl Settings {
    /// The file, or what holds without one.
    pub fn read(file: Option<&Path>) -> Result<Self, SettingsError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::File { path: shown.clone(), source })?;
        let settings: Self = serde_saphyr::from_str(&text)
            .map_err(|error| SettingsError::Content { path: shown.clone(), problem: error.to_string() })?;
        match settings.loops.keys().find(|name| registry::find(name).is_none()) {
            Some(name) => Err(SettingsError::Loop { path: shown, name: name.clone(), known: known() }),
            None => Ok(settings),
        }
    }
}

/// The controllers that `--controllers` asks for, in the order of the registry.
pub fn choose(text: &str) -> Result<Vec<&'static Entry>, SettingsError> {
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let (left_out, named): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.starts_with('-'));
    let left_out: Vec<&str> = left_out.iter().map(|name| name.trim_start_matches('-')).collect();
    let unknown =
        named.iter().chain(&left_out).find(|name| **name != "all" && registry::find(name).is_none());
    if let Some(name) = unknown {
        return Err(SettingsError::Controller { name: (*name).to_owned(), known: known() });
    }
    let everything = named.is_empty() || named.contains(&"all");
    if !everything && !left_out.is_empty() {
        return Err(SettingsError::Mixed);
    }
    let is_chosen =
        |entry: &&Entry| (everything || named.contains(&entry.name)) && !left_out.contains(&entry.name);
    let chosen: Vec<&Entry> = registry::CONTROLLERS.iter().filter(is_chosen).collect();
    if chosen.is_empty() { Err(SettingsError::None) } else { Ok(chosen) }
}

fn known() -> String {
    registry::CONTROLLERS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<&'static str>, String> {
        let chosen = choose(text).map_err(|error| error.to_string())?;
        Ok(chosen.iter().map(|entry| entry.name).collect())
    }

    #[test]
    fn controllers_are_chosen_by_name_or_left_out() {
        let all: Vec<&str> = registry::CONTROLLERS.iter().map(|entry| entry.name).collect();
        assert_eq!(names("all"), Ok(all.clone()));
        assert_eq!(names("replica, workload"), Ok(vec!["workload", "replica"]));
        let rest: Vec<&str> = all.iter().copied().filter(|name| *name != "batch").collect();
        assert_eq!(names("-batch"), Ok(rest.clone()));
        assert_eq!(names("all,-batch"), Ok(rest));
        assert!(names("nobody").is_err_and(|error| error.contains("nobody") && error.contains("workload")));
        assert!(names("workload,-batch").is_err());
        let none: Vec<String> = all.iter().map(|name| format!("-{name}")).collect();
        assert!(names(&none.join(",")).is_err());
    }

    #[test]
    fn a_file_may_leave_everything_out_and_may_not_invent_names() {
        let read = |text: &str| serde_saphyr::from_str::<Settings>(text).map_err(|error| error.to_string());
        assert_eq!(read("loops: {}"), Ok(Settings::default()));
        let kept = read("garbage_collector: {events: {age_seconds: 60, count_max: 5}}").expect("some of it");
        assert_eq!(kept.garbage_collector.events.count_max, 5);
        assert!(read("gc: {}").is_err());
    }
}
