//! A command in a process's run: a guest, and what goes in and comes out of it.

use bytes::BytesMut;
use setpoint_client::{Gone, HostInput, HostOutput, Said};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;

use crate::runtime::RunId;
use crate::runtime::process::ProcessRuntime;
use crate::runtime::process::guest::{INPUT_END, pieces};

/// How much is taken from a pipe at once.
const CHUNK_BYTES: usize = 32 << 10;

/// Where a command's output goes.
#[derive(Clone, Copy)]
enum To {
    Output,
    Errors,
}

/// Runs the command that the client says, to its end or the client's.
pub async fn serve(
    processes: &ProcessRuntime,
    run: &RunId,
    mut input: HostInput,
    output: HostOutput,
) -> Result<(), Gone> {
    let Some(Said::Run { command, interactive }) = input.next().await else { return Err(Gone) };
    let mut guest = match processes.invite(run, &command) {
        Ok(guest) => guest,
        Err(error) => {
            let text = format!("no command can be started here: {error}");
            return output.unavailable(text, input).await;
        }
    };
    let (stdin, stdout, stderr) = (guest.stdin.take(), guest.stdout.take(), guest.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else { return Err(Gone) };
    let ended = async {
        let (out, errors) =
            tokio::join!(pass_on(stdout, To::Output, &output), pass_on(stderr, To::Errors, &output));
        out.and(errors)?;
        let status = guest.wait().await.ok().and_then(|status| status.code());
        // Without a code what watched over the command was killed; so is the command, then.
        Ok(status.and_then(|code| u32::try_from(code).ok()).unwrap_or(128 + 9))
    };
    // When this returns, the guest's standard input is closed, and it ends with all it has started.
    let code = tokio::select! {
        code = ended => code?,
        () = feed(stdin, interactive, &mut input) => return Err(Gone),
        () = output.closed() => return Err(Gone),
    };
    output.end(code, input).await
}

/// Gives a guest what the client says, until the session is over.
async fn feed(mut stdin: ChildStdin, interactive: bool, input: &mut HostInput) {
    let mut open = interactive;
    if !interactive {
        stdin.write_all(&INPUT_END).await.ok();
    }
    while let Some(said) = input.next().await {
        let sent = match said {
            Said::Input(bytes) if open => pieces(&bytes),
            Said::InputEnd if open => {
                open = false;
                INPUT_END.to_vec()
            }
            _ => continue,
        };
        // One that has ended is found by its output.
        stdin.write_all(&sent).await.ok();
    }
}

async fn pass_on(mut pipe: impl AsyncRead + Unpin, to: To, output: &HostOutput) -> Result<(), Gone> {
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(CHUNK_BYTES);
        match pipe.read_buf(&mut bytes).await {
            Ok(1..) => {}
            _ => return Ok(()),
        }
        let read = bytes.split().freeze();
        match to {
            To::Output => output.output(read).await?,
            To::Errors => output.errors(read).await?,
        }
    }
}
