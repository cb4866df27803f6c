//! The informer without its network: what comes in leads to what is to be done, step by step. Pure.
//!
//! It begins with the whole state and goes on with changes. A stream that breaks or stalls is resumed after the last revision
//! that is known to be complete; the whole state is asked for again only when the server no longer keeps what comes next. Until
//! it is there, the cache stays as it was. A stream that is silent is given up, later each time, so that a slow server is waited for
//! in the end.

use std::time::Duration;

use setpoint_api::raw::ReceivedEvent;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_client::{Error, Reason};
use setpoint_types::Revision;
use tokio::time::Instant;

use super::settings::InformerSettings;

/// Counts streams, so that what comes late from one that was given up is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The time that [`Machine::wake_at`] names has come, or may have.
    Tick,
    Opened(StreamId),
    Answer(StreamId, Vec<ReceivedEvent>),
    Ended(StreamId, End),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its time was up, or its node stops.
    InOrder,
    /// What comes next is no longer kept.
    Expired,
    /// The whole state was read so slowly that a compaction overtook it.
    TooSlow,
    /// The node has not come to the revision asked for. This is the one it has.
    NotReached(Revision),
    Failed,
}

impl End {
    pub fn of(error: &Error) -> Self {
        match error.refusal() {
            Some(refusal) => match refusal.reason {
                Reason::Expired => Self::Expired,
                Reason::TooSlow => Self::TooSlow,
                Reason::Timeout if !refusal.revision.is_none() => Self::NotReached(refusal.revision),
                _ => Self::Failed,
            },
            None => Self::Failed,
        }
    }
}

/// Why a whole state is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relist {
    /// There is none yet.
    Start,
    Expired,
    TooSlow,
    /// No node has come to where the cache is, again and again: the cluster was restored to an earlier state.
    Behind,
}

/// From where a stream is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    State(Relist),
    After(Revision),
}

/// What is to be done, in order.
#[derive(Debug)]
pub enum Effect {
    /// Opens a stream; the one before is closed. The cache forgets what it has received of a whole state.
    Open(StreamId, Start),
    /// Closes the stream, which is of no more use. `stalled`: nothing came from it.
    Close { stalled: bool },
    /// A part of the whole state.
    Stage(Vec<ReceivedEvent>),
    /// The whole state is there.
    Finish(Revision),
    /// Changes; everything up to the revision is in them or before them.
    Apply(Vec<ReceivedEvent>, Revision),
}

/// Doublings of the time that a silent stream is given, so that the last is some ten minutes by default.
const PATIENCE_MAX: u32 = 6;

/// So many nodes in a row must be behind before it is believed of the cluster.
const BEHIND_MAX: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum State {
    /// For the next stream.
    Waiting {
        until: Instant,
    },
    Opening {
        since: Instant,
    },
    /// The whole state is coming.
    Receiving {
        since: Instant,
        heard: Instant,
    },
    Following {
        since: Instant,
        heard: Instant,
    },
}

/// One informer. Feed it what happens, do what it says.
///
/// **Guarantees**: whatever happens to streams, what it lets the cache take in is in order and without a gap (R1); and a server that
/// speaks within some ten minutes of being asked is listened to in the end. **Assumes** that effects are done in order, and that a
/// stream sends whole revisions (O1).
#[derive(Debug)]
pub struct Machine {
    settings: InformerSettings,
    state: State,
    stream: StreamId,
    /// Everything up to here was given to the cache; none before the first whole state.
    position: Option<Revision>,
    /// A whole state is needed, for this reason.
    relist: Option<Relist>,
    failures: u32,
    behind: u32,
    /// Streams in a row that were given up for their silence, since one was listened to.
    stalls: u32,
}

impl Machine {
    pub fn new(settings: InformerSettings, now: Instant) -> Self {
        Self {
            settings,
            state: State::Waiting { until: now },
            stream: StreamId::default(),
            position: None,
            relist: Some(Relist::Start),
            failures: 0,
            behind: 0,
            stalls: 0,
        }
    }

