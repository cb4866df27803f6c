//! Tests that need something the machine may not have: a mount, the network for another program.
//!
//! Such a test says that it did not run. Where everything is meant to be there, `SETPOINT_TEST_ALL=1` makes that a failure: what
//! is passed over is checked nowhere.

/// Call instead of running the test, and return. Panics if the environment says that nothing may be passed over.
#[expect(clippy::print_stderr, reason = "the test runner shows why it was skipped")]
pub fn skipped(reason: &str) {
    let all = std::env::var("SETPOINT_TEST_ALL").is_ok_and(|value| value == "1");
    assert!(!all, "SETPOINT_TEST_ALL=1, but this test cannot run: {reason}");
    eprintln!("SKIPPED, nothing was tested: {reason}");
}
