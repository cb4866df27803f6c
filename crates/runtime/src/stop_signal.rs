//! How a process is asked to stop: what a program hands to [`crate::Manager::run`].

use tokio::signal::unix::{SignalKind, signal};

/// Ends when somebody asks the process to stop: by Ctrl-C, or by SIGTERM, as supervisors and containers do.
///
/// **Guarantees**: from when it is first polled neither signal ends the process by itself, so that a manager has the time to let runs
/// end and to give its leases back. **Does not promise** anything about SIGKILL, nor where signals cannot be listened for: then they
/// end the process as ever, and its leases run out.
pub async fn stop_signal() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        },
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!(%error, "signals cannot be listened for: they end this process at once");
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn both_signals_are_heard_and_end_nobody() {
        for asked in ["-INT", "-TERM"] {
            let mut stopped = Box::pin(stop_signal());
            assert!(futures::poll!(&mut stopped).is_pending(), "nobody has asked yet");
            let sent = Command::new("kill").args([asked, &std::process::id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "{asked} was sent");
            timeout(Duration::from_secs(10), stopped).await.expect(asked);
        }
    }
}
