//! Golden scripts of placement, one property each, in `tests/placement/scripts`.
//!
//! After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the difference.

use std::collections::HashMap;
use std::error::Error;

use goldenscript::{Argument, Command, Context, Runner};
use serde_json::{Value, json};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_result::Result as BindWire;
use setpoint_api::setpoint::v1::release_result::Result as ReleaseWire;
use setpoint_apiserver::access::Caller;
use setpoint_apiserver::objects::Refusal;
use tokio::runtime::{Builder, Runtime};

use crate::world::{Host, World};

struct Script {
    runtime: Runtime,
    world: World,
}

/// The arguments of a command.
struct Given {
    words: Vec<String>,
    named: HashMap<String, String>,
}

impl Given {
    fn of(command: &Command) -> Self {
        let (mut words, mut named) = (Vec::new(), HashMap::new());
        for argument in &command.args {
            match argument {
                Argument::Positional(word) => words.push(word.clone()),
                Argument::KeyValue(key, value) => drop(named.insert(key.clone(), value.clone())),
                other => panic!("unknown kind of argument: {other:?}"),
            }
        }
        Self { words, named }
    }

    fn word(&self, place: usize) -> &str {
        self.words.get(place).map_or("", String::as_str)
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().skip(1).any(|it| it == word)
    }

    fn text(&self, name: &str) -> &str {
        self.named.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str, or: u64) -> u64 {
        self.named.get(name).map_or(or, |text| text.parse().expect("a number"))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(self.named.get(name).map_or("{}", String::as_str)).expect("JSON")
    }

    /// `a:1,b:2`
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let pairs = self.text(name).split(',').filter_map(|it| it.split_once(':'));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let given = Given::of(command);
        let Self { runtime, world } = self;
        Ok(runtime.block_on(async {
            match command.name.as_str() {
                "node" => node(world, &given).await,
                "replica" => {
                    let (name, workload) =
                        (given.word(0), given.named.get("workload").map_or("web", String::as_str));
                    let made =
                        world.replica(name, workload, given.number("cpu", 1), given.json("template")).await;
                    print(made, |_| String::new())
                }
                "create" => {
                    let made = world.create(given.word(0), given.word(1), &[], given.json("spec")).await;
                    print(made, |_| String::new())
                }
                "patch" => {
                    let status = given.has("status");
                    let done = world.patch(given.word(0), given.word(1), status, given.json("patch")).await;
                    print(done, |_| String::new())
                }
                "delete" => {
                    let gone = world.delete(given.word(0), given.word(1)).await;
                    print(gone, |gone| if gone { "gone".to_owned() } else { "waits".to_owned() })
                }
                "bind" => bind(world, &given).await,
                "release" => release(world, &given).await,
                "stopped" => binding_status(world, given.word(0), json!({"stoppedMs": 5})).await,
                "ask" => binding_status(world, given.word(0), json!({"state": "ReleaseRequested"})).await,
                "pass" => {
                    world.node.advance(given.word(0).parse().expect("milliseconds")).await;
                    String::new()
                }
                "acquire" => acquire(world, &given).await,
                "leave" => leave(world, &given).await,
                "ledger" => ledger(world, given.word(0)).await,
                "reservations" => reservations(world, given.word(0)).await,
                "show" => show(world, &given).await,
                other => panic!("unknown command: {other}"),
            }
        }))
    }
}

/// `node NAME [zone=] [cpu=] [labels=] [taint=] [boot=] [unschedulable] [unready]`: registers it, or changes it.
async fn node(world: &World, given: &Given) -> String {
    let zone = given.named.get("zone").map_or("a", String::as_str);
    let host = Host {
        labels: given.pairs("labels"),
        taint: given.text("taint").to_owned(),
        unschedulable: given.has("unschedulable"),
        ready: !given.has("unready"),
        boot: given.named.get("boot").map_or("b1", String::as_str).to_owned(),
        ..Host::new(given.word(0), zone, given.number("cpu", 4))
    };
    print(world.register(&host).await, |epoch| format!("epoch {epoch}"))
}

/// `bind REPLICA:NODE[,REPLICA:NODE...] ... [op=] [fence=LEASE@EPOCH] [uid=] [nodeuid=] [generation=] [epoch=]
/// [observed=KIND:REVISION,...] [policy=NAME] [policygen=] [spread=KEY:DOMAIN] [skew=] [domains=A,B] [decision=JSON]`: each word a group.
async fn bind(world: &World, given: &Given) -> String {
    let mut groups = Vec::new();
    for (at, word) in given.words.iter().enumerate() {
        let mut binds = Vec::new();
        for pair in word.split(',') {
            let (replica, node) = pair.split_once(':').expect("REPLICA:NODE");
            binds.push(asked(world, given, replica, node).await);
        }
        let operation = match given.text("op") {
            "" => format!("{word}-{at}-{}", world.node.local.store.revision()),
            "none" => String::new(),
            op => format!("{op}{}", if at == 0 { String::new() } else { at.to_string() }),
        };
        let observed = given.pairs("observed").into_iter();
        let observed = observed.map(|(kind, at)| (kind, at.parse().expect("a revision"))).collect();
        groups.push(pb::BindGroup { operation, binds, observed });
    }
    print(world.bind(groups, fence(given.text("fence"))).await, |results| {
        results.into_iter().map(|it| result(it.result)).collect::<Vec<_>>().join("\n")
    })
}

