//! A node with a hundred replicas dies: how long until all of them serve elsewhere.
//!
//! The node's lease has to run out, then the replicas' own grace; both are asked for by whoever runs them. What comes on top of it is
//! what is measured.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use setpoint_api::setpoint::v1 as pb;

use super::figures::{Asked, Figures};
use super::made::{self, SHAPES, Shape};
use super::options::ScaleOptions;
use super::site::Site;
use super::steady::serving;
use super::{ScaleError, fill, single};
use crate::connection::{connection, objects};
use crate::metric::Unit;

const SCENE: &str = "a node dies";
const REPLICAS: u64 = 100;
const LEASE_SECONDS: u32 = 6;
const GRACE_SECONDS: u32 = 4;
/// Nodes that take over.
const OTHERS: u32 = 100;
const POLL: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(120);

pub async fn measure(options: &ScaleOptions, data: &Path, figures: &mut Figures) -> Result<(), ScaleError> {
    let site = Site::start(options, data).await?;
    fill::tenants(&site, single::NAMESPACE).await?;
    let lease = LEASE_SECONDS.to_string();
    let more = ["--lease-ttl-seconds", &lease];
    let mut doomed = site.agents("doomed", SHAPES[2], 1, &more)?;
    doomed.ready("registering a node").await?;
    let mut scheduler = site.scheduler(options)?;
    scheduler.ready("the scheduler's first look").await?;
    // The pace of giving up nodes is for many of them; the look at one is what is measured.
    let file = site.cluster.folder().join("controllers.yaml");
    std::fs::write(&file, "node_monitor:\n  period_seconds: 1\n")?;
    let mut controllers = site.controllers(Some(&file), "all")?;
    controllers.ready("the controllers' first look").await?;
    let workload = format!(
        "{{\"replicas\":{REPLICAS},\"template\":{{\"command\":[\"/bin/serve\"],\
         \"resources\":{{\"cpu\":\"100m\",\"memory\":\"128Mi\"}},\"unknownGraceSeconds\":{GRACE_SECONDS}}}}}"
    );
    let workload = made::object("Workload", single::NAMESPACE, "many", None, workload);
    fill::create(&site, "workload", vec![workload]).await?;
    serving(&site, REPLICAS, &controllers).await?;
    let others = Shape { class: "others", ..SHAPES[2] };
    let mut others = site.agents("others", others, OTHERS, &more)?;
    others.ready("registering nodes").await?;
    eprintln!("scale: a node dies");
    doomed.kill()?;
    let killed = Instant::now();
    let (bound, served) = replaced(&site, killed).await?;
    let grace = f64::from(LEASE_SECONDS + GRACE_SECONDS);
    figures.add(SCENE, "the lease's time and the grace", Unit::Seconds, grace, Asked::Nothing);
    let asked = Asked::AtMost(grace + 2.0);
    figures.add(SCENE, "all replacements bound after", Unit::Seconds, bound.as_secs_f64(), asked);
    figures.add(SCENE, "all replacements serve after", Unit::Seconds, served.as_secs_f64(), Asked::Nothing);
    Ok(())
}

/// How long it takes until all have a node again that lives, and until all serve there.
async fn replaced(site: &Site, killed: Instant) -> Result<(Duration, Duration), ScaleError> {
    let service = connection(site.addresses()[0]);
    let mut bound = None;
    let mut found = (0, 0);
    while killed.elapsed() < LIMIT {
        let request = pb::ListRequest {
            kind: "Replica".to_owned(),
            namespace: single::NAMESPACE.to_owned(),
            ..pb::ListRequest::default()
        };
        let answer = objects(service.clone()).list(request).await;
        let answer = answer.map_err(ScaleError::request("list replicas"))?.into_inner();
        let statuses = answer.objects.iter().map(|it| serde_json::from_slice(&it.status).unwrap_or_default());
        let elsewhere: Vec<Value> = statuses.filter(is_elsewhere).collect();
        found = (elsewhere.len(), elsewhere.iter().filter(|it| it["stage"] == "serving").count());
        if found.0 >= REPLICAS as usize {
            let bound = *bound.get_or_insert_with(|| killed.elapsed());
            if found.1 >= REPLICAS as usize {
                return Ok((bound, killed.elapsed()));
            }
        }
        tokio::time::sleep(POLL).await;
    }
    let log = format!("{} have a node that lives, {} serve", found.0, found.1);
    Err(ScaleError::TooSlow { what: "replacing all replicas", seconds: LIMIT.as_secs(), log })
}

fn is_elsewhere(status: &Value) -> bool {
    status["node"].as_str().is_some_and(|it| it.starts_with("others"))
}
