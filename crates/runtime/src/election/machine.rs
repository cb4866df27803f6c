//! One lease of this process without its network: what comes in leads to what is to be done, step by step. Pure.
//!
//! ```text
//!          want                  acquired                 not wanted
//!  Idle ──────────▶ Acquiring ──────────────▶ Held ─────────────────────▶ Releasing
//!   ▲ ▲                │  not wanted, failed    │ ▲   runs drained, or        │
//!   │ └────────────────┘                   lost │ │   their time is up         │ answered, or
//!   └───────────────────────────────────────────┘ └── kept                     │ past the TTL
//!   ▲                                                                          │
//!   └──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The time of a hold is counted from before the request was sent that started it, on the local clock. A hold whose time is
//! nearly up is *held* but not *claimed*: nobody acts on it until a keep-alive says that it is still ours. That is so after
//! minutes without a server, after a pause of the process, and when a request waited longer in the queue than the lease lasts.

use std::time::Duration;

use setpoint_client::{Acquired, Kept};
use setpoint_types::Revision;
use setpoint_types::object::Fence;
use tokio::time::Instant;

use super::settings::Options;

/// Counts requests, so that the answer to one that was given up is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The time that [`Machine::wake_at`] names has come, or may have.
    Tick,
    /// Whether the lease should be this process's.
    Want(bool),
    /// The answer to [`Effect::Acquire`]; none if there was none that counts. `sent` is from before it was sent.
    Acquired { call: CallId, sent: Instant, answer: Option<Acquired> },
    /// The answer to [`Effect::Keep`].
    Kept { fence: Fence, sent: Instant, answer: Option<Kept> },
    /// The answer to [`Effect::Release`]: whether there was one.
    Released { call: CallId, answered: bool },
    /// No run is left on a lease that is being drained.
    Drained(Fence),
    /// A write was refused because the lease is not held at this epoch.
    Fenced(Fence),
    /// The watch shows the last epoch that was given out, and whether this process holds the lease at it.
    Seen { fence: Fence, mine: bool },
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Asks for the lease.
    Acquire(CallId),
    /// Gives up asking. Whether it came too late is seen by the watch.
    Abandon,
    /// Sends a keep-alive; every one is answered.
    Keep(Fence),
    Release(CallId, Fence),
    /// It may be acted on until then.
    Grant(Fence, Instant),
    /// The same hold, for longer.
    Extend(Instant),
    /// No run may begin; say when the last one has ended.
    Drain,
    /// Runs may begin again.
    Resume,
    /// It may not be acted on any more.
    Revoke,
}

#[derive(Clone, Debug)]
enum State {
    /// Not asked for before then.
    Idle {
        until: Instant,
    },
    Acquiring {
        call: CallId,
    },
    Held(Hold),
    /// It is given back. After `over` it has run out by itself.
    Releasing {
        fence: Fence,
        call: Option<CallId>,
        next: Instant,
        over: Instant,
    },
}

#[derive(Clone, Debug)]
struct Hold {
    fence: Fence,
    revision: Revision,
    since: Instant,
    /// Before the request that started its time.
    sent: Instant,
    ttl: Duration,
    keep: Keep,
    claim: Claim,
}

#[derive(Clone, Copy, Debug)]
enum Keep {
    Due(Instant),
    UnderWay,
}

/// Whether the process acts on a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    None,
    Granted,
    /// It was granted, runs end, and none begins.
    Draining {
        until: Instant,
    },
}

/// A keep-alive that failed is sent again after what the backoff says for so many failures: some 200 ms. The stream has a
/// backoff of its own.
const RETRY: u32 = 2;

/// One lease. Feed it what happens, do what it says.
#[derive(Clone, Debug)]
pub struct Machine {
    options: Options,
    drain: Duration,
    state: State,
    wanted: bool,
    calls: CallId,
    /// The last hold, which is over as far as this process is concerned.
    ended: Option<Fence>,
    failures: u32,
}

impl Machine {
    /// `drain` is how long runs may take to end.
    pub fn new(options: Options, drain: Duration, now: Instant) -> Self {
        Self {
            options,
            drain,
            state: State::Idle { until: now },
            wanted: false,
            calls: CallId::default(),
            ended: None,
            failures: 0,
        }
    }