    pub fn position(&self) -> Option<Revision> {
        self.position
    }

    /// When to tick at the latest.
    pub fn wake_at(&self) -> Instant {
        match self.state {
            State::Waiting { until } => until,
            // The client has the same deadline; this is for one that does not keep it.
            State::Opening { since } => since + 2 * self.settings.open_timeout,
            State::Receiving { heard, .. } | State::Following { heard, .. } => heard + self.patience(),
        }
    }

    /// How long a stream may be silent. Longer each time in a row: what is slow, and not dead, comes to speak in the end, also if there
    /// is nobody else to ask.
    fn patience(&self) -> Duration {
        self.settings.stalled_after * 2u32.pow(self.stalls.min(PATIENCE_MAX))
    }

    /// `fraction` is random, from 0 to 1: informers that lost their streams together do not come back together.
    pub fn step(&mut self, input: Input, now: Instant, fraction: f64) -> Vec<Effect> {
        match input {
            Input::Tick => self.tick(now, fraction),
            Input::Opened(stream) if stream == self.stream => {
                if let State::Opening { .. } = self.state {
                    self.state = match self.relist {
                        Some(_) => State::Receiving { since: now, heard: now },
                        None => State::Following { since: now, heard: now },
                    };
                }
                Vec::new()
            }
            Input::Answer(stream, events) if stream == self.stream => self.answer(events, now),
            Input::Ended(stream, end) if stream == self.stream => self.ended(end, now, fraction),
            // Of a stream that was given up.
            Input::Opened(_) | Input::Answer(..) | Input::Ended(..) => Vec::new(),
        }
    }

    fn tick(&mut self, now: Instant, fraction: f64) -> Vec<Effect> {
        if now < self.wake_at() {
            return Vec::new();
        }
        if let State::Waiting { .. } = self.state {
            self.stream.0 += 1;
            self.state = State::Opening { since: now };
            let start = match (self.relist, self.position) {
                (None, Some(position)) => Start::After(position),
                (relist, _) => Start::State(relist.unwrap_or(Relist::Start)),
            };
            return vec![Effect::Open(self.stream, start)];
        }
        let was_open = !matches!(self.state, State::Opening { .. });
        self.retire(now, fraction);
        self.stalls = self.stalls.saturating_add(u32::from(was_open));
        vec![Effect::Close { stalled: true }]
    }

    fn answer(&mut self, events: Vec<ReceivedEvent>, now: Instant) -> Vec<Effect> {
        match self.state {
            State::Receiving { since, .. } => self.receive(events, since, now),
            State::Following { since, .. } => {
                self.state = State::Following { since, heard: now };
                self.follow(events).into_iter().collect()
            }
            State::Waiting { .. } | State::Opening { .. } => Vec::new(),
        }
    }

    /// The whole state comes until a bookmark ends it; what follows in the same answer are changes.
    fn receive(&mut self, mut events: Vec<ReceivedEvent>, since: Instant, now: Instant) -> Vec<Effect> {
        let is_end = |event: &ReceivedEvent| event.kind() == Type::Bookmark && event.initial_state_end;
        let Some(end) = events.iter().position(is_end) else {
            self.state = State::Receiving { since, heard: now };
            return vec![Effect::Stage(events)];
        };
        let changes = events.split_off(end + 1);
        let at = events.pop().map_or(Revision::NONE, |bookmark| Revision::new(bookmark.revision));
        self.state = State::Following { since, heard: now };
        (self.position, self.relist, self.behind, self.stalls) = (Some(at), None, 0, 0);
        let mut effects = vec![Effect::Stage(events), Effect::Finish(at)];
        effects.extend(self.follow(changes));
        effects
    }

