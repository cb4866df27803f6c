//! All leases of a process for one controller, without their network: its membership and its shards. Pure.
//!
//! A process joins by taking the first free member lease, then sees by the watch what its part is, and wants just those shards.
//! While it is no member, or does not know that the others see it, it keeps what it has and takes nothing: others may be counting
//! on what it would take.

use std::time::Duration;

use setpoint_client::{Acquired, Kept};
use setpoint_types::Epoch;
use setpoint_types::object::Fence;
use tokio::time::Instant;

use super::machine::{self, CallId, Machine};
use super::name::{Layout, MEMBERS_MAX, Names, Slot, Which};
use super::settings::Options;
use super::shard::ShardId;
use super::view::{Part, View};

/// A lease as its process knows it: which slot it is a member in changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Own {
    Member,
    Shard(ShardId),
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    Tick,
    /// The leases, as the watch shows them now.
    View(View),
    Acquired {
        own: Own,
        call: CallId,
        sent: Instant,
        answer: Option<Acquired>,
    },
    Kept {
        own: Own,
        fence: Fence,
        sent: Instant,
        answer: Option<Kept>,
    },
    Released {
        own: Own,
        call: CallId,
        answered: bool,
    },
    Drained(ShardId, Fence),
    Fenced(ShardId, Fence),
    /// The process ends: leave, and give everything back.
    Stop,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Asks for a lease, and waits so long in its queue.
    Acquire {
        own: Own,
        call: CallId,
        lease: String,
        wait: Duration,
    },
    /// Gives up asking.
    Abandon(Own),
    Keep(Own, Fence),
    Release {
        own: Own,
        call: CallId,
        fence: Fence,
    },
    Grant(ShardId, Fence, Instant),
    Extend(ShardId, Instant),
    Drain(ShardId),
    Resume(ShardId),
    Revoke(ShardId),
    /// Its part has become another one.
    Part(Part),
}

/// The leases of one process. Feed it what happens, do what it says. What it guarantees is said at [`crate::election::Shards`].
#[derive(Clone, Debug)]
pub struct Group {
    options: Options,
    names: Names,
    me: String,
    layout: Layout,
    member: Machine,
    slot: Slot,
    shards: Vec<Machine>,
    view: View,
    part: Part,
    stopping: bool,
}

impl Group {
    /// `me` is unique among all processes, also among those that ran before.
    pub fn new(names: Names, me: String, options: Options, now: Instant) -> Self {
        let layout = Layout(options.settings().shards);
        let shard = |_| Machine::new(options.clone(), options.drain(), now);
        Self {
            member: Machine::new(options.clone(), Duration::ZERO, now),
            shards: (0..layout.0).map(shard).collect(),
            options,
            names,
            me,
            layout,
            slot: Slot(0),
            view: View::default(),
            part: Part::Unknown,
            stopping: false,
        }
    }

    /// When to tick at the latest.
    pub fn wake_at(&self) -> Option<Instant> {
        self.machines().filter_map(Machine::wake_at).min()
    }

    /// After [`Input::Stop`]: nothing is held any more, as far as is known.
    pub fn is_over(&self) -> bool {
        self.stopping && self.machines().all(Machine::is_idle)
    }

    fn machines(&self) -> impl Iterator<Item = &Machine> {
        std::iter::once(&self.member).chain(&self.shards)
    }

    /// `draw` gives random numbers, from 0 to 1.
    pub fn step(&mut self, input: Input, now: Instant, draw: &mut dyn FnMut() -> f64) -> Vec<Effect> {
        let mut effects = Vec::new();
        // Before anything is taken in: an answer must not be acted upon by a membership whose time is up.
        self.settle(now, draw, &mut effects);
        self.take(input, now, draw, &mut effects);
        self.settle(now, draw, &mut effects);
        effects
    }

    /// Lets time and what is known have their effect: on the membership first, then on what follows from it.
    fn settle(&mut self, now: Instant, draw: &mut dyn FnMut() -> f64, effects: &mut Vec<Effect>) {
        self.one(Own::Member, machine::Input::Want(!self.stopping), now, draw, effects);
        self.decide(effects);
        for (number, wanted) in (0..).zip(self.wanted()) {
            self.one(Own::Shard(ShardId(number)), machine::Input::Want(wanted), now, draw, effects);
        }
    }

