//! Joining a cluster that may not be able to take anybody in right now.
//!
//! It may be electing a leader, be busy with another learner, or not be up yet where everything is started together. All of
//! that passes, so the node asks again for a while and says in its log what keeps it. What does not pass ends it at once.
//! Not here: asking once (`setpoint_consensus::join`).

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_consensus::{Admission, Connector, JoinError, Newcomer};
use tokio::time::{Instant, sleep};

/// How long the cluster may keep us waiting: about what another learner takes to copy a lot of data.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two attempts, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long one member may take to answer; a change of the membership waits for a quorum.
const ANSWER_PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum JoiningError {
    #[error("the cluster could not be joined")]
    Refused(#[source] JoinError),
    #[error("the cluster could not be joined in {} seconds; start the node again once it can be", PATIENCE.as_secs())]
    InVain(#[source] JoinError),
}

/// Becomes a member, by asking at `seeds`.
pub async fn join(
    connector: &dyn Connector,
    seeds: &[String],
    newcomer: &Newcomer,
) -> Result<Admission, JoiningError> {
    patiently(async || setpoint_consensus::join(connector, seeds, newcomer, ANSWER_PATIENCE).await).await
}

async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, JoinError>) -> Result<T, JoiningError> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = PAUSE_MIN;
    // As many as there are attempts, at most.
    let mut told = BTreeSet::new();
    loop {
        let problem = match ask().await {
            Ok(admission) => return Ok(admission),
            Err(error) if error.is_passing() => error,
            Err(error) => return Err(JoiningError::Refused(error)),
        };
        if Instant::now() + pause > deadline {
            return Err(JoiningError::InVain(problem));
        }
        if told.insert(problem.to_string()) {
            tracing::warn!("{problem}; asking again, for {} seconds in all", PATIENCE.as_secs());
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_now() -> JoinError {
        JoinError::NotNow("too many learners".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_waited_for() {
        let no_leader = || JoinError::Unavailable { asked: 1, problem: "no leader".to_owned() };
        let mut answers = vec![Ok(7), Err(not_now()), Err(no_leader()), Err(not_now())];
        let joined = patiently(async || answers.pop().expect("it asks until it is taken in")).await;
        assert!(matches!(joined, Ok(7)), "{joined:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_ends_it_at_once() {
        let mut asked = 0;
        let joined: Result<(), _> = patiently(async || {
            asked += 1;
            Err(JoinError::Refused("the address is a voter's".to_owned()))
        })
        .await;
        assert!(matches!(joined, Err(JoiningError::Refused(_))), "{joined:?}");
        assert_eq!(asked, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let begun = Instant::now();
        let mut asked = 0;
        let joined: Result<(), _> = patiently(async || {
            asked += 1;
            Err(not_now())
        })
        .await;
        let error = joined.expect_err("nobody takes it in");
        assert!(matches!(error, JoiningError::InVain(JoinError::NotNow(_))), "{error:?}");
        assert!(begun.elapsed() <= PATIENCE && begun.elapsed() + PAUSE_MAX >= PATIENCE);
        assert!((100..200).contains(&asked), "{asked} times, with pauses");
    }
}
