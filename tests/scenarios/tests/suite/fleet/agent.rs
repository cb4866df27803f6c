//! What the agent of a host does, looked at once a second: the lease, the node, and what is bound to it.
//!
//! As real ones do: nothing is begun that was bound under an earlier hold, `stopped` is said only once nothing runs, strangers are ended, exclusive replicas end
//! by the agent's own deadline, counted from when the last keep-alive that was answered was sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use setpoint_client::{
    AcquireOptions, BindingReference, Client, Error, KeepAlive, Patch, PatchOptions, Typed, WriteOptions,
};
use setpoint_controllers::node_monitor::{SYSTEM, lease_of};
use setpoint_testkit::now;
use setpoint_types::Uid;
use setpoint_types::kinds::{Binding, BindingState, Node, NodeSpec, OnDisconnect, Replica};
use setpoint_types::object::Fence;
use tokio::time::{Instant, sleep};

use super::host::{Mode, Running};
use super::{Fleet, KEEP, START, STOP, TICK, TTL};
use crate::hands;

pub struct Agent {
    fleet: Fleet,
    client: Client,
    name: String,
    hold: Option<Hold>,
}

/// The lease of the node, as far as this agent knows.
struct Hold {
    fence: Fence,
    stream: KeepAlive,
    kept_at: Instant,
}

impl Agent {
    pub fn new(fleet: Fleet, client: Client, name: String) -> Self {
        Self { fleet, client, name, hold: None }
    }

    pub async fn work(mut self) {
        let mut deadline = Instant::now();
        loop {
            let (mode, is_stalled) = self.fleet.with(|inside| {
                let host = &inside.hosts[&self.name];
                (host.mode, host.stalled_until.is_some_and(|until| until > Instant::now()))
            });
            if mode == Mode::Well {
                if let Some(sent) = self.keep(is_stalled).await {
                    deadline = sent + TTL;
                }
                if self.hold.is_some() && Instant::now() < deadline {
                    self.look().await;
                }
            }
            if Instant::now() >= deadline {
                self.fence_off();
            }
            sleep(TICK).await;
        }
    }

    fn holder(&self) -> String {
        let boot = self.fleet.with(|inside| inside.hosts[&self.name].boot);
        format!("agent-{}-{boot}", self.name)
    }

    /// Takes or keeps the lease, if that is due. When that was sent, if it was done.
    async fn keep(&mut self, is_stalled: bool) -> Option<Instant> {
        let sent = Instant::now();
        let holder = self.holder();
        match &mut self.hold {
            Some(_) if is_stalled => return None,
            Some(hold) if sent.duration_since(hold.kept_at) < KEEP => return None,
            Some(hold) => match hold.stream.keep(&hold.fence, &holder, &BTreeMap::new()).await {
                Ok(kept) if kept.held => hold.kept_at = sent,
                _ => {
                    self.hold = None;
                    return None;
                }
            },
            None => {
                let options = AcquireOptions {
                    namespace: SYSTEM.to_owned(),
                    lease: lease_of(&self.name),
                    holder,
                    ttl: Some(TTL),
                    ..AcquireOptions::default()
                };
                let acquired = self.client.leases().acquire(&options).await.ok().filter(|it| it.acquired)?;
                let stream = self.client.leases().keep_alive().await.ok()?;
                self.register(&acquired.fence).await.ok()?;
                self.hold = Some(Hold { fence: acquired.fence, stream, kept_at: sent });
            }
        }
        Some(sent)
    }