async fn asked(world: &World, given: &Given, replica: &str, node: &str) -> pb::Bind {
    let mut bind = world.bind_of(replica, node).await;
    let or = |name: &str, uid: String| given.named.get(name).cloned().unwrap_or(uid);
    bind.replica_uid = or("uid", bind.replica_uid);
    bind.node_uid = or("nodeuid", bind.node_uid);
    bind.replica_generation = given.number("generation", bind.replica_generation);
    bind.node_epoch = given.number("epoch", bind.node_epoch);
    bind.decision = given.text("decision").to_owned().into();
    if let Some(name) = given.named.get("policy") {
        let generation =
            world.get("PlacementPolicy", name).await.and_then(|it| it.metadata).map_or(1, |it| it.generation);
        let generation = given.number("policygen", generation);
        bind.policies.push(pb::PolicySeen { name: name.clone(), revision: 1, generation });
    }
    if let Some((topology_key, domain)) = given.text("spread").split_once(':') {
        let domains =
            given.text("domains").split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let (topology_key, domain) = (topology_key.to_owned(), domain.to_owned());
        let max_skew = given.number("skew", 1) as u32;
        bind.spread.push(pb::SpreadSeen { topology_key, domain, max_skew, domains });
    }
    bind
}

/// `LEASE@EPOCH`
fn fence(text: &str) -> Option<pb::Fence> {
    let (lease, epoch) = text.split_once('@')?;
    Some(pb::Fence {
        namespace: String::new(),
        lease: lease.to_owned(),
        epoch: epoch.parse().expect("an epoch"),
    })
}

fn result(result: Option<BindWire>) -> String {
    match result.expect("a result") {
        BindWire::Bound(it) => {
            format!("bound @{}{}", it.revision, if it.repeated { " repeated" } else { "" })
        }
        BindWire::Rejected(it) => {
            let lacking = it.lacking.as_ref().map_or_else(String::new, |it| {
                format!("\n  {} needed={:?} left={:?}", it.ledger, it.needed, it.left)
            });
            let reason = it.reason().as_str_name();
            format!("{reason} bind={} catch up to {}: {}{lacking}", it.bind, it.catch_up_to, it.message)
        }
    }
}

/// `release BINDING [uid=]`
async fn release(world: &World, given: &Given) -> String {
    print(world.release(given.word(0), given.text("uid")).await, |it| match it.result.expect("a result") {
        ReleaseWire::Released(it) => {
            format!("released @{}{}", it.revision, if it.repeated { " repeated" } else { "" })
        }
        ReleaseWire::Refused(it) => {
            let wait = if it.wait_ms == 0 { String::new() } else { format!(" wait={}ms", it.wait_ms) };
            format!("{} catch up to {}{wait}: {}", it.reason().as_str_name(), it.catch_up_to, it.message)
        }
    })
}

async fn binding_status(world: &World, name: &str, status: Value) -> String {
    print(world.patch("Binding", name, true, json!({"status": status})).await, |_| String::new())
}

/// `acquire LEASE HOLDER`
async fn acquire(world: &World, given: &Given) -> String {
    let (lease, holder) = (given.word(0).to_owned(), given.word(1).to_owned());
    let request = pb::AcquireRequest { lease, holder, ttl_seconds: 60, ..pb::AcquireRequest::default() };
    let acquired = world.node.coordinator.acquire(request, &Caller::default()).await;
    print(acquired, |it| format!("epoch {}", it.epoch))
}

/// `leave NODE EPOCH`: the agent gives its lease back.
async fn leave(world: &World, given: &Given) -> String {
    let request = pb::ReleaseRequest {
        namespace: "setpoint-system".to_owned(),
        lease: format!("node-{}", given.word(0)),
        holder: given.word(0).to_owned(),
        epoch: given.word(1).parse().expect("an epoch"),
    };
    let released = world.node.coordinator.release(request, &Caller::default()).await;
    print(released, |it| if it.released { String::new() } else { "not held".to_owned() })
}

async fn ledger(world: &World, name: &str) -> String {
    let request = pb::GetLedgerRequest { ledger: name.to_owned(), at: None };
    print(world.node.writer.reader.ledger(request).await, |it| {
        let ledger = it.ledger.expect("a ledger");
        format!("limits={:?} used={:?}", ledger.limits, ledger.used)
    })
}

async fn reservations(world: &World, name: &str) -> String {
    let request = pb::ReservationsRequest { ledger: name.to_owned(), ..Default::default() };
    print(world.node.writer.reader.reservations(request).await, |it| {
        let lines = it.reservations.iter().map(|it| format!("{} has {:?}", it.owner, it.amounts));
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// `show KIND NAME [managed]`
async fn show(world: &World, given: &Given) -> String {
    let Some(object) = world.get(given.word(0), given.word(1)).await else {
        return "there is none".to_owned();
    };
    let metadata = object.metadata.unwrap_or_default();
    let text = |json: &[u8]| String::from_utf8_lossy(json).into_owned();
    let owners: Vec<_> = metadata.owners.iter().map(|it| format!("{}/{}", it.kind, it.name)).collect();
    let mut shown = format!(
        "@{} generation={} finalizers={:?} owners={owners:?}\nspec={}\nstatus={}",
        metadata.revision,
        metadata.generation,
        metadata.finalizers,
        text(&object.spec),
        text(&object.status)
    );
    if given.has("managed") {
        for it in &metadata.managed_fields {
            shown.push_str(&format!("\n{} {:?} {:?}", it.manager, it.subresource, it.fields));
        }
    }
    shown
}

fn print<T>(outcome: Result<T, Refusal>, print: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(answer) => print(answer),
        Err(refusal) => refusal.to_string(),
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
                let world = runtime.block_on(async { World::new() });
                let mut script = Script { runtime, world };
                goldenscript::run(&mut script, concat!("tests/placement/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    binds,
    fences,
    gangs,
    ledgers_follow,
    policies,
    quotas,
    rejections,
    releases,
    repeats,
    spread,
}
