//! Hosts are lost, come back and are drained, while whoever has to mend it is killed, too.

use serde_json::json;
use setpoint_client::{DeleteOptions, Typed, WriteOptions};
use setpoint_types::kinds::{Namespace, NamespaceSpec, Node};
use setpoint_types::object::{ConditionStatus, find_condition};
use setpoint_types::quantity::CountOrPercent;

use crate::estate::Estate;
use crate::log::Bounds;
use crate::page::Page;
use crate::program::Program;
use crate::sampler::Sampler;
use crate::shop::{template, workload};

const NAMESPACE: &str = "shop";

fn none_on(node: &str) -> impl Fn(&[Page]) -> bool {
    move |pages| pages.iter().all(|page| page.node != node)
}

impl Estate {
    /// Everything from here on is about another namespace.
    async fn with_namespace(mut self, name: &str) -> Self {
        let namespace = Typed::<Namespace>::new(name, NamespaceSpec::default());
        self.client.api::<Namespace>().create(&namespace, &WriteOptions::default()).await.expect("made");
        self.client = self.client.with_namespace(name);
        self
    }

    async fn is_repaired(&self, workload: &str) {
        self.status_is(workload, "repaired", |status| {
            let repaired = find_condition(&status.conditions, "Repaired");
            repaired.is_some_and(|it| it.status == ConditionStatus::True) && status.replicas.unknown == 0
        })
        .await;
    }

    async fn node_says(&self, node: &str, condition: &str, reasons: &[&str]) {
        let look = async || {
            let node = self.client.api::<Node>().get(node).await.expect("the node");
            let conditions = node.status.map(|status| status.conditions).unwrap_or_default();
            let says =
                find_condition(&conditions, condition).is_some_and(|it| reasons.contains(&&*it.reason));
            if says { Ok(()) } else { Err((node.spec, conditions)) }
        };
        self.until(&format!("{node}: {condition} is {reasons:?}"), look).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_dies_is_made_good_though_leader_scheduler_and_controllers_die_with_it() {
    let mut estate = Estate::start("a_host_that_dies").await.with_namespace(NAMESPACE).await;
    let mut web = workload("web", 3, template(&["--version", "one", "--lingers", "1000"]));
    web.spec.rollout.max_unavailable = CountOrPercent::Count(1);
    estate.submit(&web).await;
    let pages = estate.answers("web", 3, "answer", |_| true).await;
    let lost = pages[0].node.clone();

    // One of the schedulers and of the controllers, and whoever leads the store, go with the host.
    let (leader, _) = estate.bed.leader().await;
    estate.host(&lost).kill();
    estate.schedulers[0].kill();
    estate.controllers[0].kill();
    estate.bed.kill(leader);
    estate.node_says(&lost, "Lost", &["Confirmed"]).await;
    estate.bed.restart(leader).await;
    estate.answers("web", 3, "answer elsewhere", none_on(&lost)).await;
    estate.is_repaired("web").await;

    // The host comes back: what it has written down of before is over, and is not begun again for long.
    estate.host(&lost).agent.start();
    estate.host(&lost).agent.ready().await;
    estate.node_says(&lost, "Reachable", &["LeaseHeld"]).await;
    let look = async || {
        let host = estate.hosts.iter().find(|host| host.name == lost).expect("the host");
        if host.processes().is_empty() { Ok(()) } else { Err(host.processes()) }
    };
    estate.until("strangers are stopped", look).await;
    let pages = estate.answers("web", 3, "answer elsewhere", none_on(&lost)).await;

    // Half-way through a drain the other ones go.
    estate.schedulers[0].start();
    estate.controllers[0].start();
    estate.schedulers[0].ready().await;
    estate.controllers[0].ready().await;
    let drained = pages[0].node.clone();
    let begin = estate.revision().await;
    let sampler = Sampler::start(&estate.client, "web", 2);
    estate.change_node(&drained, json!({ "unschedulable": true, "drain": true })).await;
    estate.node_says(&drained, "Drained", &["Draining", "Blocked"]).await;
    estate.schedulers[1].kill();
    estate.controllers[1].kill();
    estate.node_says(&drained, "Drained", &["Empty"]).await;
    estate.answers("web", 3, "answer elsewhere", none_on(&drained)).await;
    sampler.never_short().await;
    estate.within("web", begin, Bounds { least: 2, most: 4 }).await;
    estate.change_node(&drained, json!({ "unschedulable": false, "drain": false })).await;

    // All of the namespace goes.
    let namespaces = estate.client.api::<Namespace>();
    namespaces.delete(NAMESPACE, &DeleteOptions::default()).await.expect("it is taken");
    let look = async || match namespaces.find(NAMESPACE).await.expect("an answer") {
        None => Ok(()),
        Some(namespace) => Err(namespace),
    };
    estate.until("the namespace is gone", look).await;
    estate.nothing_is_left().await;
    estate.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_goes_on_within_its_limits_though_whoever_drives_it_is_killed_half_way() {
    let mut estate = Estate::start("a_rollout_goes_on").await;
    let old = template(&["--version", "one", "--lingers", "1000"]);
    estate.submit(&workload("web", 4, old)).await;
    estate.answers("web", 4, "answer", |_| true).await;
    let begin = estate.revision().await;
    let sampler = Sampler::start(&estate.client, "web", 4);
    let new = ["--version", "two", "--lingers", "1000", "--starts-after", "500"];
    estate.change("web", json!({ "template": { "args": new } })).await;
    let is_half_way = |updated| (1..4).contains(&updated);
    estate.status_is("web", "half-way", |status| is_half_way(status.replicas.updated)).await;
    // Those who have the lease of the workload controller, a scheduler, and the store's leader.
    let drives = |program: &&mut Program| program.says("shard gained controller=\"workload\"");
    estate.controllers.iter_mut().find(drives).expect("somebody drives it").kill();
    estate.schedulers[0].kill();
    let (leader, _) = estate.bed.leader().await;
    estate.bed.kill(leader);
    estate.bed.restart(leader).await;
    let is_new = |page: &Page| page.version == "two";
    estate.answers("web", 4, "answer in version two", |pages| pages.iter().all(is_new)).await;
    sampler.never_short().await;
    estate.within("web", begin, Bounds { least: 4, most: 5 }).await;
    estate.delete("web").await;
    estate.nothing_is_left().await;
    estate.check();
}
