//! A view that is drawn again and again on a terminal, until `q` or Ctrl-C; anywhere else it is written once.
//!
//! - [`keys`]: what is pressed meanwhile, and the terminal's mode for it

mod keys;

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{Done, Session};

use keys::Keys;

/// How a live view is shown.
#[derive(Args, Clone, Copy, Debug)]
pub struct Live {
    /// Once, also on a terminal. Otherwise it is drawn again until `q` or Ctrl-C
    #[arg(long)]
    pub once: bool,
    /// How often it is drawn
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub every: Duration,
}

/// The other screen of a terminal, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// As fast as anybody can look.
const EVERY_MIN: Duration = Duration::from_millis(200);

/// What happens while a frame is shown, or made.
enum Happened {
    /// Enough was seen.
    Quit,
    /// The window has another size.
    Resized,
}

/// All that a view listens to.
struct Watcher {
    keys: Keys,
    end: [Signal; 2],
    resized: Signal,
}

impl Live {
    /// Draws what `frame` makes. Of a frame that fails it is said why, above the last one that did not: the next may not fail.
    pub async fn show(
        self,
        session: &mut Session,
        mut frame: impl AsyncFnMut(&mut Session) -> Result<String, Failure>,
    ) -> Done {
        if self.once || !session.stage.terminal.out {
            let text = frame(session).await?;
            session.write(&text)?;
            return Ok(Exit::Done);
        }
        // The first has to come off: a typing mistake is no view.
        let first = frame(session).await?;
        let mut watcher = Watcher::new(session)?;
        session.write(ENTER)?;
        let drawn = self.draw(session, first, &mut watcher, &mut frame).await;
        session.write(LEAVE)?;
        drawn
    }

    async fn draw(
        self,
        session: &mut Session,
        first: String,
        watcher: &mut Watcher,
        frame: &mut impl AsyncFnMut(&mut Session) -> Result<String, Failure>,
    ) -> Done {
        let (mut good, mut text) = (first.clone(), first);
        loop {
            let next = Instant::now() + self.every.max(EVERY_MIN);
            loop {
                session.write(&fitted(&text, size(session)))?;
                session.flush()?;
                tokio::select! {
                    happened = watcher.next() => match happened {
                        Happened::Quit => return Ok(Exit::Done),
                        Happened::Resized => {}
                    },
                    () = sleep_until(next) => break,
                }
            }
            let made = tokio::select! {
                () = watcher.quit() => return Ok(Exit::Done),
                made = frame(session) => made,
            };
            text = match made {
                Ok(made) => {
                    good.clone_from(&made);
                    made
                }
                Err(failure) => format!("{failure}\nBefore, it was:\n\n{good}"),
            };
        }
    }
}

impl Watcher {
    fn new(session: &mut Session) -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("signals: {error}")));
        let end = [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?];
        Ok(Self { keys: Keys::of(session), end, resized: listen(SignalKind::window_change())? })
    }

    async fn next(&mut self) -> Happened {
        let [interrupt, terminate] = &mut self.end;
        tokio::select! {
            () = self.keys.quit() => Happened::Quit,
            _ = interrupt.recv() => Happened::Quit,
            _ = terminate.recv() => Happened::Quit,
            _ = self.resized.recv() => Happened::Resized,
        }
    }

    /// A window that changes its size while a frame is made is drawn with that frame.
    async fn quit(&mut self) {
        while !matches!(self.next().await, Happened::Quit) {}
    }
}

/// Columns and lines, by the environment or by asking the terminal.
fn size(session: &Session) -> (usize, usize) {
    let number = |name: &str| session.stage.variable(name).and_then(|text| text.parse::<usize>().ok());
    if let (Some(columns), Some(lines)) = (number("COLUMNS"), number("LINES")) {
        return (columns, lines);
    }
    let asked = Command::new("stty").arg("size").stdin(Stdio::inherit()).stderr(Stdio::null()).output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<usize>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(lines), Some(columns)) if lines > 0 && columns > 0 => (columns, lines),
        _ => (80, 24),
    }
}

/// A frame for a screen of this size: what does not fit is cut, and nothing of the frame before stays.
fn fitted(text: &str, (columns, lines): (usize, usize)) -> String {
    let mut drawn = String::from("\x1b[H");
    let all: Vec<&str> = text.lines().collect();
    let shown = if all.len() > lines.saturating_sub(1) { lines.saturating_sub(2) } else { all.len() };
    for line in &all[..shown] {
        drawn.push_str(&cut(line, columns));
        drawn.push_str("\x1b[0m\x1b[K\r\n");
    }
    if shown < all.len() {
        drawn.push_str(&format!("… {} more lines\x1b[K\r\n", all.len() - shown));
    } else if shown + 2 < lines {
        drawn.push_str("\x1b[K\r\n\x1b[2mq quits\x1b[0m\x1b[K");
    }
    drawn.push_str("\x1b[J");
    drawn
}

/// So many visible letters; escapes take no room.
fn cut(line: &str, columns: usize) -> String {
    let (mut shown, mut seen, mut escape) = (String::new(), 0, false);
    for letter in line.chars() {
        if letter == '\x1b' {
            escape = true;
        } else if escape {
            escape = !letter.is_ascii_alphabetic();
        } else {
            seen += 1;
            if seen > columns {
                break;
            }
        }
        shown.push(letter);
    }
    shown
}

/// `███░░`: how much of a whole.
pub fn bar(part: u64, whole: u64, width: usize) -> String {
    let full = match whole {
        0 => 0,
        _ => usize::try_from(part.min(whole) * width as u64 / whole).unwrap_or(width),
    };
    "█".repeat(full) + &"░".repeat(width - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_without_tearing_escapes() {
        let text = "\x1b[32mgreen\x1b[0m and more\nb\nc\nd\n";
        let drawn = fitted(text, (7, 4));
        assert_eq!(
            drawn,
            "\x1b[H\x1b[32mgreen\x1b[0m a\x1b[0m\x1b[K\r\nb\x1b[0m\x1b[K\r\n… 2 more lines\x1b[K\r\n\x1b[J"
        );
        assert!(fitted(text, (40, 7)).ends_with("\x1b[2mq quits\x1b[0m\x1b[K\x1b[J"), "where there is room");
        assert_eq!(bar(1, 2, 4), "██░░");
        assert_eq!(bar(9, 2, 4), "████");
        assert_eq!(bar(1, 0, 4), "░░░░");
    }
}
