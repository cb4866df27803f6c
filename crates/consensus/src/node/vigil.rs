//! Whether the leader that openraft names is still there.
//!
//! openraft remembers who won the last election it knows of; it never takes that back, so a node that is cut off would
//! name a leader for ever. Here a leader counts only while it shows signs of life: on a follower its appends and
//! heartbeats, on the leader itself the acknowledgements of a quorum. Nothing safe depends on it, only what clients are
//! told: linearizable reads and writes ask a quorum anyway.

use std::time::Duration;

use parking_lot::Mutex;
use setpoint_types::NodeId;
use tokio::time::Instant;

/// One leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    pub leader: NodeId,
    pub term: u64,
}

/// When a leader was last heard. Noted where its messages arrive.
#[derive(Debug, Default)]
pub struct Hearing(Mutex<Option<(Leadership, Instant)>>);

impl Hearing {
    pub fn note(&self, from: Leadership) {
        let mut heard = self.0.lock();
        // A deposed leader that does not know it yet must not drown out its successor.
        if heard.is_none_or(|(known, _)| known.term <= from.term) {
            *heard = Some((from, Instant::now()));
        }
    }

    pub fn last(&self, of: Leadership) -> Option<Instant> {
        self.0.lock().and_then(|(heard, at)| (heard == of).then_some(at))
    }
}

/// Counts the silence of a leader. Only time in which we looked counts: whoever was stopped or starved for a while has
/// missed signs that are still on their way.
#[derive(Debug)]
pub struct Vigil {
    silence_max: Duration,
    of: Option<Leadership>,
    last: Option<Instant>,
    silence: Duration,
    looked: Option<Instant>,
}

/// The most that passes between two looks of a node that is awake.
const LOOK_MAX: Duration = Duration::from_millis(250);
/// A sign may be reported with this much of jitter: openraft tells only how old an acknowledgement is.
const GRAIN: Duration = Duration::from_millis(10);

impl Vigil {
    pub fn new(silence_max: Duration) -> Self {
        Self { silence_max, of: None, last: None, silence: Duration::ZERO, looked: None }
    }

    /// True if the leader's last sign of life, if there was any, is recent enough.
    pub fn look(&mut self, of: Leadership, sign: Option<Instant>, now: Instant) -> bool {
        let since = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        self.looked = Some(now);
        let is_new = match (sign, self.last) {
            (Some(sign), Some(last)) => sign > last + GRAIN,
            (sign, last) => sign.is_some() != last.is_some(),
        };
        if self.of != Some(of) || is_new {
            (self.of, self.last, self.silence) = (Some(of), sign, Duration::ZERO);
        } else {
            self.silence = self.silence.saturating_add(since.min(LOOK_MAX));
        }
        sign.is_some() && self.silence < self.silence_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(2);
    const TICK: Duration = Duration::from_millis(50);
    const FIRST: Leadership = Leadership { leader: NodeId(1), term: 3 };

    #[test]
    fn a_silent_leader_is_lost_and_comes_back_with_its_first_sign() {
        let (mut vigil, mut now) = (Vigil::new(MAX), Instant::now());
        assert!(!vigil.look(FIRST, None, now), "nobody has heard it yet");
        let mut sign = now;
        for _ in 0..100 {
            (now, sign) = (now + TICK, sign + TICK);
            assert!(vigil.look(FIRST, Some(sign), now));
        }
        let mut looks = 0;
        while vigil.look(FIRST, Some(sign), now) {
            (now, looks) = (now + TICK, looks + 1);
        }
        assert_eq!(TICK * looks, MAX, "it is lost exactly then");
        assert!(!vigil.look(FIRST, Some(sign), now));
        assert!(vigil.look(FIRST, Some(now), now), "one sign is enough");
        let next = Leadership { leader: NodeId(2), term: 4 };
        assert!(!vigil.look(next, None, now), "another leader is another matter");
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let (mut vigil, now) = (Vigil::new(MAX), Instant::now());
        assert!(vigil.look(FIRST, Some(now), now));
        assert!(vigil.look(FIRST, Some(now), now + MAX * 10), "the node was stopped, not its leader");
    }

    #[test]
    fn a_deposed_leader_is_not_heard_over_its_successor() {
        let hearing = Hearing::default();
        hearing.note(FIRST);
        assert!(hearing.last(FIRST).is_some());
        let next = Leadership { leader: NodeId(2), term: 4 };
        hearing.note(next);
        hearing.note(FIRST);
        assert!(hearing.last(FIRST).is_none() && hearing.last(next).is_some());
    }
}
