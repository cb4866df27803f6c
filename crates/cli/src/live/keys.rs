//! Keys, as they are pressed: without a line's end to wait for, and without showing them.
//!
//! The terminal's mode is changed by `stty`, which every system with terminals has, and put back when this is dropped. Where standard
//! input is no terminal nothing is read from it: it belongs to somebody else.

use std::io::{Read, empty};
use std::process::{Command, Stdio};

use tokio::sync::mpsc;

use crate::session::Session;

/// Keys that end a view: q, Q, and Ctrl-D, which a terminal hands on as a letter in this mode.
const QUIT: [u8; 3] = [b'q', b'Q', 4];

/// What is pressed on the terminal of a session.
///
/// **Guarantees** that the terminal is as it was once this is dropped. **Does not promise** that for a process that is killed: `reset`
/// puts a terminal right.
pub struct Keys {
    pressed: mpsc::Receiver<u8>,
    /// What `stty` needs to put the terminal back.
    before: Option<String>,
}

impl Keys {
    /// Takes the session's input, if a person is there.
    pub fn of(session: &mut Session) -> Self {
        let (send, pressed) = mpsc::channel(1);
        let before = if session.stage.terminal.input { stty(&["-g"]) } else { None };
        if before.is_some() {
            // Ctrl-C stays a signal.
            stty(&["-icanon", "-echo", "min", "1", "time", "0"]);
            let mut input = std::mem::replace(&mut session.stage.input, Box::new(empty()));
            // It waits for a key as long as the program lives, which does not wait for it (`main`).
            std::thread::spawn(move || {
                let mut key = [0];
                while input.read_exact(&mut key).is_ok() && send.blocking_send(key[0]).is_ok() {}
            });
        }
        Self { pressed, before }
    }

    /// Until a key is pressed that ends a view. For ever, if there are no keys.
    pub async fn quit(&mut self) {
        while let Some(key) = self.pressed.recv().await {
            if QUIT.contains(&key) {
                return;
            }
        }
        std::future::pending().await
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            stty(&[before.trim()]);
        }
    }
}

fn stty(arguments: &[&str]) -> Option<String> {
    let output = Command::new("stty").args(arguments).stdin(Stdio::inherit()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
