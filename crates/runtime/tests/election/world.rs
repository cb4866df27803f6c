//! A server of leases and processes that share them, in model time: what is sent may be late or lost, processes may be
//! paused, cut off or killed. After every event, what must never be is looked for.
//!
//! Clocks do not drift: how much they may is a setting, and not what is tested here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_client::{Acquired, Kept};
use setpoint_runtime::election::group::{Effect, Group, Input, Own};
use setpoint_runtime::election::machine::CallId;
use setpoint_runtime::election::name::Names;
use setpoint_runtime::election::view::{Part, Seen, View};
use setpoint_runtime::election::{Options, Settings, ShardId};
use setpoint_types::kinds::LeaseStatus;
use setpoint_types::object::Fence;
use setpoint_types::{Epoch, Revision};
use tokio::time::Instant;

/// A client gives a request up after so long, beyond the time it asked to wait.
const PATIENCE: Duration = Duration::from_secs(10);
const CONTROLLER: &str = "web";

/// What the network does to messages.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub delay_ms_min: u64,
    pub delay_ms_max: u64,
    pub lost_percent: u64,
}

pub const CALM: Network = Network { delay_ms_min: 5, delay_ms_max: 5, lost_percent: 0 };

/// A lease, as the server has it.
#[derive(Clone, Debug, Default)]
struct Lease {
    holder: String,
    epoch: u64,
    expires: Option<Instant>,
    changed: u64,
    queue: Vec<Ask>,
}

#[derive(Clone, Debug)]
struct Ask {
    process: usize,
    own: Own,
    call: CallId,
    lease: String,
    wait: Duration,
    sent: Instant,
}

#[derive(Clone, Debug)]
enum Event {
    Acquire(Ask),
    /// The server notices that nobody waits for the answer any more.
    Abandoned(usize, String, CallId),
    /// It has waited in the queue for as long as it wished to.
    Waited(Ask),
    Keep(usize, Own, Fence, Instant),
    Release(usize, Own, CallId, Fence),
    Arrives(usize, Box<Input>),
    Resume(usize),
    Reconnect(usize),
}

pub struct Process {
    pub name: String,
    pub shards: u32,
    group: Group,
    inbox: Vec<Input>,
    paused: bool,
    cut: bool,
    pub alive: bool,
    asking: BTreeMap<Own, (String, CallId)>,
    seen: Revision,
    /// What it takes its part to be.
    pub part: Part,
    /// What its workers think they may act on.
    claims: BTreeMap<ShardId, (Fence, Instant)>,
}

pub struct World {
    start: Instant,
    pub now: Instant,
    pub network: Network,
    pub ttl: Duration,
    /// How long runs take to end, at most.
    pub run_ms_max: u64,
    names: Names,
    leases: BTreeMap<String, Lease>,
    revision: u64,
    events: BTreeMap<(Instant, u64), Event>,
    sequence: u64,
    random: u64,
    pub processes: Vec<Process>,
    /// What happened to shards, for those who want to read it.
    pub log: Vec<String>,
    pub moves: u64,
}