    fn take(&mut self, input: Input, now: Instant, draw: &mut dyn FnMut() -> f64, effects: &mut Vec<Effect>) {
        let (own, input) = match input {
            Input::Tick => return,
            Input::Stop => {
                self.stopping = true;
                return;
            }
            Input::View(view) => {
                self.view = view;
                return self.look(now, draw, effects);
            }
            Input::Acquired { own, call, sent, answer } => {
                if own == Own::Member && answer.as_ref().is_some_and(|answer| !answer.acquired) {
                    // Somebody was faster; the next one may be free.
                    self.slot = Slot((self.slot.0 + 1) % MEMBERS_MAX);
                }
                (own, machine::Input::Acquired { call, sent, answer })
            }
            Input::Kept { own, fence, sent, answer } => (own, machine::Input::Kept { fence, sent, answer }),
            Input::Released { own, call, answered } => (own, machine::Input::Released { call, answered }),
            Input::Drained(shard, fence) => (Own::Shard(shard), machine::Input::Drained(fence)),
            Input::Fenced(shard, fence) => (Own::Shard(shard), machine::Input::Fenced(fence)),
        };
        self.one(own, input, now, draw, effects);
    }

    /// Tells every lease what the watch shows of it.
    fn look(&mut self, now: Instant, draw: &mut dyn FnMut() -> f64, effects: &mut Vec<Effect>) {
        for own in std::iter::once(Own::Member).chain((0..self.layout.0).map(|it| Own::Shard(ShardId(it)))) {
            let which = self.which(own);
            let Some(seen) = self.view.get(which, self.layout) else { continue };
            let mine = seen.holder.as_deref() == Some(self.me.as_str());
            let fence = self.fence(which, seen.epoch);
            self.one(own, machine::Input::Seen { fence, mine }, now, draw, effects);
        }
    }

    /// What this process is to do, from what it knows now.
    fn decide(&mut self, effects: &mut Vec<Effect>) {
        let part = match self.member.claimed() {
            Some((fence, joined)) if !self.stopping && joined <= self.view.revision => {
                self.view.part(&self.me, self.slot, fence.epoch, self.layout)
            }
            _ => Part::Unknown,
        };
        if part != self.part {
            effects.push(Effect::Part(part.clone()));
            self.part = part;
        }
    }

    fn wanted(&self) -> Vec<bool> {
        match &self.part {
            _ if self.stopping => vec![false; self.shards.len()],
            Part::Unknown => self.shards.iter().map(Machine::is_held).collect(),
            Part::StandBy(_) => vec![false; self.shards.len()],
            Part::Shards(shards) => {
                let mut wanted = vec![false; self.shards.len()];
                for shard in shards {
                    wanted[shard.index()] = true;
                }
                wanted
            }
        }
    }

    /// Steps one machine, and says for whom it said something.
    fn one(
        &mut self,
        own: Own,
        input: machine::Input,
        now: Instant,
        draw: &mut dyn FnMut() -> f64,
        effects: &mut Vec<Effect>,
    ) {
        let machine = match own {
            Own::Member => &mut self.member,
            Own::Shard(shard) => &mut self.shards[shard.index()],
        };
        for effect in machine.step(input, now, draw()) {
            effects.extend(self.effect(own, effect));
        }
    }

    fn effect(&mut self, own: Own, effect: machine::Effect) -> Option<Effect> {
        let shard = match own {
            Own::Member => None,
            Own::Shard(shard) => Some(shard),
        };
        match effect {
            machine::Effect::Acquire(call) => Some(self.ask(own, call)),
            machine::Effect::Abandon => Some(Effect::Abandon(own)),
            machine::Effect::Keep(fence) => Some(Effect::Keep(own, fence)),
            machine::Effect::Release(call, fence) => Some(Effect::Release { own, call, fence }),
            machine::Effect::Grant(fence, until) => shard.map(|shard| Effect::Grant(shard, fence, until)),
            machine::Effect::Extend(until) => shard.map(|shard| Effect::Extend(shard, until)),
            machine::Effect::Drain => shard.map(Effect::Drain),
            machine::Effect::Resume => shard.map(Effect::Resume),
            machine::Effect::Revoke => shard.map(Effect::Revoke),
        }
    }

    /// Which lease is asked for, and how. A member lease is not waited for: another slot does as well.
    fn ask(&mut self, own: Own, call: CallId) -> Effect {
        let wait = match own {
            Own::Member => {
                let free = |from| self.view.free_slot(self.layout, from, MEMBERS_MAX);
                // One that is ours already, by a request whose answer was lost, comes first.
                let slot = self.view.slot_of(self.layout, &self.me);
                let slot = slot.or_else(|| free(self.slot)).or_else(|| free(Slot(0)));
                self.slot = slot.unwrap_or(self.slot);
                Duration::ZERO
            }
            Own::Shard(_) => self.options.wait(),
        };
        Effect::Acquire { own, call, lease: self.names.lease(self.which(own), self.layout), wait }
    }

    fn which(&self, own: Own) -> Which {
        match own {
            Own::Member => Which::Member(self.slot),
            Own::Shard(shard) => Which::Shard(shard),
        }
    }

    fn fence(&self, which: Which, epoch: Epoch) -> Fence {
        let namespace = self.options.settings().namespace.clone();
        Fence { namespace, lease: self.names.lease(which, self.layout), epoch }
    }
}
