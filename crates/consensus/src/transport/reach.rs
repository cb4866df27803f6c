//! Whether a peer can be reached, told to the log when it changes.
//!
//! openraft reports every single failed call, many a second; this says it once, and once when it is over. A call or
//! two that fail on a busy machine are no news.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub struct Reach(Mutex<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Reached,
    /// Nothing has worked since.
    Failing { since: Instant },
    /// It was said that the peer cannot be reached.
    Lost,
}

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Lost,
    Back,
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "cannot be reached",
            Self::Back => "is reached again",
        })
    }
}

impl Reach {
    pub fn worked(&self) -> Option<News> {
        let before = std::mem::take(&mut *self.0.lock());
        (before == State::Lost).then_some(News::Back)
    }

    /// A call failed, and as long as all do so for `patience` the peer is lost.
    pub fn failed(&self, patience: Duration, now: Instant) -> Option<News> {
        let mut state = self.0.lock();
        match *state {
            State::Reached => *state = State::Failing { since: now },
            State::Failing { since } if now.saturating_duration_since(since) >= patience => {
                *state = State::Lost;
                return Some(News::Lost);
            }
            State::Failing { .. } | State::Lost => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_and_so_is_its_end() {
        let (reach, patience, start) = (Reach::default(), Duration::from_secs(1), Instant::now());
        let failed = |after: Duration| reach.failed(patience, start + after);
        assert_eq!((failed(Duration::ZERO), failed(patience / 2), reach.worked()), (None, None, None));
        assert_eq!(failed(patience), None, "what worked in between counts");
        assert_eq!((failed(patience * 2), failed(patience * 3)), (Some(News::Lost), None));
        assert_eq!((reach.worked(), reach.worked()), (Some(News::Back), None));
    }
}