    /// An answer holds whole revisions, so after it everything up to its last one is known.
    fn follow(&mut self, events: Vec<ReceivedEvent>) -> Option<Effect> {
        let position = self.position.unwrap_or_default();
        let reached = events.iter().map(|event| Revision::new(event.revision)).max().unwrap_or_default();
        (self.behind, self.stalls) = (0, 0);
        if reached <= position {
            return None;
        }
        self.position = Some(reached);
        Some(Effect::Apply(events, reached))
    }

    fn ended(&mut self, end: End, now: Instant, fraction: f64) -> Vec<Effect> {
        match end {
            End::Expired => self.relist = Some(Relist::Expired),
            End::TooSlow => self.relist = Some(Relist::TooSlow),
            End::NotReached(at) if self.position.is_some_and(|position| at < position) => {
                self.behind += 1;
                if self.behind >= BEHIND_MAX {
                    self.relist = Some(Relist::Behind);
                }
            }
            End::NotReached(_) | End::InOrder | End::Failed => {}
        }
        self.retire(now, fraction);
        vec![Effect::Close { stalled: false }]
    }

    /// Waits for the next stream.
    fn retire(&mut self, now: Instant, fraction: f64) {
        let lasted = match self.state {
            State::Following { since, .. } => now.saturating_duration_since(since),
            _ => Duration::ZERO,
        };
        if lasted >= self.settings.healthy_after {
            self.failures = 0;
        }
        // What is left to come of this stream is of no more interest.
        self.stream.0 += 1;
        self.state = State::Waiting { until: now + self.settings.backoff.wait(self.failures, fraction) };
        self.failures = self.failures.saturating_add(1);
    }

    /// The cache could not take in what it was given: the stream cannot be gone on with.
    pub fn unusable(&mut self, now: Instant, fraction: f64) -> Vec<Effect> {
        // Nobody knows what was lost, so everything is asked for anew.
        self.relist = Some(self.relist.unwrap_or(Relist::Expired));
        self.retire(now, fraction);
        vec![Effect::Close { stalled: false }]
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use setpoint_api::setpoint::v1 as pb;

    use super::*;

    fn whole_state(at: u64) -> Vec<ReceivedEvent> {
        let end = pb::WatchEvent {
            r#type: Type::Bookmark.into(),
            revision: at,
            initial_state_end: true,
            ..Default::default()
        };
        vec![ReceivedEvent::read(&end.encode_to_vec().into()).expect("as it was made")]
    }

    /// Lets time pass until it is ticked, and tells what it does then.
    fn tick(machine: &mut Machine, now: &mut Instant) -> Vec<Effect> {
        *now = machine.wake_at();
        machine.step(Input::Tick, *now, 0.5)
    }

    /// A server whose streams are silent for so long at first: how many it takes until one speaks.
    fn streams_until_spoken_to(machine: &mut Machine, now: &mut Instant, silence: Duration) -> u32 {
        for count in 1..100 {
            let effects = tick(machine, now);
            let Some(Effect::Open(stream, _)) = effects.first() else { panic!("{effects:?}") };
            let (stream, opened) = (*stream, *now);
            machine.step(Input::Opened(stream), *now, 0.5);
            if machine.wake_at() > opened + silence {
                *now = opened + silence;
                machine.step(Input::Answer(stream, whole_state(5)), *now, 0.5);
                return count;
            }
            tick(machine, now);
        }
        panic!("never");
    }

    #[test]
    fn a_server_that_is_slow_to_speak_is_waited_for_in_the_end() {
        let (settings, mut now) = (InformerSettings::default(), Instant::now());
        for (silence, streams) in [(5, 1), (15, 2), (60, 4), (600, 7)] {
            let mut machine = Machine::new(settings, now);
            let silence = Duration::from_secs(silence);
            assert_eq!(streams_until_spoken_to(&mut machine, &mut now, silence), streams, "{silence:?}");
            assert_eq!(machine.position(), Some(Revision::new(5)));
            // From then on silence is noticed as soon as ever.
            assert_eq!(machine.wake_at(), now + settings.stalled_after);
        }
    }
}
