//! Many binds in large requests, for a profiler: what a bind costs without log and network.
//!
//! `cargo test --config 'profile.dev.opt-level=3' -p setpoint-apiserver --test placement -- --ignored many_binds`

use std::time::Instant;

use serde_json::json;
use setpoint_api::setpoint::v1 as pb;
use tokio::runtime::Builder;

use crate::world::{Host, World};

const NODES: usize = 100;
const REPLICAS: usize = 10_000;
const BATCH: usize = 500;
const ZONES: [&str; 3] = ["a", "b", "c"];

const DECISION: &str = r#"{"object":{"kind":"","name":""},"action":"Place","component":"scheduler","attempt":1,
"search":{"nodes":100,"evaluated":100,"feasible":80},"filters":[{"filter":"Resources","detail":"cpu","nodes":20}],
"scores":[{"node":"n1","total":180,"terms":{"balance":90,"spread":90}},{"node":"n2","total":150,"terms":{"balance":80}}],
"verdict":{"outcome":"Accepted","message":""}}"#;

#[test]
#[ignore = "it measures, and says nothing about what is right"]
fn many_binds() {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = World::new();
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let zone = ZONES[number % ZONES.len()];
            let name = format!("n{number}");
            world.register(&Host::new(&name, zone, 1_000)).await.expect("it registers");
            nodes.push((world.bind_of("none", &name).await, zone));
        }
        let limits =
            json!({"limits": {"cpu": 1_000_000}, "zones": [{"zone": "a", "limits": {"cpu": 1_000_000}}]});
        world.create("Quota", "q", &[], limits).await.expect("a quota");
        let mut groups = Vec::new();
        for number in 0..REPLICAS {
            let name = format!("r{number}");
            let spread =
                if number % 10 < 3 { json!([{"topologyKey": "zone", "maxSkew": 2}]) } else { json!([]) };
            let workload = format!("w{}", number % 100);
            world
                .replica(&name, &workload, 1, json!({"placement": {"spread": spread}}))
                .await
                .expect("a replica");
            // In turn, so that those of one workload are even.
            let (of_node, zone) = &nodes[(number / 100 + number) % NODES];
            let mut bind = world.bind_of(&name, "none").await;
            bind.node.clone_from(&of_node.node);
            bind.node_uid.clone_from(&of_node.node_uid);
            bind.node_epoch = of_node.node_epoch;
            bind.decision = DECISION.into();
            let domains = ZONES.map(str::to_owned).to_vec();
            let (topology_key, domain) = ("zone".to_owned(), (*zone).to_owned());
            bind.spread.push(pb::SpreadSeen { topology_key, domain, max_skew: 2, domains });
            let (operation, binds) = (name, vec![bind]);
            groups.push(pb::BindGroup { operation, binds, observed: [("Node".to_owned(), 9)].into() });
        }
        let began = Instant::now();
        let mut bound = 0;
        for batch in groups.chunks(BATCH) {
            let results = world.bind(batch.to_vec(), None).await.expect("a good request");
            bound += results
                .iter()
                .filter(|it| matches!(it.result, Some(pb::bind_result::Result::Bound(_))))
                .count();
        }
        let took = began.elapsed();
        println!("{bound} of {REPLICAS} binds in {took:?}, {:?} each", took / REPLICAS as u32);
        assert_eq!(bound, REPLICAS);
    });
}
