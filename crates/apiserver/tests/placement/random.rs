//! Whatever several callers do at the same time, with what they saw long ago: P1 to P5 hold at every revision.

use futures::future::join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use setpoint_api::setpoint::v1 as pb;
use tokio::runtime::Builder;

use crate::check::{ZONES, check};
use crate::world::{Host, World};

const CALLERS: usize = 3;
const REPLICAS: usize = 6;
const HOSTS: [(&str, &str); 3] = [("a1", "a"), ("a2", "a"), ("b1", "b")];

#[derive(Clone, Debug)]
enum Step {
    /// A caller looks, and decides on so many replicas together.
    Choose {
        caller: usize,
        replica: usize,
        host: usize,
        gang: usize,
    },
    /// All callers send what they have decided, at the same time, and stay with it.
    Send,
    Create(usize),
    Delete(usize),
    Stopped(usize),
    Ask(usize),
    Release(usize),
    /// What a node has from now on; its agent takes the lease if it does not have it.
    Host {
        host: usize,
        cpu: u64,
        boot: u8,
        unschedulable: bool,
    },
    Quota {
        name: u8,
        cpu: Option<u64>,
    },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (replica, host) = (0..REPLICAS, 0..HOSTS.len());
    prop_oneof![
        8 => (0..CALLERS, replica.clone(), host.clone(), prop_oneof![3 => Just(1usize), 1 => 2usize..4])
            .prop_map(|(caller, replica, host, gang)| Step::Choose { caller, replica, host, gang }),
        8 => Just(Step::Send),
        3 => replica.clone().prop_map(Step::Create),
        1 => replica.clone().prop_map(Step::Delete),
        2 => replica.clone().prop_map(Step::Stopped),
        1 => replica.clone().prop_map(Step::Ask),
        4 => replica.prop_map(Step::Release),
        2 => (host, 0..6u64, 0..2u8, prop::bool::weighted(0.2))
            .prop_map(|(host, cpu, boot, unschedulable)| Step::Host { host, cpu, boot, unschedulable }),
        1 => (0..2u8, prop::option::of(1..6u64)).prop_map(|(name, cpu)| Step::Quota { name, cpu }),
        1 => (1_000..20_000u64).prop_map(Step::Pass),
    ]
}

/// The replicas of one workload, half of them spread over zones and as many to be stopped by their agents.
async fn create(world: &World, replica: usize) {
    let spread = if replica.is_multiple_of(2) { json!([{"topologyKey": "zone"}]) } else { json!([]) };
    let disconnect = if replica.is_multiple_of(3) { "exclusive" } else { "keep" };
    let ports = if replica % 3 == 1 { json!([{"name": "http", "port": 80}]) } else { json!([]) };
    let template = json!({
        "placement": {"spread": spread}, "ports": ports, "onDisconnect": disconnect, "terminationGraceSeconds": 1,
    });
    drop(world.replica(&format!("r{replica}"), "web", 1 + replica as u64 % 2, template).await);
}

async fn choose(world: &World, replica: usize, host: usize, gang: usize, operation: String) -> pb::BindGroup {
    let mut binds = Vec::new();
    for more in 0..gang {
        let (replica, (node, zone)) = ((replica + more) % REPLICAS, HOSTS[(host + more) % HOSTS.len()]);
        let mut bind = world.bind_of(&format!("r{replica}"), node).await;
        let domains = ZONES.map(str::to_owned).to_vec();
        let (topology_key, domain) = ("zone".to_owned(), zone.to_owned());
        bind.spread.push(pb::SpreadSeen { topology_key, domain, max_skew: 1, domains });
        binds.push(bind);
    }
    pb::BindGroup { operation, binds, ..pb::BindGroup::default() }
}

async fn play(world: &World, steps: Vec<Step>) -> usize {
    let mut chosen: Vec<Vec<pb::BindGroup>> = vec![Vec::new(); CALLERS];
    let mut bound = 0;
    for (at, step) in steps.into_iter().enumerate() {
        let name = |replica: usize| format!("r{replica}");
        match step {
            Step::Choose { caller, replica, host, gang } => {
                let group = choose(world, replica, host, gang, format!("op{at}")).await;
                chosen[caller].push(group);
                let few = chosen[caller].len().saturating_sub(3);
                chosen[caller].drain(..few);
            }
            Step::Send => {
                let sent = chosen.iter().map(|groups| world.bind(groups.clone(), None));
                for results in join_all(sent).await {
                    let results = results.expect("a good request");
                    let is_bound =
                        |it: &&pb::BindResult| matches!(&it.result, Some(pb::bind_result::Result::Bound(_)));
                    bound += results.iter().filter(is_bound).count();
                }
            }
            Step::Create(replica) => create(world, replica).await,
            Step::Delete(replica) => drop(world.delete("Replica", &name(replica)).await),
            Step::Stopped(replica) => {
                drop(world.patch("Binding", &name(replica), true, json!({"status": {"stoppedMs": 1}})).await);
            }
            Step::Ask(replica) => {
                let asked = json!({"status": {"state": "ReleaseRequested"}});
                drop(world.patch("Binding", &name(replica), true, asked).await);
            }
            Step::Release(replica) => {
                let name = name(replica);
                drop(join_all([world.release(&name, ""), world.release(&name, "")]).await);
            }
            Step::Host { host, cpu, boot, unschedulable } => {
                let (name, zone) = HOSTS[host];
                let host = Host { boot: format!("b{boot}"), unschedulable, ..Host::new(name, zone, cpu) };
                world.register(&host).await.expect("it registers");
            }
            Step::Quota { name, cpu } => {
                let name = format!("q{name}");
                match cpu {
                    None => drop(world.delete("Quota", &name).await),
                    Some(cpu) => {
                        let zones = json!([{"zone": "a", "limits": {"cpu": cpu.min(3)}}]);
                        let spec = json!({"limits": {"cpu": cpu}, "zones": zones});
                        if world.create("Quota", &name, &[], spec.clone()).await.is_err() {
                            world
                                .patch("Quota", &name, false, json!({"spec": spec}))
                                .await
                                .expect("it is changed");
                        }
                    }
                }
            }
            Step::Pass(millis) => world.node.advance(millis).await,
        }
    }
    bound
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_callers_do_ledgers_hold_and_nobody_has_two_nodes(steps in vec(step(), 1..60)) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let world = World::new();
            for (name, zone) in HOSTS {
                world.register(&Host::new(name, zone, 4)).await.expect("it registers");
            }
            for replica in 0..REPLICAS {
                create(&world, replica).await;
            }
            play(&world, steps).await;
            check(&world.node.local.store, 1);
        });
    }
}

/// The histories above are about something.
#[test]
fn racing_callers_bind_each_replica_once() {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = World::new();
        for (name, zone) in HOSTS {
            world.register(&Host::new(name, zone, 9)).await.expect("it registers");
        }
        let mut steps = Vec::new();
        for replica in 0..REPLICAS {
            create(&world, replica).await;
            let of = |caller: usize| Step::Choose { caller, replica, host: (replica + caller) % 3, gang: 1 };
            steps.extend((0..CALLERS).map(of));
            steps.extend([Step::Send, Step::Send]);
        }
        let bound = play(&world, steps).await;
        assert!(bound >= REPLICAS, "{bound} were bound");
        check(&world.node.local.store, 1);
    });
}