impl World {
    pub fn new(seed: u64, network: Network) -> Self {
        let start = Instant::now();
        Self {
            start,
            now: start,
            network,
            ttl: Duration::from_secs(15),
            run_ms_max: 0,
            names: Names::new(CONTROLLER).expect("a name"),
            leases: BTreeMap::new(),
            revision: 1,
            events: BTreeMap::new(),
            sequence: 0,
            random: seed,
            processes: Vec::new(),
            log: Vec::new(),
            moves: 0,
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn options(&self, shards: u32) -> Options {
        Settings { shards, ttl_seconds: self.ttl.as_secs() as u32, ..Settings::default() }
            .check()
            .expect("good settings")
    }

    // What the test does to processes.

    pub fn start(&mut self, name: &str, shards: u32) -> usize {
        let number = self.processes.len();
        let holder = format!("{name}-{number}");
        let group = Group::new(self.names.clone(), holder.clone(), self.options(shards), self.now);
        self.processes.push(Process {
            name: holder,
            shards,
            group,
            inbox: Vec::new(),
            paused: false,
            cut: false,
            alive: true,
            asking: BTreeMap::new(),
            seen: Revision::NONE,
            part: Part::Unknown,
            claims: BTreeMap::new(),
        });
        let view = self.view();
        self.reach(number, Input::View(view));
        number
    }

    pub fn stop(&mut self, process: usize) {
        self.reach(process, Input::Stop);
    }

    pub fn kill(&mut self, process: usize) {
        let process = &mut self.processes[process];
        process.alive = false;
        process.claims.clear();
    }

    pub fn pause(&mut self, process: usize, time: Duration) {
        self.processes[process].paused = true;
        self.after(time, Event::Resume(process));
    }

    pub fn cut(&mut self, process: usize, time: Duration) {
        self.processes[process].cut = true;
        self.after(time, Event::Reconnect(process));
    }

    pub fn fenced(&mut self, process: usize, shard: ShardId) {
        if let Some((fence, _)) = self.processes[process].claims.get(&shard).cloned() {
            self.reach(process, Input::Fenced(shard, fence));
        }
    }

    // Time.

    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let mut steps = 0;
        loop {
            let expiry = self.leases.values().filter_map(|lease| lease.expires).min();
            let event = self.events.keys().next().map(|(at, _)| *at);
            let wake = self.next_wake();
            let next = expiry.into_iter().chain(event).chain(wake.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            steps = if next > self.now { 0 } else { steps + 1 };
            assert!(steps < 10_000, "time does not pass: somebody is in a hot loop");
            self.now = self.now.max(next);
            // The server first: the hardest for those who count on their time.
            match (expiry, event, wake) {
                (Some(expiry), ..) if expiry <= next => self.expire(),
                (_, Some(event), _) if event <= next => {
                    let (_, event) = self.events.pop_first().expect("there is one");
                    self.happen(event);
                }
                (_, _, Some((_, process))) => self.reach(process, Input::Tick),
                _ => {}
            }
            self.check();
        }
        self.now = until;
        self.check();
    }

    /// Whose timer is next.
    fn next_wake(&self) -> Option<(Instant, usize)> {
        let awake = self.processes.iter().enumerate().filter(|(_, process)| process.alive && !process.paused);
        awake.filter_map(|(number, process)| Some((process.group.wake_at()?.max(self.now), number))).min()
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + time, self.sequence), event);
    }

    /// How long a message of a process takes; none if it does not arrive.
    fn travel(&mut self, process: usize) -> Option<Duration> {
        let Network { delay_ms_min, delay_ms_max, lost_percent } = self.network;
        let lost = self.draw() % 100 < lost_percent;
        let delay = Duration::from_millis(delay_ms_min + self.draw() % (delay_ms_max - delay_ms_min + 1));
        (!lost && !self.processes[process].cut && self.processes[process].alive).then_some(delay)
    }

    fn send(&mut self, process: usize, event: Event) {
        if let Some(delay) = self.travel(process) {
            self.after(delay, event);
        }
    }

