//! Which endpoint is asked next. Pure: time and randomness are arguments.
//!
//! Reads go to the less busy of two endpoints drawn at random; writes go to the leader, where it is known, because any
//! other node would only pass them on. Who failed lately is asked last, who asked for patience not before its time.

use std::time::Duration;

use tokio::time::Instant;

use crate::attempt::Health;
use crate::breaker::{Breaker, BreakerSettings};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
}

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The endpoint with this number.
    Use(usize),
    /// Nobody may be asked before.
    Wait(Instant),
}

/// How often it is looked whether a trial has ended.
const TRIAL_POLL: Duration = Duration::from_millis(50);

pub struct Balancer {
    members: Vec<Member>,
    /// The id of the node that led when last heard of.
    leader: Option<u64>,
}

struct Member {
    breaker: Breaker,
    in_flight: u32,
    /// It asked for patience until then.
    patience: Option<Instant>,
    /// The id of the node there, once known.
    node: Option<u64>,
}

impl Balancer {
    pub fn new(endpoints: usize, breaker: BreakerSettings) -> Self {
        let member = || Member { breaker: Breaker::new(breaker), in_flight: 0, patience: None, node: None };
        Self { members: (0..endpoints).map(|_| member()).collect(), leader: None }
    }

    /// `avoid` are the endpoints that have just failed: they are asked again only if there is no other.
    pub fn pick(&self, now: Instant, purpose: Purpose, avoid: &[usize], random: u64) -> Pick {
        let patient = |member: &Member| member.patience.is_none_or(|until| now >= until);
        let all = || 0..self.members.len();
        let good = |index: &usize| {
            let member = &self.members[*index];
            member.breaker.is_closed() && patient(member)
        };
        let admitted = |index: &usize| {
            let member = &self.members[*index];
            member.breaker.admits(now) && patient(member)
        };
        let tiers: [Vec<usize>; 3] = [
            all().filter(|index| good(index) && !avoid.contains(index)).collect(),
            all().filter(good).collect(),
            all().filter(admitted).collect(),
        ];
        match tiers.iter().find(|tier| !tier.is_empty()) {
            Some(tier) => Pick::Use(self.among(tier, purpose, random)),
            None => Pick::Wait(self.earliest(now)),
        }
    }

    fn among(&self, tier: &[usize], purpose: Purpose, random: u64) -> usize {
        if purpose == Purpose::Write
            && let Some(leader) = self.leader_index()
            && tier.contains(&leader)
        {
            return leader;
        }
        let size = tier.len() as u64;
        let (one, other) = (tier[(random % size) as usize], tier[((random >> 32) % size) as usize]);
        if self.members[other].in_flight < self.members[one].in_flight { other } else { one }
    }

    fn earliest(&self, now: Instant) -> Instant {
        let ready = |member: &Member| {
            let open = member.breaker.opens_until();
            let trying = (!member.breaker.admits(now) && open.is_none()).then(|| now + TRIAL_POLL);
            [open, member.patience, trying].into_iter().flatten().max().unwrap_or(now)
        };
        self.members.iter().map(ready).min().unwrap_or(now + TRIAL_POLL).max(now + Duration::from_millis(1))
    }

    pub fn sent(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.in_flight += 1;
        member.breaker.sent();
    }

    /// The request, or the stream it began, has ended. `judged` is false if nobody learned how.
    pub fn ended(&mut self, index: usize, judged: bool, now: Instant) {
        let member = &mut self.members[index];
        member.in_flight = member.in_flight.saturating_sub(1);
        if !judged {
            member.breaker.given_up(now);
        }
    }

    /// What became of a request.
    pub fn judged(
        &mut self,
        index: usize,
        health: Health,
        patience: Option<Duration>,
        now: Instant,
        fraction: f64,
    ) {
        let is_leader = self.leader_index() == Some(index);
        let member = &mut self.members[index];
        match health {
            Health::Well | Health::Unwilling => member.breaker.succeeded(),
            Health::Unreachable => member.breaker.failed(now, fraction),
        }
        member.patience = patience.map(|wait| now + wait);
        // Whoever it was, it leads no longer, or cannot be reached, which is the same to us.
        if is_leader && health != Health::Well {
            self.leader = None;
        }
    }

    /// A node told who it is and who leads.
    pub fn learned(&mut self, index: usize, node: u64, leader: Option<u64>) {
        self.members[index].node = Some(node);
        if leader.is_some() {
            self.leader = leader;
        }
    }

    pub fn leader_index(&self) -> Option<usize> {
        let leader = self.leader?;
        self.members.iter().position(|member| member.node == Some(leader))
    }

