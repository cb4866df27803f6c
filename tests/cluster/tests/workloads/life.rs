//! The life of a workload, from its submission to its deletion.

use std::collections::BTreeSet;

use serde_json::json;
use setpoint_client::{Typed, WriteOptions};
use setpoint_types::kinds::{Quota, QuotaSpec, RolloutPhase, Spread};

use crate::estate::Estate;
use crate::log::Bounds;
use crate::page::Page;
use crate::sampler::Sampler;
use crate::shop::{CPU_MILLI, amounts, template, workload};

fn all_are(version: &str) -> impl Fn(&[Page]) -> bool {
    move |pages| pages.iter().all(|page| page.version == version)
}

impl Estate {
    async fn quota_shows(&self, cpu_milli: i64) {
        let look = async || {
            let quota = self.client.api::<Quota>().get("all").await.expect("the quota");
            let used = quota.status.map(|status| status.used).unwrap_or_default();
            if used.get("cpu").unwrap_or(0) == cpu_milli { Ok(()) } else { Err(used) }
        };
        self.until("the quota shows what is used", look).await;
    }

    async fn is_complete(&self, workload: &str) {
        let complete = |phase| phase == RolloutPhase::Complete;
        self.status_is(workload, "complete", |status| complete(status.rollout.phase)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_is_served_scaled_rolled_rolled_back_and_leaves_nothing() {
    let mut estate = Estate::start("a_workload_is_served").await;
    let quota = Typed::<Quota>::new("all", QuotaSpec { limits: amounts(4_000, 2 << 30), zones: Vec::new() });
    estate.client.api::<Quota>().create(&quota, &WriteOptions::default()).await.expect("a quota");
    // Whoever is told to end serves a little longer: clients find out that it goes by asking.
    let mut template = template(&["--version", "one", "--lingers", "1000"]);
    template.placement.spread =
        vec![Spread { topology_key: "zone".into(), max_skew: 1, ..Spread::default() }];
    let mut web = workload("web", 4, template);
    web.spec.rollout.progress_deadline_seconds = 8;
    estate.submit(&web).await;
    let pages = estate.answers("web", 4, "answer", all_are("one")).await;
    let nodes: BTreeSet<&str> = pages.iter().map(|page| page.node.as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["a1", "a2", "a3"]), "they are spread over all zones");
    estate.is_complete("web").await;
    estate.quota_shows(4 * CPU_MILLI).await;

    estate.change("web", json!({ "replicas": 6 })).await;
    let more = estate.answers("web", 6, "answer", all_are("one")).await;
    assert!(pages.iter().all(|page| more.contains(page)), "those that were there stay");
    estate.change("web", json!({ "replicas": 3 })).await;
    let fewer = estate.answers("web", 3, "answer", all_are("one")).await;
    assert!(fewer.iter().all(|page| more.contains(page)), "those that are left stay");
    estate.quota_shows(3 * CPU_MILLI).await;

    // A good version: one at a time, and never fewer than three.
    let begin = estate.revision().await;
    let sampler = Sampler::start(&estate.client, "web", 3);
    estate.change("web", json!({ "template": { "args": ["--version", "two", "--lingers", "1000"] } })).await;
    estate.answers("web", 3, "answer in version two", all_are("two")).await;
    estate.is_complete("web").await;

    // One that never gets ready is given up, and version two stays.
    estate.change("web", json!({ "template": { "args": ["--version", "three", "--never-ready"] } })).await;
    let is_back = |phase| phase == RolloutPhase::RolledBack;
    estate.status_is("web", "rolled back", |status| is_back(status.rollout.phase)).await;
    estate.answers("web", 3, "answer in version two", all_are("two")).await;
    let status = estate.status("web").await.expect("a status");
    assert_eq!((status.rollout.failed_revision, status.rollout.stable_revision), (3, 2), "{status:?}");
    assert!(!status.rollout.message.is_empty(), "it says why: {:?}", status.rollout);
    sampler.never_short().await;
    estate.within("web", begin, Bounds { least: 3, most: 4 }).await;

    estate.delete("web").await;
    estate.nothing_is_remembered().await;
    estate.quota_shows(0).await;
    estate.check();
}
