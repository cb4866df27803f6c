//! Agents that end and come back while their replicas run, and hosts that are cut off from the store.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_client::ListOptions;
use setpoint_cluster_tests::metrics::Scrape;
use setpoint_types::kinds::{Binding, BindingState, OnDisconnect};

use crate::estate::Estate;
use crate::page::{self, Page};
use crate::shop::{template, workload};

/// By the name of the replica.
fn pids(pages: &[Page]) -> BTreeMap<String, u64> {
    pages.iter().map(|page| (page.replica.clone(), page.pid)).collect()
}

impl Estate {
    /// Kills an agent, or tells it to end, and starts it again. It takes up what it finds, each once.
    async fn restart_agent(&mut self, name: &str, kindly: bool) {
        let host = self.host(name);
        let running = host.processes();
        match kindly {
            true => host.agent.stop().await,
            false => host.agent.kill(),
        }
        host.agent.start();
        host.agent.ready().await;
        let scrape = Scrape::of(&host.agent.http).await.expect("metrics");
        // A shim and its process are two.
        let adopted = scrape.get("setpoint_agent_adopted_total").expect("the series");
        assert_eq!(adopted as usize * 2, running.len(), "{name}");
        assert_eq!(scrape.get("setpoint_agent_starts_total"), Some(0.0), "{name}");
        assert_eq!(host.processes(), running, "{name}");
    }

    /// Those bindings of a workload that are not released, by replica, with their nodes.
    async fn held(&self, workload: &str) -> BTreeMap<String, String> {
        let (bindings, _) =
            self.client.api::<Binding>().list_all(&ListOptions::default()).await.expect("bindings");
        let is_held = |state| state != BindingState::Released;
        let held = bindings.into_iter().filter(|binding| {
            binding.spec.replica.starts_with(workload)
                && is_held(binding.status.as_ref().map(|it| it.state).unwrap_or_default())
        });
        held.map(|binding| (binding.spec.replica, binding.spec.node)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_outlive_their_agent_and_an_exclusive_one_ends_before_it_is_given_away() {
    let mut estate = Estate::start("replicas_outlive").await;
    let lock = estate.bed.cluster.root().join("alone");
    let mut exclusive = template(&["--alone", &lock.display().to_string()]);
    exclusive.on_disconnect = OnDisconnect::Exclusive;
    exclusive.termination_grace_seconds = 1;
    estate.submit(&workload("only", 1, exclusive)).await;
    estate.submit(&workload("web", 3, template(&["--version", "one"]))).await;
    let only = estate.answers("only", 1, "answers", |_| true).await.remove(0);
    let web = estate.answers("web", 3, "answer", |_| true).await;

    // Agents come and go, and nobody who is served notices.
    for (name, kindly) in [("a1", false), ("a2", true), ("a3", false)] {
        estate.restart_agent(name, kindly).await;
    }
    let after = estate.answers("web", 3, "answer as before", |pages| pids(pages) == pids(&web)).await;
    assert_eq!(estate.answers("only", 1, "answers", |_| true).await, std::slice::from_ref(&only));
    for workload in ["web", "only"] {
        let restarts: Vec<u32> = estate.served(workload).await.iter().map(|it| it.restarts).collect();
        assert!(restarts.iter().all(|restarts| *restarts == 0), "{workload}: {restarts:?}");
    }

    // The host of the exclusive one is cut off. Its process ends first, and only then is its node given away.
    let address = estate.served("only").await[0].address.clone();
    let kept: Vec<String> = served_on(&estate, &after, &only.node).await;
    estate.host(&only.node).cut();
    let look = async || {
        let is_held = estate.held("only").await.contains_key(&only.replica);
        // Looked at after the binding: so if it was given away, the process had to be gone before.
        let answers = page::get(&address).await.is_ok();
        assert!(is_held || !answers, "it was given away while it ran");
        if is_held { Err("its binding is held") } else { Ok(()) }
    };
    estate.until("the exclusive one is given away", look).await;
    let elsewhere = |pages: &[Page]| pages.iter().all(|page| page.node != only.node);
    estate.answers("only", 1, "answers elsewhere", elsewhere).await;
    estate.answers("web", 3, "answer elsewhere", elsewhere).await;
    for address in &kept {
        assert!(page::get(address).await.is_ok(), "what may go on has ended: {address}");
    }

    // Back again, the host stops whom nobody wants there any more.
    estate.host(&only.node).mend();
    let look = async || {
        let host = estate.hosts.iter().find(|host| host.name == only.node).expect("the host");
        if host.processes().is_empty() { Ok(()) } else { Err(host.processes()) }
    };
    estate.until("strangers are stopped", look).await;
    estate.answers("web", 3, "answer elsewhere", elsewhere).await;
    estate.answers("only", 1, "answers elsewhere", elsewhere).await;
    let twice = lock.with_extension("twice");
    assert!(!twice.exists(), "two of them ran at once: {:?}", std::fs::read_to_string(twice));
    for workload in ["web", "only"] {
        estate.delete(workload).await;
    }
    estate.nothing_is_left().await;
    estate.check();
}

/// Where those of these pages answer that are on a node.
async fn served_on(estate: &Estate, pages: &[Page], node: &str) -> Vec<String> {
    let there: BTreeSet<&str> =
        pages.iter().filter(|page| page.node == node).map(|page| page.replica.as_str()).collect();
    let served = estate.served("web").await.into_iter();
    served.filter(|it| there.contains(it.replica.as_str())).map(|it| it.address).collect()
}