    /// Those that may be tried again while others serve.
    pub fn recovering(&self, now: Instant) -> Vec<usize> {
        let waits = |member: &Member| !member.breaker.is_closed() && member.breaker.admits(now);
        self.members.iter().enumerate().filter(|(_, member)| waits(member)).map(|(index, _)| index).collect()
    }

    pub fn is_closed(&self, index: usize) -> bool {
        self.members[index].breaker.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> (Balancer, Instant) {
        (Balancer::new(3, BreakerSettings::default()), Instant::now())
    }

    fn used(balancer: &Balancer, now: Instant, purpose: Purpose, avoid: &[usize]) -> Vec<usize> {
        let random = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let picks = (0..200).map(|number| balancer.pick(now, purpose, avoid, random(number)));
        let mut used: Vec<usize> = picks
            .map(|pick| match pick {
                Pick::Use(index) => index,
                Pick::Wait(_) => usize::MAX,
            })
            .collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    fn break_down(balancer: &mut Balancer, index: usize, now: Instant) {
        (0..3).for_each(|_| balancer.judged(index, Health::Unreachable, None, now, 0.0));
    }

    #[test]
    fn reads_are_spread_over_those_that_are_well() {
        let (mut balancer, now) = three();
        assert_eq!(used(&balancer, now, Purpose::Read, &[]), [0, 1, 2]);
        assert_eq!(used(&balancer, now, Purpose::Read, &[1]), [0, 2]);
        assert_eq!(used(&balancer, now, Purpose::Read, &[1, 2]), [0]);
        break_down(&mut balancer, 0, now);
        assert_eq!(used(&balancer, now, Purpose::Read, &[]), [1, 2]);
        assert_eq!(used(&balancer, now, Purpose::Read, &[1]), [2]);
    }

    #[test]
    fn the_less_busy_of_two_is_taken() {
        let mut balancer = Balancer::new(2, BreakerSettings::default());
        (0..5).for_each(|_| balancer.sent(0));
        assert_eq!(balancer.pick(Instant::now(), Purpose::Read, &[], 1 << 32), Pick::Use(1));
        (0..5).for_each(|_| balancer.ended(0, true, Instant::now()));
        balancer.sent(1);
        assert_eq!(balancer.pick(Instant::now(), Purpose::Read, &[], 1 << 32), Pick::Use(0));
    }

    #[test]
    fn writes_go_to_the_leader_until_it_fails() {
        let (mut balancer, now) = three();
        balancer.learned(2, 33, Some(33));
        assert_eq!(used(&balancer, now, Purpose::Write, &[]), [2]);
        assert_eq!(used(&balancer, now, Purpose::Read, &[]), [0, 1, 2]);
        assert_eq!(used(&balancer, now, Purpose::Write, &[2]), [0, 1], "it has just failed");
        balancer.judged(2, Health::Unwilling, None, now, 0.0);
        assert_eq!(used(&balancer, now, Purpose::Write, &[]), [0, 1, 2], "it leads no longer");
    }

    #[test]
    fn patience_is_kept_and_the_wait_is_the_shortest() {
        let (mut balancer, now) = three();
        for (index, millis) in [(0, 500), (1, 300), (2, 400)] {
            balancer.judged(index, Health::Unwilling, Some(Duration::from_millis(millis)), now, 0.0);
        }
        let until = now + Duration::from_millis(300);
        assert_eq!(balancer.pick(now, Purpose::Read, &[], 0), Pick::Wait(until));
        assert_eq!(balancer.pick(until, Purpose::Read, &[], 0), Pick::Use(1));
    }

    #[test]
    fn if_all_are_broken_the_first_that_may_be_tried_is_by_one_request() {
        let (mut balancer, now) = three();
        (0..3).for_each(|index| break_down(&mut balancer, index, now));
        let Pick::Wait(until) = balancer.pick(now, Purpose::Read, &[], 0) else { panic!("all are open") };
        assert!(until > now);
        assert_eq!(balancer.recovering(until), [0, 1, 2]);
        for _ in 0..3 {
            let Pick::Use(index) = balancer.pick(until, Purpose::Read, &[], 7) else { panic!("a trial") };
            balancer.sent(index);
        }
        let Pick::Wait(later) = balancer.pick(until, Purpose::Read, &[], 0) else { panic!("one trial each") };
        assert!(later > until);
        balancer.ended(1, false, until);
        assert_eq!(balancer.pick(until, Purpose::Read, &[], 0), Pick::Use(1), "its trial was given up");
    }
}
