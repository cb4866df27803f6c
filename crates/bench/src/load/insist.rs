//! A request sent until it is done: a machine that is busy with something else should not fail a row before it begins.
//!
//! Only for what prepares a row, and only for requests that may be done twice. What a row measures is sent once.

use std::future::Future;
use std::time::Duration;

use tonic::{Code, Status};

const TRIES: usize = 30;
const PAUSE: Duration = Duration::from_millis(500);

/// Sends a request again while the server says that it could not be done now.
pub async fn insist<T, F>(call: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    for _ in 1..TRIES {
        match call().await {
            Err(status) if is_passing(status.code()) => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
    call().await
}

fn is_passing(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn calls(outcome: impl Fn(usize) -> Result<(), Status>) -> (Result<(), Code>, usize) {
        let calls = AtomicUsize::new(0);
        let done = insist(async || outcome(calls.fetch_add(1, Ordering::Relaxed))).await;
        (done.map_err(|status| status.code()), calls.into_inner())
    }

    #[tokio::test]
    async fn a_refusal_is_final_and_what_passes_is_waited_for() {
        assert_eq!(calls(|_| Ok(())).await, (Ok(()), 1));
        assert_eq!(calls(|_| Err(Status::invalid_argument("no"))).await, (Err(Code::InvalidArgument), 1));
        let once = |call| if call == 0 { Err(Status::unavailable("soon")) } else { Ok(()) };
        assert_eq!(calls(once).await, (Ok(()), 2));
    }
}