    /// The hold that may be acted on, and the revision that made it.
    pub fn claimed(&self) -> Option<(&Fence, Revision)> {
        match &self.state {
            State::Held(hold) if hold.claim != Claim::None => Some((&hold.fence, hold.revision)),
            _ => None,
        }
    }

    /// It is held, as far as is known.
    pub fn is_held(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    /// Nothing is held and nothing under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { .. })
    }

    /// When to tick at the latest; never, if nothing happens by itself.
    pub fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Idle { until } => self.wanted.then_some(*until),
            State::Acquiring { .. } => None,
            State::Releasing { call: Some(_), over, .. } => Some(*over),
            State::Releasing { next, over, .. } => Some(*next.min(over)),
            State::Held(hold) => {
                let keep = match hold.keep {
                    Keep::Due(at) => Some(at),
                    Keep::UnderWay => None,
                };
                let step_down =
                    (hold.claim != Claim::None).then(|| hold.sent + self.options.valid_for(hold.ttl));
                let drained = match hold.claim {
                    Claim::Draining { until } => Some(until),
                    Claim::None | Claim::Granted => None,
                };
                [keep, step_down, drained].into_iter().flatten().min()
            }
        }
    }

    /// `fraction` is random, from 0 to 1: processes that failed together do not come back together.
    pub fn step(&mut self, input: Input, now: Instant, fraction: f64) -> Vec<Effect> {
        let mut effects = Vec::new();
        // Whatever came, it came too late for a claim whose time is up.
        self.expire(now, &mut effects);
        match input {
            Input::Tick => {}
            Input::Want(wanted) => self.wanted = wanted,
            Input::Acquired { call, sent, answer } => self.acquired(call, sent, answer, now, fraction),
            Input::Kept { fence, sent, answer } => {
                self.kept(&fence, sent, answer, now, fraction, &mut effects);
            }
            Input::Released { call, answered } => self.released(call, answered, now, fraction),
            Input::Drained(fence) => {
                if let Some(hold) = self.hold(&fence)
                    && let Claim::Draining { .. } = hold.claim
                {
                    hold.claim = Claim::Draining { until: now };
                }
            }
            Input::Fenced(fence) => self.lost(&fence, now, fraction, &mut effects),
            Input::Seen { fence, mine } => self.seen(fence, mine, now, fraction, &mut effects),
        }
        self.expire(now, &mut effects);
        self.settle(now, &mut effects);
        effects
    }

    fn hold(&mut self, fence: &Fence) -> Option<&mut Hold> {
        match &mut self.state {
            State::Held(hold) if hold.fence == *fence => Some(hold),
            _ => None,
        }
    }

    fn acquired(
        &mut self,
        call: CallId,
        sent: Instant,
        answer: Option<Acquired>,
        now: Instant,
        fraction: f64,
    ) {
        if !matches!(&self.state, State::Acquiring { call: asked } if *asked == call) {
            return;
        }
        match answer {
            // An epoch that is over for us does not come back: runs of it may have been told so. The next one is another.
            Some(answer) if answer.acquired && self.is_over(&answer.fence) => {
                let (fence, over) = (answer.fence, now + answer.ttl);
                self.state = State::Releasing { fence, call: None, next: now, over };
            }
            Some(answer) if answer.acquired => {
                let keep = Keep::Due(sent + self.options.renew_after(answer.ttl));
                let (fence, revision, ttl) = (answer.fence, answer.revision, answer.ttl);
                let hold = Hold { fence, revision, since: now, sent, ttl, keep, claim: Claim::None };
                self.state = State::Held(hold);
            }
            // Somebody else has it, and the wait is over. A moment, so that this never becomes a hot loop.
            Some(_) => {
                self.state = State::Idle { until: now + self.options.backoff().wait(0, fraction) };
                self.failures = 0;
            }
            None => self.fail(now, fraction),
        }
    }

    fn kept(
        &mut self,
        fence: &Fence,
        sent: Instant,
        answer: Option<Kept>,
        now: Instant,
        fraction: f64,
        effects: &mut Vec<Effect>,
    ) {
        let State::Held(hold) = &mut self.state else { return };
        if hold.fence != *fence {
            return;
        }
        match answer {
            Some(kept) if kept.held && kept.epoch == fence.epoch => {
                (hold.sent, hold.ttl) = (sent.max(hold.sent), kept.ttl);
                hold.keep = Keep::Due(hold.sent + self.options.renew_after(hold.ttl));
                if hold.claim != Claim::None {
                    effects.push(Effect::Extend(hold.sent + self.options.valid_for(hold.ttl)));
                }
                self.failures = 0;
            }
            Some(_) => self.lost(fence, now, fraction, effects),
            None => hold.keep = Keep::Due(now + self.options.backoff().wait(RETRY, fraction)),
        }
    }

    fn released(&mut self, call: CallId, answered: bool, now: Instant, fraction: f64) {
        let State::Releasing { fence, call: asked, next, .. } = &mut self.state else { return };
        if *asked != Some(call) {
            return;
        }
        if answered {
            self.ended = Some(fence.clone());
            self.state = State::Idle { until: now };
            self.failures = 0;
        } else {
            *asked = None;
            *next = now + self.options.backoff().wait(self.failures, fraction);
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Whether a hold is known to be over. Epochs of one lease only grow.
    fn is_over(&self, fence: &Fence) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.lease == fence.lease && fence.epoch <= ended.epoch)
    }

    /// This hold is over.
    fn lost(&mut self, fence: &Fence, now: Instant, fraction: f64, effects: &mut Vec<Effect>) {
        let Some(hold) = self.hold(fence) else { return };
        let (claim, lasted, ttl) = (hold.claim, now.saturating_duration_since(hold.since), hold.ttl);
        if claim != Claim::None {
            effects.push(Effect::Revoke);
        }
        // One that is lost as soon as it is taken, again and again, must not be fought for without a pause.
        self.failures = if lasted >= ttl { 0 } else { self.failures };
        self.ended = Some(fence.clone());
        self.fail(now, fraction);
    }

    fn fail(&mut self, now: Instant, fraction: f64) {
        self.state = State::Idle { until: now + self.options.backoff().wait(self.failures, fraction) };
        self.failures = self.failures.saturating_add(1);
    }

    /// A hold that the watch shows to be over is lost. One that it shows and nobody here knows of, from a request that was given
    /// up too late, is given back; if the lease is wanted, asking for it brings the hold to light.
    fn seen(&mut self, fence: Fence, mine: bool, now: Instant, fraction: f64, effects: &mut Vec<Effect>) {
        match &self.state {
            State::Held(hold) if hold.fence.lease == fence.lease => {
                let held = hold.fence.clone();
                if fence.epoch > held.epoch || (fence.epoch == held.epoch && !mine) {
                    self.lost(&held, now, fraction, effects);
                }
            }
            State::Idle { .. } if mine && !self.wanted && !self.is_over(&fence) => {
                let over = now + self.options.ttl();
                self.state = State::Releasing { fence, call: None, next: now, over };
            }
            _ => {}
        }
    }

    /// Steps down from a hold of which nothing was heard for too long.
    fn expire(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let State::Held(hold) = &mut self.state else { return };
        if hold.claim != Claim::None && hold.sent + self.options.valid_for(hold.ttl) <= now {
            hold.claim = Claim::None;
            effects.push(Effect::Revoke);
        }
    }

    /// Does what the time and the wish ask for, until nothing is left to do.
    fn settle(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match &mut self.state {
            State::Idle { until } => {
                if self.wanted && *until <= now {
                    let call = self.next_call();
                    self.state = State::Acquiring { call };
                    effects.push(Effect::Acquire(call));
                }
            }
            State::Acquiring { .. } => {
                if !self.wanted {
                    self.state = State::Idle { until: now };
                    effects.push(Effect::Abandon);
                }
            }
            State::Held(_) => self.settle_hold(now, effects),
            State::Releasing { fence, over, .. } if *over <= now => {
                self.ended = Some(fence.clone());
                self.state = State::Idle { until: now };
                self.settle(now, effects);
            }
            State::Releasing { fence, call: None, next, .. } if *next <= now => {
                let fence = fence.clone();
                let call = self.next_call();
                if let State::Releasing { call: asked, .. } = &mut self.state {
                    *asked = Some(call);
                }
                effects.push(Effect::Release(call, fence));
            }
            State::Releasing { .. } => {}
        }
    }

    fn settle_hold(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let (wanted, drain) = (self.wanted, self.drain);
        let State::Held(hold) = &mut self.state else { return };
        let valid_until = hold.sent + self.options.valid_for(hold.ttl);
        match hold.claim {
            Claim::None if wanted && now < valid_until => {
                hold.claim = Claim::Granted;
                effects.push(Effect::Grant(hold.fence.clone(), valid_until));
            }
            Claim::Granted if !wanted && !drain.is_zero() => {
                hold.claim = Claim::Draining { until: now + drain };
                effects.push(Effect::Drain);
            }
            Claim::Draining { .. } if wanted => {
                hold.claim = Claim::Granted;
                effects.push(Effect::Resume);
            }
            Claim::None | Claim::Granted | Claim::Draining { .. } => {}
        }
        let done = match hold.claim {
            Claim::None => true,
            Claim::Granted => drain.is_zero(),
            Claim::Draining { until } => until <= now,
        };
        if !wanted && done {
            if hold.claim != Claim::None {
                effects.push(Effect::Revoke);
            }
            // The server may have counted longer than we did, so giving back is worth a try also when our time is up.
            let over = now + hold.ttl;
            self.state = State::Releasing { fence: hold.fence.clone(), call: None, next: now, over };
            self.settle(now, effects);
            return;
        }
        if matches!(hold.keep, Keep::Due(at) if at <= now) {
            hold.keep = Keep::UnderWay;
            effects.push(Effect::Keep(hold.fence.clone()));
        }
    }

    fn next_call(&mut self) -> CallId {
        self.calls.0 += 1;
        self.calls
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Epoch;

    use super::*;

    const TTL: Duration = Duration::from_secs(15);

    /// A machine and the time it lives in.
    #[derive(Clone)]
    struct Stand {
        machine: Machine,
        start: Instant,
    }

    fn fence(epoch: u64) -> Fence {
        Fence { namespace: "default".into(), lease: "l".into(), epoch: Epoch(epoch) }
    }

    impl Stand {
        fn new() -> Self {
            let start = Instant::now();
            Self { machine: Machine::new(Options::default(), Duration::from_secs(10), start), start }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn step(&mut self, seconds: u64, input: Input) -> Vec<Effect> {
            let now = self.at(seconds);
            self.machine.step(input, now, 0.0)
        }

        /// The answer to the call of this number, which was sent then.
        fn acquired(&mut self, seconds: u64, call: u64, sent: u64, epoch: u64) -> Vec<Effect> {
            let answer = Acquired {
                acquired: true,
                holder: "me".into(),
                ttl: TTL,
                revision: Revision::new(epoch),
                fence: fence(epoch),
            };
            let (call, sent) = (CallId(call), self.at(sent));
            self.step(seconds, Input::Acquired { call, sent, answer: Some(answer) })
        }

        fn kept(&mut self, seconds: u64, sent: u64, epoch: u64, held: bool) -> Vec<Effect> {
            let answer = Some(Kept { held, epoch: Epoch(epoch), ttl: TTL });
            let input = Input::Kept { fence: fence(epoch), sent: self.at(sent), answer };
            self.step(seconds, input)
        }

        /// Held and claimed since 0.
        fn holding() -> Self {
            let mut stand = Self::new();
            assert_eq!(stand.step(0, Input::Want(true)), [Effect::Acquire(CallId(1))]);
            let until = stand.at(12);
            assert_eq!(stand.acquired(0, 1, 0, 7), [Effect::Grant(fence(7), until)]);
            stand
        }
    }

    #[test]
    fn it_renews_after_a_third_and_steps_down_before_the_time_is_up() {
        let mut stand = Stand::holding();
        assert_eq!(stand.machine.wake_at(), Some(stand.start + TTL * 33 / 100));
        assert_eq!(stand.step(5, Input::Tick), [Effect::Keep(fence(7))]);
        let until = stand.at(17);
        assert_eq!(stand.kept(6, 5, 7, true), [Effect::Extend(until)], "from when it was sent");
        assert_eq!(stand.step(10, Input::Tick), [Effect::Keep(fence(7))]);
        let lost = Input::Kept { fence: fence(7), sent: stand.at(10), answer: None };
        assert_eq!(stand.step(16, lost), []);
        assert_eq!(stand.step(17, Input::Tick), [Effect::Revoke, Effect::Keep(fence(7))]);
        let until = stand.at(52);
        let effects = stand.kept(41, 40, 7, true);
        assert_eq!(effects, [Effect::Grant(fence(7), until)], "the server says it is still ours");
    }

    #[test]
    fn what_was_waited_for_longer_than_it_lasts_is_acted_on_only_after_a_keep_alive() {
        let mut stand = Stand::new();
        stand.step(0, Input::Want(true));
        assert_eq!(stand.acquired(20, 1, 0, 7), [Effect::Keep(fence(7))]);
        assert!(stand.machine.is_held() && stand.machine.claimed().is_none());
        let until = stand.at(32);
        assert_eq!(stand.kept(21, 20, 7, true), [Effect::Grant(fence(7), until)]);
    }

    #[test]
    fn what_comes_late_is_too_late() {
        let mut stand = Stand::holding();
        stand.step(5, Input::Tick);
        // The process stood still with the answer in its hands.
        let effects = stand.kept(100, 5, 7, true);
        assert_eq!(effects, [Effect::Revoke, Effect::Keep(fence(7))]);
        assert_eq!(stand.kept(101, 100, 7, false), [], "nothing is left to revoke");
        assert!(stand.machine.is_idle());
    }

    #[test]
    fn a_hold_is_lost_by_a_keep_alive_a_fenced_write_or_the_watch() {
        let seen = |epoch, mine| Input::Seen { fence: fence(epoch), mine };
        for input in [Input::Fenced(fence(7)), seen(8, false), seen(7, false)] {
            let mut stand = Stand::holding();
            assert_eq!(stand.step(1, input.clone()), [Effect::Revoke], "{input:?}");
            assert_eq!(stand.step(2, Input::Tick), [Effect::Acquire(CallId(2))]);
        }
        let mut stand = Stand::holding();
        assert_eq!(stand.kept(1, 1, 7, false), [Effect::Revoke]);
        for input in [Input::Fenced(fence(6)), seen(6, false), seen(7, true)] {
            let mut stand = Stand::holding();
            assert_eq!(stand.step(1, input.clone()), [], "{input:?} is no news");
        }
    }

    #[test]
    fn what_was_given_up_too_late_is_seen_and_given_back() {
        let mut stand = Stand::new();
        stand.step(0, Input::Want(true));
        assert_eq!(stand.step(1, Input::Want(false)), [Effect::Abandon]);
        assert_eq!(stand.acquired(2, 1, 0, 7), [], "nobody asks any more");
        let seen = Input::Seen { fence: fence(7), mine: true };
        assert_eq!(stand.step(3, seen.clone()), [Effect::Release(CallId(2), fence(7))]);
        assert_eq!(stand.step(4, Input::Released { call: CallId(2), answered: true }), []);
        assert_eq!(stand.step(5, seen), [], "that is old");
    }

    #[test]
    fn runs_end_before_it_is_given_back_but_not_for_ever() {
        let mut stand = Stand::holding();
        assert_eq!(stand.step(1, Input::Want(false)), [Effect::Drain]);
        assert_eq!(stand.step(2, Input::Want(true)), [Effect::Resume]);
        assert_eq!(stand.step(3, Input::Want(false)), [Effect::Drain]);
        let release = [Effect::Revoke, Effect::Release(CallId(2), fence(7))];
        assert_eq!(stand.clone().step(4, Input::Drained(fence(7))), release);
        stand.step(5, Input::Tick);
        stand.kept(5, 5, 7, true);
        assert_eq!(stand.step(13, Input::Tick), release);
    }

    #[test]
    fn giving_back_is_tried_until_it_is_answered_or_has_run_out() {
        let mut stand = Stand::holding();
        stand.step(1, Input::Want(false));
        stand.step(1, Input::Drained(fence(7)));
        let unanswered = |call| Input::Released { call: CallId(call), answered: false };
        assert_eq!(stand.step(2, unanswered(2)), []);
        assert_eq!(stand.step(3, Input::Tick), [Effect::Release(CallId(3), fence(7))]);
        stand.step(4, unanswered(3));
        assert_eq!(stand.step(16, Input::Want(true)), [Effect::Acquire(CallId(4))], "it is over by itself");
        // The server counted longer: the same epoch is not taken up again.
        assert_eq!(stand.acquired(17, 4, 16, 7), [Effect::Release(CallId(5), fence(7))]);
    }
}
