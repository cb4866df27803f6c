use std::time::{Duration, Instant};
use super::support::{Cluster, Options, bytes};

async fn run(inflight: usize, count: u64) {
    let configure: fn(&mut setpoint_consensus::Config) = match inflight {
        1 => |c| c.limits.entries_in_flight = 1,
        2 => |c| c.limits.entries_in_flight = 2,
        4 => |c| c.limits.entries_in_flight = 4,
        _ => |c| c.limits.entries_in_flight = 8,
    };
    let cluster = Cluster::start(count, Options { configure: Some(configure), ..Options::default() }).await;
    let leader = cluster.leader().await;
    let who = if count > 1 { vec![("leader", leader), ("follower", cluster.followers(leader).next().unwrap())] } else { vec![("leader", leader)] };
    for (name, node) in who {
        for clients in [1usize, 16, 256] {
            let started = Instant::now();
            let mut all = Vec::new();
            let mut tasks = Vec::new();
            let before = leader.node.counts();
            for client in 0..clients {
                let node2 = node.node.clone();
                let machine = node.machine.clone();
                let name = name.to_string();
                tasks.push(tokio::spawn(async move {
                    let mut lat = Vec::new();
                    let until = Instant::now() + Duration::from_secs(2);
                    let mut i = 0;
                    while Instant::now() < until {
                        let command = bytes(format!("{name}/{clients}/{client}/{i}"));
                        let t = Instant::now();
                        let rx = machine.waiter(command.clone());
                        node2.submit(command).unwrap();
                        rx.await.unwrap();
                        lat.push(t.elapsed());
                        i += 1;
                    }
                    lat
                }));
            }
            for t in tasks { all.extend(t.await.unwrap()); }
            all.sort();
            let after = leader.node.counts();
            let n = all.len();
            println!("nodes {count} inflight {inflight} {name} clients {clients}: {:.0}/s p50 {:?} p99 {:?} batch {:.1}", n as f64 / started.elapsed().as_secs_f64(), all[n/2], all[n*99/100],
              (after.commands_proposed-before.commands_proposed) as f64 / (after.entries_proposed-before.entries_proposed).max(1) as f64);
        }
        let t = Instant::now();
        let mut k = 0;
        while t.elapsed() < Duration::from_secs(2) { node.node.read_barrier().await.unwrap(); k += 1; }
        println!("  {name} barrier {:?}", t.elapsed() / k);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn speed() {
    run(4, 1).await;
    for inflight in [2, 4, 8] { run(inflight, 3).await; }
}