    fn answer(&mut self, process: usize, input: Input) {
        self.send(process, Event::Arrives(process, Box::new(input)));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Acquire(ask) => self.acquire(ask),
            Event::Abandoned(process, lease, call) => drop(self.leave(process, &lease, call)),
            Event::Waited(ask) => {
                if self.leave(ask.process, &ask.lease, ask.call) {
                    self.refuse(&ask);
                }
            }
            Event::Keep(process, own, fence, sent) => self.keep(process, own, fence, sent),
            Event::Release(process, own, call, fence) => self.release(process, own, call, &fence),
            Event::Arrives(process, input) => self.reach(process, *input),
            Event::Resume(process) => {
                self.processes[process].paused = false;
                // In whatever order; the clock is not looked at first.
                for input in std::mem::take(&mut self.processes[process].inbox) {
                    self.reach(process, input);
                    self.check();
                }
                self.reach(process, Input::Tick);
            }
            Event::Reconnect(process) => {
                self.processes[process].cut = false;
                let input = Box::new(Input::View(self.view()));
                self.after(Duration::ZERO, Event::Arrives(process, input));
            }
        }
    }

    // The server.

    fn holder_of(&self, process: usize) -> String {
        self.processes[process].name.clone()
    }

    fn acquire(&mut self, ask: Ask) {
        let (holder, now, ttl) = (self.holder_of(ask.process), self.now, self.ttl);
        let lease = self.leases.entry(ask.lease.clone()).or_default();
        if lease.holder == holder {
            lease.expires = Some(now + ttl);
            self.grant_answer(&ask);
        } else if lease.holder.is_empty() && lease.queue.is_empty() {
            self.grant(&ask);
        } else if ask.wait > Duration::ZERO {
            lease.queue.push(ask.clone());
            self.after(ask.wait, Event::Waited(ask));
        } else {
            self.refuse(&ask);
        }
    }

    /// Leaves the queue; false if it was not in it.
    fn leave(&mut self, process: usize, lease: &str, call: CallId) -> bool {
        let Some(lease) = self.leases.get_mut(lease) else { return false };
        let before = lease.queue.len();
        lease.queue.retain(|waiter| (waiter.process, waiter.call) != (process, call));
        lease.queue.len() < before
    }

    fn refuse(&mut self, ask: &Ask) {
        let lease = self.leases[&ask.lease].clone();
        let answer = self.acquired(&ask.lease, &lease, false);
        let Ask { process, own, call, sent, .. } = *ask;
        self.answer(process, Input::Acquired { own, call, sent, answer: Some(answer) });
    }

    fn acquired(&self, name: &str, lease: &Lease, acquired: bool) -> Acquired {
        Acquired {
            acquired,
            holder: lease.holder.clone(),
            ttl: self.ttl,
            revision: Revision::new(lease.changed),
            fence: fence(name, lease.epoch),
        }
    }

    fn grant(&mut self, ask: &Ask) {
        self.revision += 1;
        let (holder, revision, expires) = (self.holder_of(ask.process), self.revision, self.now + self.ttl);
        let lease = self.leases.get_mut(&ask.lease).expect("it was asked for");
        (lease.holder, lease.changed, lease.expires) = (holder, revision, Some(expires));
        lease.epoch += 1;
        self.grant_answer(ask);
        self.tell();
    }

    fn grant_answer(&mut self, ask: &Ask) {
        let lease = self.leases[&ask.lease].clone();
        let answer = self.acquired(&ask.lease, &lease, true);
        let Ask { process, own, call, sent, .. } = *ask;
        self.answer(process, Input::Acquired { own, call, sent, answer: Some(answer) });
    }

    fn keep(&mut self, process: usize, own: Own, fence: Fence, sent: Instant) {
        let (holder, expires, ttl) = (self.holder_of(process), self.now + self.ttl, self.ttl);
        let Some(lease) = self.leases.get_mut(&fence.lease) else { return };
        let held = lease.holder == holder && lease.epoch == fence.epoch.0;
        if held {
            lease.expires = Some(expires);
        }
        let kept = Kept { held, epoch: Epoch(lease.epoch), ttl };
        self.answer(process, Input::Kept { own, fence, sent, answer: Some(kept) });
    }

    fn release(&mut self, process: usize, own: Own, call: CallId, fence: &Fence) {
        let holder = self.holder_of(process);
        if self.leases.get(&fence.lease).is_some_and(|it| it.holder == holder && it.epoch == fence.epoch.0) {
            self.vacate(&fence.lease.clone());
        }
        self.answer(process, Input::Released { own, call, answered: true });
    }

    fn expire(&mut self) {
        let now = self.now;
        let over: Vec<String> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.expires.is_some_and(|expires| expires <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for lease in over {
            self.vacate(&lease);
        }
    }

    fn vacate(&mut self, name: &str) {
        self.revision += 1;
        let revision = self.revision;
        let lease = self.leases.get_mut(name).expect("it is there");
        (lease.holder, lease.expires, lease.changed) = (String::new(), None, revision);
        let next = (!lease.queue.is_empty()).then(|| lease.queue.remove(0));
        self.tell();
        if let Some(ask) = next {
            self.grant(&ask);
        }
    }

    fn view(&self) -> View {
        let seen = self.leases.iter().filter_map(|(name, lease)| {
            let (holder, epoch) = (lease.holder.clone(), Epoch(lease.epoch));
            let status = LeaseStatus { holder, epoch, ..LeaseStatus::default() };
            Seen::read(&self.names, name, &status, Revision::new(lease.changed))
        });
        View::new(Revision::new(self.revision), seen)
    }

    /// Everybody's watch.
    fn tell(&mut self) {
        let view = self.view();
        for process in 0..self.processes.len() {
            // A watch loses nothing; what is cut off sees the state when it is back.
            if !self.processes[process].cut {
                let spread = self.network.delay_ms_max - self.network.delay_ms_min + 1;
                let delay = self.network.delay_ms_min + self.draw() % spread;
                let input = Box::new(Input::View(view.clone()));
                self.after(Duration::from_millis(delay), Event::Arrives(process, input));
            }
        }
    }

    // The processes.

    fn reach(&mut self, number: usize, input: Input) {
        let process = &mut self.processes[number];
        if !process.alive {
            return;
        }
        if process.paused {
            process.inbox.push(input);
            return;
        }
        if let Input::View(view) = &input {
            if view.revision < process.seen {
                return;
            }
            process.seen = view.revision;
        }
        let mut random = self.random;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 11) as f64 / (1u64 << 53) as f64
        };
        let effects = process.group.step(input, self.now, &mut draw);
        self.random = random;
        for effect in effects {
            self.perform(number, effect);
        }
        let process = &mut self.processes[number];
        if process.group.is_over() {
            process.alive = false;
        }
    }

    fn perform(&mut self, process: usize, effect: Effect) {
        let sent = self.now;
        match effect {
            Effect::Acquire { own, call, lease, wait } => {
                self.processes[process].asking.insert(own, (lease.clone(), call));
                self.send(process, Event::Acquire(Ask { process, own, call, lease, wait, sent }));
                let nothing = Input::Acquired { own, call, sent, answer: None };
                self.after(wait + PATIENCE, Event::Arrives(process, Box::new(nothing)));
            }
            Effect::Abandon(own) => {
                if let Some((lease, call)) = self.processes[process].asking.remove(&own) {
                    self.send(process, Event::Abandoned(process, lease, call));
                }
            }
            Effect::Keep(own, fence) => {
                self.send(process, Event::Keep(process, own, fence.clone(), sent));
                let nothing = Input::Kept { own, fence, sent, answer: None };
                self.after(PATIENCE / 2, Event::Arrives(process, Box::new(nothing)));
            }
            Effect::Release { own, call, fence } => {
                self.send(process, Event::Release(process, own, call, fence));
                let nothing = Input::Released { own, call, answered: false };
                self.after(PATIENCE, Event::Arrives(process, Box::new(nothing)));
            }
            Effect::Grant(shard, fence, until) => {
                self.tell_of(process, "gains", shard);
                self.processes[process].claims.insert(shard, (fence, until));
            }
            Effect::Extend(shard, until) => {
                if let Some(claim) = self.processes[process].claims.get_mut(&shard) {
                    claim.1 = until;
                }
            }
            Effect::Drain(shard) => {
                self.moves += 1;
                let (fence, _) = self.processes[process].claims[&shard].clone();
                let time = self.draw() % (self.run_ms_max + 1);
                let drained = Box::new(Input::Drained(shard, fence));
                self.after(Duration::from_millis(time), Event::Arrives(process, drained));
            }
            Effect::Revoke(shard) => {
                self.tell_of(process, "loses", shard);
                self.processes[process].claims.remove(&shard);
            }
            Effect::Part(part) => self.processes[process].part = part,
            Effect::Resume(_) => {}
        }
    }

    fn tell_of(&mut self, process: usize, what: &str, shard: ShardId) {
        let line =
            format!("{:>7} ms  {} {what} {shard}", self.elapsed().as_millis(), self.processes[process].name);
        self.log.push(line);
    }

    // What is seen from outside.

    /// Who may act on what now, by the clocks of those who do: process and shard.
    pub fn valid(&self) -> Vec<(usize, ShardId, &Fence)> {
        let mut valid = Vec::new();
        for (number, process) in self.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            let now = self.now;
            let claims = process.claims.iter().filter(move |(_, (_, until))| now < *until);
            valid.extend(claims.map(|(shard, (fence, _))| (number, *shard, fence)));
        }
        valid
    }

    fn check(&self) {
        let mut layouts = BTreeSet::new();
        let mut shards = BTreeSet::new();
        for (number, shard, fence) in self.valid() {
            let process = &self.processes[number];
            let lease = &self.leases[&fence.lease];
            assert!(
                lease.holder == process.name && lease.epoch == fence.epoch.0,
                "at {:?} {} has a valid claim to {shard} at {:?}, and the server says {lease:?}",
                self.elapsed(),
                process.name,
                fence.epoch,
            );
            layouts.insert(process.shards);
            assert!(shards.insert((process.shards, shard)), "two have a claim to {shard}");
        }
        assert!(layouts.len() <= 1, "at {:?} keys are split in two ways: {layouts:?}", self.elapsed());
    }
}

fn fence(lease: &str, epoch: u64) -> Fence {
    Fence { namespace: "default".into(), lease: lease.into(), epoch: Epoch(epoch) }
}
