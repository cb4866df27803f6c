//! One replica at a time in a cluster where nothing else happens: how long from pending to bound.
//!
//! Both moments are those at which one watch shows them, so that its own delay is in neither. From sending the create is told, too: that
//! has the create's own commit in it.

use std::time::{Duration, Instant};

use setpoint_api::setpoint::v1 as pb;
use tonic::Streaming;

use super::figures::{Asked, Figures};
use super::options::ScaleOptions;
use super::site::Site;
use super::{ScaleError, fill, made};
use crate::connection::{connection, objects};
use crate::measure::histogram::{Distribution, Histogram};
use crate::metric::Unit;

pub const NAMESPACE: &str = "single";
/// Between two replicas, so that each meets a cluster that has done with the one before.
const PAUSE: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(20);

pub async fn measure(site: &Site, options: &ScaleOptions, figures: &mut Figures) -> Result<(), ScaleError> {
    let service = connection(site.addresses()[0]);
    let watch = pb::WatchRequest {
        kind: "Replica".to_owned(),
        namespace: NAMESPACE.to_owned(),
        ..pb::WatchRequest::default()
    };
    let opened = objects(service.clone()).watch(watch).await;
    let mut events = opened.map_err(ScaleError::request("watch replicas"))?.into_inner();
    let (pending, sent) = (Histogram::new(), Histogram::new());
    // The first ones open connections and fill caches.
    let warm_up = options.singles / 10;
    for number in 0..warm_up + options.singles {
        let name = format!("single-{number}");
        let begun = Instant::now();
        let create =
            pb::CreateRequest { object: Some(made::small(NAMESPACE, &name)), options: Some(fill::options()) };
        let mut client = objects(service.clone());
        let created = tokio::spawn(async move { client.create(create).await.map(drop) });
        let seen = tokio::time::timeout(LIMIT, follow(&mut events, &name)).await;
        let late = || ScaleError::TooSlow { what: "a bind", seconds: LIMIT.as_secs(), log: String::new() };
        let (added, bound) = seen.map_err(|_| late())??;
        created.await?.map_err(ScaleError::request("create a replica"))?;
        if number >= warm_up {
            pending.record(bound - added);
            sent.record(bound - begun);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let asked = if options.servers == 1 { Asked::AtMost(0.020) } else { Asked::Nothing };
    show(figures, "pending to bound", &pending.distribution(), asked);
    show(figures, "create sent to bound", &sent.distribution(), Asked::Nothing);
    Ok(())
}

fn show(figures: &mut Figures, what: &str, found: &Distribution, asked: Asked) {
    for (percent, asked) in [(50.0, Asked::Nothing), (99.0, asked)] {
        if let Some(duration) = found.percentile(percent) {
            let name = format!("{what}, p{percent}");
            figures.add("one pending replica", name, Unit::Seconds, duration.as_secs_f64(), asked);
        }
    }
}

/// When a replica was first seen, and when it was first seen with a node.
async fn follow(
    events: &mut Streaming<pb::WatchResponse>,
    name: &str,
) -> Result<(Instant, Instant), ScaleError> {
    let mut added = None;
    loop {
        let answer = events.message().await.map_err(ScaleError::request("watch replicas"))?;
        let now = Instant::now();
        let Some(answer) = answer else {
            return Err(ScaleError::request("watch replicas")(tonic::Status::unavailable("the watch ended")));
        };
        for object in answer.events.into_iter().filter_map(|event| event.object) {
            if object.metadata.as_ref().is_none_or(|it| it.name != name) {
                continue;
            }
            let added = *added.get_or_insert(now);
            if has_node(&object.status) {
                return Ok((added, now));
            }
        }
    }
}

fn has_node(status: &[u8]) -> bool {
    let status: serde_json::Value = serde_json::from_slice(status).unwrap_or_default();
    status["node"].as_str().is_some_and(|it| !it.is_empty())
}
