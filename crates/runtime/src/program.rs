//! How a program says why it ended: in one sentence, to a person, and in its exit code, to a supervisor.

use std::error::Error;
use std::process::ExitCode;

use crate::sentence::sentence;

/// What `main` returns: success, or one line on standard error with the reason and all its causes.
///
/// ```no_run
/// # use std::{error::Error, process::ExitCode};
/// # async fn run() -> Result<(), Box<dyn Error>> { Ok(()) }
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     setpoint_runtime::exit_code(run().await)
/// }
/// ```
///
/// **Guarantees** that a failure is never silent and never more than a line, whatever its causes say. **Does not promise** that the line
/// is seen: where standard error is closed, the exit code is all there is.
pub fn exit_code(ended: Result<(), Box<dyn Error>>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "this is where a program speaks to whoever started it")]
            {
                eprintln!("error: {}", line(&*error));
            }
            ExitCode::FAILURE
        }
    }
}

fn line(error: &(dyn Error + 'static)) -> String {
    sentence(error).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the kind cannot be\n  defined")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_failure_is_one_line_with_its_causes() {
        let error = Outer(std::io::Error::other("nobody answers"));
        assert_eq!(line(&error), "the kind cannot be defined: nobody answers");
        assert_eq!(exit_code(Err(Box::new(error))), ExitCode::FAILURE);
        assert_eq!(exit_code(Ok(())), ExitCode::SUCCESS);
    }
}
