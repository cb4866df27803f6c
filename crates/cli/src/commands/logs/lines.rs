//! One replica's log, line by line.

use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use setpoint_client::LogStream;

use crate::failure::Failure;

/// Lines, each with the replica it is of.
pub type Lines = Pin<Box<dyn Stream<Item = (String, Result<String, Failure>)> + Send>>;

/// Longer lines are broken: an agent breaks them long before.
const LINE_BYTES_MAX: usize = 4 << 20;

/// What an unfold carries from line to line.
struct Reading {
    stream: LogStream,
    rest: Vec<u8>,
    over: bool,
}

pub fn lines(replica: String, stream: LogStream) -> Lines {
    let reading = Reading { stream, rest: Vec::new(), over: false };
    let lines = futures::stream::unfold(reading, |mut reading| async move {
        let line = reading.next().await?;
        Some((line, reading))
    });
    lines.map(move |line| (replica.clone(), line)).boxed()
}

impl Reading {
    async fn next(&mut self) -> Option<Result<String, Failure>> {
        loop {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let full = self.rest.len() >= LINE_BYTES_MAX;
            if let Some(end) = end.or_else(|| full.then(|| self.rest.len() - 1)) {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(Ok(text(&line)));
            }
            if self.over {
                let last = std::mem::take(&mut self.rest);
                return (!last.is_empty()).then(|| Ok(text(&last)));
            }
            match self.stream.next().await {
                Ok(Some(bytes)) => self.rest.extend_from_slice(&bytes),
                Ok(None) => self.over = true,
                Err(error) => {
                    self.over = true;
                    self.rest.clear();
                    let failure = Failure::from(error);
                    let text = format!("the log was cut: {failure}; ask again with --since");
                    return Some(Err(Failure::new(failure.exit(), text)));
                }
            }
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned()
}