    async fn register(&self, fence: &Fence) -> Result<(), Error> {
        let (shape, boot) = self.fleet.with(|inside| {
            let host = &inside.hosts[&self.name];
            (host.shape.clone(), host.boot)
        });
        let client = self.client.with_fence(fence.clone());
        let nodes = client.api::<Node>();
        if nodes.find(&self.name).await?.is_none() {
            let spec = NodeSpec { zone: shape.zone, capacity: shape.capacity, ..NodeSpec::default() };
            nodes.create(&Typed::new(&self.name, spec), &WriteOptions::default()).await?;
        }
        let mut node = nodes.get(&self.name).await?;
        let mut status = node.status.take().unwrap_or_default();
        status.epoch = fence.epoch;
        let mut agent = status.agent.unwrap_or_default();
        agent.boot_id = format!("{}-boot-{boot}", self.name);
        agent.started = now();
        status.agent = Some(agent);
        let ready = setpoint_types::object::Condition {
            kind: "Ready".to_owned(),
            status: setpoint_types::object::ConditionStatus::True,
            reason: "AgentRuns".to_owned(),
            observed_generation: node.metadata.generation,
            last_transition: now(),
            ..Default::default()
        };
        setpoint_types::object::set_condition(&mut status.conditions, ready);
        node.status = Some(status);
        nodes.update_status(&node, &WriteOptions::default()).await.map(drop)
    }

    /// The lease is over: exclusive replicas end before anybody may think that they have.
    fn fence_off(&self) {
        self.fleet.with(|inside| {
            let Some(host) = inside.hosts.get_mut(&self.name) else { return };
            let over: Vec<_> =
                host.runs.iter().filter(|(_, it)| it.is_exclusive).map(|(uid, _)| uid.clone()).collect();
            for replica in over {
                host.runs.remove(&replica);
                inside.witness.stopped(&replica, &self.name);
                host.fenced.insert(replica);
            }
        });
    }

    async fn look(&self) {
        let Some(hold) = &self.hold else { return };
        let client = self.client.with_fence(hold.fence.clone());
        let eyes = self.fleet.with(|inside| inside.eyes.clone()).expect("the fleet has begun");
        let bindings = eyes.bindings.snapshot();
        let mut bound = BTreeSet::new();
        for binding in bindings.iter().filter_map(|it| it.read().ok()) {
            let status = binding.status.clone().unwrap_or_default();
            if binding.spec.node != self.name || status.state == BindingState::Released {
                continue;
            }
            bound.insert(binding.spec.replica_uid.clone());
            let key = setpoint_runtime::cache::Key::new(&binding.metadata.namespace, &binding.spec.replica);
            let replica = eyes.replicas.read(&key).ok().flatten();
            let replica = replica.filter(|it| it.metadata.uid == binding.spec.replica_uid);
            let is_wanted = replica.as_ref().is_some_and(|it| !it.metadata.is_terminating())
                && status.state != BindingState::ReleaseRequested
                && status.stopped.is_none()
                && (status.accepted || binding.spec.node_epoch == hold.fence.epoch);
            // What fails now is tried again at the next look.
            let done = match replica.filter(|_| is_wanted) {
                Some(replica) => self.run(&client, &binding, &replica).await,
                None => self.end(&client, &binding).await,
            };
            done.ok();
        }
        self.end_strangers(&bound);
    }

    /// What was given away while the host was out of reach runs here still, and is nobody's.
    fn end_strangers(&self, bound: &BTreeSet<Uid>) {
        self.fleet.with(|inside| {
            let Some(host) = inside.hosts.get_mut(&self.name) else { return };
            let strangers: Vec<Uid> = host.runs.keys().filter(|uid| !bound.contains(*uid)).cloned().collect();
            for uid in strangers {
                host.runs.remove(&uid);
                inside.witness.stopped(&uid, &self.name);
            }
        });
    }

