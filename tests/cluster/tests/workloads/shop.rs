//! What the tests submit, and what is seen of it: workloads of HTTP servers, their replicas, and their answers.

use futures::future::join_all;
use serde_json::Value;
use setpoint_client::{Api, DeleteOptions, ListOptions, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_types::kinds::{
    HttpAction, Node, Port, Probe, Replica, ReplicaTemplate, RestartBackoff, Rollout, Stage, Workload,
    WorkloadSpec, WorkloadStatus,
};
use setpoint_types::quantity::{Amounts, CountOrPercent};

use crate::estate::Estate;
use crate::page::{self, Page};

/// Of one replica.
pub const CPU_MILLI: i64 = 100;

pub fn amounts(cpu_milli: i64, memory: i64) -> Amounts {
    [("cpu".to_owned(), cpu_milli), ("memory".to_owned(), memory)].into_iter().collect()
}

/// What runs `web` with these words, ready when it says so.
pub fn template(words: &[&str]) -> ReplicaTemplate {
    let http = HttpAction { port: "http".into(), path: "/ready".into() };
    ReplicaTemplate {
        command: vec![env!("CARGO_BIN_EXE_web").into()],
        args: words.iter().map(|word| (*word).to_owned()).collect(),
        ports: vec![Port { name: "http".into(), ..Port::default() }],
        resources: amounts(CPU_MILLI, 64 << 20),
        readiness_probe: Some(Probe { http: Some(http), period_seconds: 1, ..Probe::default() }),
        restart_backoff: RestartBackoff { initial_seconds: 1, max_seconds: 60, reset_seconds: 600 },
        termination_grace_seconds: 5,
        unknown_grace_seconds: 2,
        ..ReplicaTemplate::default()
    }
}

/// So many of them; one more may be there, none may be missing.
pub fn workload(name: &str, replicas: u32, template: ReplicaTemplate) -> Typed<Workload> {
    let rollout = Rollout {
        max_surge: CountOrPercent::Count(1),
        max_unavailable: CountOrPercent::Count(0),
        ..Rollout::default()
    };
    Typed::new(name, WorkloadSpec { replicas, template, rollout, ..WorkloadSpec::default() })
}

/// A replica that is said to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub replica: String,
    pub node: String,
    pub address: String,
    pub restarts: u32,
}

impl Estate {
    fn workloads(&self) -> Api<Workload> {
        self.client.api::<Workload>()
    }

    pub async fn submit(&self, workload: &Typed<Workload>) {
        self.workloads().create(workload, &WriteOptions::default()).await.expect("it is taken");
    }

    /// Changes the spec of a workload: what is named in it is replaced.
    pub async fn change(&self, workload: &str, spec: Value) {
        let patch = Patch::Merge(serde_json::json!({ "spec": spec }));
        self.workloads().patch(workload, &patch, &PatchOptions::default()).await.expect("it is taken");
    }

    /// The same of a node.
    pub async fn change_node(&self, node: &str, spec: Value) {
        let patch = Patch::Merge(serde_json::json!({ "spec": spec }));
        let nodes = self.client.api::<Node>();
        nodes.patch(node, &patch, &PatchOptions::default()).await.expect("it is taken");
    }

    pub async fn delete(&self, workload: &str) {
        self.workloads().delete(workload, &DeleteOptions::default()).await.expect("it is taken");
    }

    /// What is known of a workload, of its newest generation.
    pub async fn status(&self, workload: &str) -> Option<WorkloadStatus> {
        let found = self.workloads().get(workload).await.expect("the workload");
        let generation = found.metadata.generation;
        found.status.filter(|status| status.observed_generation == generation)
    }

    /// Waits until the status is such.
    pub async fn status_is(&self, workload: &str, what: &str, holds: impl Fn(&WorkloadStatus) -> bool) {
        let look = async || match self.status(workload).await {
            Some(status) if holds(&status) => Ok(()),
            status => Err((status, self.replicas(workload).await.iter().map(told).collect::<Vec<_>>())),
        };
        self.until(&format!("{workload}: {what}"), look).await;
    }

    pub async fn replicas(&self, workload: &str) -> Vec<Typed<Replica>> {
        let of = ListOptions { fields: format!("spec.workload={workload}"), ..ListOptions::default() };
        self.client.api::<Replica>().list_all(&of).await.expect("a list").0
    }

    /// The replicas that clients may use now.
    pub async fn served(&self, workload: &str) -> Vec<Served> {
        let replicas = self.replicas(workload).await.into_iter();
        replicas.filter(|replica| !replica.metadata.is_terminating()).filter_map(served).collect()
    }

    /// Waits until so many serve, no more are there, each answers as itself, and the answers are such.
    pub async fn answers(
        &self,
        workload: &str,
        count: usize,
        what: &str,
        holds: impl Fn(&[Page]) -> bool,
    ) -> Vec<Page> {
        let look = async || {
            let (all, served) = (self.replicas(workload).await, self.served(workload).await);
            let pages = join_all(served.iter().map(|it| page::get(&it.address))).await;
            let seen = || all.iter().map(told).collect::<Vec<_>>();
            let good: Vec<Page> = pages.iter().flatten().cloned().collect();
            let is_own =
                |(served, page): (&Served, &Page)| served.replica == page.replica && served.node == page.node;
            let are_well = all.len() == count
                && good.len() == count
                && served.iter().zip(&good).all(is_own)
                && holds(&good);
            if are_well { Ok(good) } else { Err((seen(), pages)) }
        };
        self.until(&format!("{workload}: {count} {what}"), look).await
    }
}

fn served(replica: Typed<Replica>) -> Option<Served> {
    let status = replica.status.filter(|status| status.stage == Stage::Serving)?;
    let endpoint = status.endpoints.first()?;
    let address = format!("{}:{}", endpoint.host, endpoint.port);
    Some(Served { replica: replica.metadata.name, node: status.node, address, restarts: status.restarts })
}

/// One line about a replica.
pub fn told(replica: &Typed<Replica>) -> String {
    let status = replica.status.clone().unwrap_or_default();
    let goes = if replica.metadata.is_terminating() { ", going" } else { "" };
    let blocked = status.blocked.map_or(String::new(), |it| format!(", {:?}: {}", it.reason, it.message));
    let exit = status.last_exit.map_or(String::new(), |it| format!(", ended {} {}", it.reason, it.message));
    format!("{} {:?} on {:?}{goes}{blocked}{exit}", replica.metadata.name, status.stage, status.node)
}
