//! Workloads that can never be: each says why in a word and a sentence that help, and then nobody writes any more.

use std::time::Duration;

use setpoint_client::{Typed, WriteOptions};
use setpoint_types::kinds::{
    Artifact, Namespace, NamespaceSpec, PendingReason, Quota, QuotaSpec, Replica, ReplicaTemplate, Workload,
};
use setpoint_types::selector::LabelSelector;

use crate::estate::Estate;
use crate::log::counted;
use crate::shop::{amounts, template, workload};

/// How long nothing may happen.
const QUIET: Duration = Duration::from_secs(8);
/// The crashing one has failed so often before: by then the wait for the next start is as long as that.
const RESTARTS: u32 = 3;
/// Writes of one object in that time: two starts, of which each is told as a start, as serving, and as an end.
const WRITES_MAX: usize = 6;

struct Case {
    name: &'static str,
    template: ReplicaTemplate,
    reason: PendingReason,
    /// Words of what people are told.
    says: &'static str,
}

fn cases() -> Vec<Case> {
    let case = |name, reason, says, change: &dyn Fn(&mut ReplicaTemplate)| {
        let mut template = template(&[]);
        change(&mut template);
        Case { name, template, reason, says }
    };
    vec![
        case("unlabelled", PendingReason::NoEligibleNode, "disk=floppy", &|template| {
            template.placement.node_selector = "disk=floppy".parse::<LabelSelector>().expect("a selector");
        }),
        case("giant", PendingReason::NoEligibleNode, "cpu", &|template| {
            template.resources = amounts(64_000, 64 << 20);
        }),
        case("unfetched", PendingReason::Image, "/no/such/file", &|template| {
            template.artifacts = vec![Artifact {
                source: "/no/such/file".into(),
                sha256: "0".repeat(64),
                target: "tool".into(),
                executable: true,
            }];
        }),
        case("crashing", PendingReason::Crashing, "status 1", &|template| {
            template.args = vec!["--exits-after".into(), "50".into()];
            template.readiness_probe = None;
        }),
        case("unready", PendingReason::NotReady, "503", &|template| {
            template.args = vec!["--never-ready".into()];
        }),
    ]
}

impl Estate {
    async fn waits_for(&self, workload: &str, reason: PendingReason, says: &str) {
        let what = format!("waits for {reason:?}, and says {says:?}");
        self.status_is(workload, &what, |status| {
            let mut reasons = status.pending_reasons.iter();
            reasons.any(|it| it.reason == reason && it.count == 1 && it.message.contains(says))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_run_says_why_and_is_quiet() {
    let mut estate = Estate::start("what_can_never_run").await;
    for case in cases() {
        estate.submit(&workload(case.name, 1, case.template)).await;
    }
    // A namespace that may have nothing.
    let options = WriteOptions::default();
    let poor = Typed::<Namespace>::new("poor", NamespaceSpec::default());
    estate.client.api::<Namespace>().create(&poor, &options).await.expect("a namespace");
    let nothing = QuotaSpec { limits: amounts(0, 1 << 30), zones: Vec::new() };
    let quotas = estate.client.api::<Quota>().namespace("poor");
    quotas.create(&Typed::new("none", nothing), &options).await.expect("a quota");
    let workloads = estate.client.api::<Workload>().namespace("poor");
    workloads.create(&workload("broke", 1, template(&[])), &options).await.expect("a workload");

    for case in cases() {
        estate.waits_for(case.name, case.reason, case.says).await;
    }
    let home = estate.client.clone();
    estate.client = home.with_namespace("poor");
    estate.waits_for("broke", PendingReason::Quota, "cpu").await;
    estate.client = home;

    let look = async || {
        let restarts = |replica: &Typed<Replica>| replica.status.as_ref().map_or(0, |status| status.restarts);
        let most = estate.replicas("crashing").await.iter().map(restarts).max().unwrap_or(0);
        if most >= RESTARTS { Ok(()) } else { Err(most) }
    };
    estate.until("the crashing one was started several times", look).await;
    let begin = estate.revision().await;
    tokio::time::sleep(QUIET).await;
    let written = counted(&estate.written(begin + 1).await);
    eprintln!("in {QUIET:?}: {written:#?}");
    let hot: Vec<_> = written.iter().filter(|(_, writes)| **writes > WRITES_MAX).collect();
    assert!(hot.is_empty(), "in {QUIET:?} these were written so often: {hot:#?}");
    let still = written.keys().filter(|key| !key.contains("crashing") && !key.contains("/Event/"));
    let still: Vec<_> = still.filter(|key| !key.contains("/Decision/")).collect();
    assert!(still.is_empty(), "nothing is new of these: {still:#?}");

    for case in cases() {
        estate.delete(case.name).await;
    }
    workloads.delete("broke", &Default::default()).await.expect("it is taken");
    estate.nothing_is_left().await;
    estate.check();
}