    /// It is to run: begun, if it does not, and told of.
    async fn run(
        &self,
        client: &Client,
        binding: &Typed<Binding>,
        replica: &Typed<Replica>,
    ) -> Result<(), Error> {
        let uid = &replica.metadata.uid;
        let template = &replica.spec.template;
        let is_exclusive = template.on_disconnect == OnDisconnect::Exclusive;
        let (run, is_fenced, fetch) = self.fleet.with(|inside| {
            let host = &inside.hosts[&self.name];
            (host.runs.get(uid).cloned(), host.fenced.contains(uid), host.fetch)
        });
        let namespace = &replica.metadata.namespace;
        let replicas = client.api::<Replica>().namespace(namespace);
        let of_status = PatchOptions { uid: Some(uid.clone()), status: true, ..PatchOptions::default() };
        if is_fenced {
            let failed = json!({"status": {"stage": "failed", "lastExit": {"reason": "Fenced"}, "stages": {"endedMs": now()}}});
            replicas.patch(&replica.metadata.name, &Patch::Merge(failed), &of_status).await?;
            return self.end(client, binding).await;
        }
        let Some(run) = run else {
            let is_broken = template.command.first().is_some_and(|it| it == hands::BROKEN);
            let ready_at = (!is_broken).then(|| Instant::now() + START + fetch);
            let begun = Running { ready_at, is_told: false, stops_at: None, is_exclusive };
            self.fleet.with(|inside| {
                if let Some(host) = inside.hosts.get_mut(&self.name) {
                    host.runs.insert(uid.clone(), begun);
                    inside.witness.started(uid, &replica.spec.workload, &self.name, is_exclusive);
                }
            });
            let accepted = Patch::Merge(json!({"status": {"accepted": true}}));
            let of_binding = PatchOptions {
                uid: Some(binding.metadata.uid.clone()),
                status: true,
                ..PatchOptions::default()
            };
            client
                .api::<Binding>()
                .namespace(namespace)
                .patch(&binding.metadata.name, &accepted, &of_binding)
                .await?;
            let reason = if fetch.is_zero() { "Starting" } else { "Image" };
            let blocked = json!({"reason": reason, "sinceMs": now(), "revision": binding.metadata.revision});
            let starting =
                json!({"status": {"stage": "starting", "blocked": blocked, "stages": {"startingMs": now()}}});
            return replicas
                .patch(&replica.metadata.name, &Patch::Merge(starting), &of_status)
                .await
                .map(drop);
        };
        if run.is_told || run.ready_at.is_none_or(|at| at > Instant::now()) {
            return Ok(());
        }
        let serving = json!({"status": {"stage": "serving", "blocked": null, "stages": {"readyMs": now(), "servingMs": now()}}});
        replicas.patch(&replica.metadata.name, &Patch::Merge(serving), &of_status).await?;
        self.fleet.with(|inside| {
            let run = inside.hosts.get_mut(&self.name).and_then(|host| host.runs.get_mut(uid));
            run.into_iter().for_each(|it| it.is_told = true);
        });
        Ok(())
    }

    /// It is to end: stopped, said so, and given back.
    async fn end(&self, client: &Client, binding: &Typed<Binding>) -> Result<(), Error> {
        let uid = &binding.spec.replica_uid;
        let is_over = self.fleet.with(|inside| {
            let host = inside.hosts.get_mut(&self.name)?;
            let Some(run) = host.runs.get_mut(uid) else { return Some(true) };
            let stops_at = *run.stops_at.get_or_insert(Instant::now() + STOP);
            let is_over = stops_at <= Instant::now();
            if is_over {
                host.runs.remove(uid);
                inside.witness.stopped(uid, &self.name);
            }
            Some(is_over)
        });
        if is_over != Some(true) {
            return Ok(());
        }
        if binding.status.as_ref().is_none_or(|it| it.stopped.is_none()) {
            let stopped = Patch::Merge(json!({"status": {"stoppedMs": now()}}));
            let of_this = PatchOptions {
                uid: Some(binding.metadata.uid.clone()),
                status: true,
                ..PatchOptions::default()
            };
            let api = client.api::<Binding>().namespace(&binding.metadata.namespace);
            api.patch(&binding.metadata.name, &stopped, &of_this).await?;
        }
        let reference = BindingReference {
            namespace: binding.metadata.namespace.clone(),
            binding: binding.metadata.name.clone(),
            uid: binding.metadata.uid.clone(),
        };
        client.placement().release(&[reference]).await.map(drop)
    }
}
