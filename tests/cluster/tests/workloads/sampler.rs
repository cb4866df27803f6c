//! A client that asks every replica of a workload again and again, as it finds them through the API, and counts who answers.

use std::time::Duration;

use futures::future::join_all;
use setpoint_client::{Client, ListOptions};
use setpoint_types::kinds::{Replica, Stage};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::page;

const PAUSE: Duration = Duration::from_millis(50);

pub struct Sampler {
    stop: CancellationToken,
    task: JoinHandle<Seen>,
}

/// What such a client has seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub samples: usize,
    pub answers: usize,
    /// Too few have answered, and again when it asked anew at once: whoever was just going was not asked then.
    pub short: Vec<String>,
}

impl Sampler {
    /// `least` are to answer at any time.
    pub fn start(client: &Client, workload: &str, least: usize) -> Self {
        let stop = CancellationToken::new();
        let (stopped, client, workload) = (stop.clone(), client.clone(), workload.to_owned());
        let task = tokio::spawn(async move {
            let mut seen = Seen::default();
            while !stopped.is_cancelled() {
                seen.samples += 1;
                let (mut answered, mut failed) = sample(&client, &workload).await;
                if answered < least {
                    (answered, failed) = sample(&client, &workload).await;
                }
                seen.answers += answered;
                if answered < least {
                    seen.short.push(format!("sample {}: {answered} answered, {failed:?}", seen.samples));
                }
                tokio::time::sleep(PAUSE).await;
            }
            seen
        });
        Self { stop, task }
    }

    /// Ends it. At no time have too few answered.
    pub async fn never_short(self) {
        self.stop.cancel();
        let seen = self.task.await.expect("no panic");
        eprintln!("{} samples, {} answers", seen.samples, seen.answers);
        assert!(seen.samples > 1 && seen.answers > 0, "nobody was asked: {seen:?}");
        assert!(seen.short.is_empty(), "of {} samples {:#?}", seen.samples, seen.short);
    }
}

/// How many answer, and what became of the others.
async fn sample(client: &Client, workload: &str) -> (usize, Vec<String>) {
    let of = ListOptions { fields: format!("spec.workload={workload}"), ..ListOptions::default() };
    let (replicas, _) = client.api::<Replica>().list_all(&of).await.expect("a list");
    let present = replicas.into_iter().filter(|replica| !replica.metadata.is_terminating());
    let statuses = present.filter_map(|replica| replica.status).filter(|it| it.stage == Stage::Serving);
    let endpoints = statuses.filter_map(|status| status.endpoints.into_iter().next());
    let addresses: Vec<String> = endpoints.map(|it| format!("{}:{}", it.host, it.port)).collect();
    let answers = join_all(addresses.iter().map(|address| page::get(address))).await;
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    (answered, answers.into_iter().filter_map(Result::err).collect())
}
